package app

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pointsman/pointsman/envoy"
)

// childStop is how long Envoy may take to end after SIGTERM before it is killed.
const childStop = 5 * time.Second

// child is the Envoy that `pointsman run` started; without one it never dies and
// there is nothing to stop.
type child struct {
	process *os.Process
	died    chan error    // one error if it ends before stop
	ended   chan struct{} // closed when it has ended
}

// startEnvoy starts the Envoy child, if there is to be one. A start that fails is
// told like a death.
func (a *App) startEnvoy(ctx context.Context, g *errgroup.Group) *child {
	c := &child{died: make(chan error, 1), ended: make(chan struct{})}
	if a.opts.EnvoyPath == "" {
		close(c.ended)
		return c
	}
	cmd, err := a.envoyCommand()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		close(c.ended)
		c.died <- fmt.Errorf("start Envoy: %w", err)
		return c
	}
	c.process = cmd.Process
	a.events.Info("Envoy started", "path", a.opts.EnvoyPath, "pid", cmd.Process.Pid)
	g.Go(func() error {
		err := cmd.Wait()
		close(c.ended)
		c.died <- fmt.Errorf("the Envoy child has died: %s", exitText(cmd, err))
		return nil
	})
	context.AfterFunc(ctx, c.stop)
	return c
}

func (a *App) envoyCommand() (*exec.Cmd, error) {
	bootstrap, err := envoy.Bootstrap(a.cfg.Load())
	if err != nil {
		return nil, err
	}
	path := filepath.Join(a.tempDir, "envoy.yaml")
	if err := os.WriteFile(path, bootstrap, 0o600); err != nil {
		return nil, err
	}
	// A listener change drains for an hour, so that running answers end by
	// themselves; a dynamic base id allows a second Envoy on the host.
	cmd := exec.Command(a.opts.EnvoyPath, "--config-path", path, "--drain-time-s", "3600",
		"--use-dynamic-base-id", "--log-level", "warning")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	// Its own process group, so that Ctrl-C reaches pointsman only; killed with pointsman.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return cmd, nil
}

// stop ends Envoy and waits for it. It may be called more than once.
func (c *child) stop() {
	if c.process == nil {
		return
	}
	_ = c.process.Signal(syscall.SIGTERM) // fails only if it has ended
	select {
	case <-c.ended:
	case <-time.After(childStop):
		_ = c.process.Kill()
		<-c.ended
	}
}

func exitText(cmd *exec.Cmd, err error) string {
	if cmd.ProcessState != nil {
		return cmd.ProcessState.String()
	}
	return err.Error()
}
