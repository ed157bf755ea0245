package app

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pointsman/pointsman/envoy"
)

// childStop is how long Envoy may take to end after SIGTERM before it is killed.
const childStop = 5 * time.Second

// startEnvoy runs Envoy, if there is to be one, as a member of the group: that it cannot
// be started or ends by itself is an error. The function that it gives ends Envoy
// and waits for it.
func (a *App) startEnvoy(g *errgroup.Group) (stop func()) {
	if a.opts.EnvoyPath == "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	g.Go(func() error {
		defer close(ended)
		return a.runEnvoy(ctx)
	})
	return func() {
		cancel()
		<-ended
	}
}

// runEnvoy runs Envoy until ctx ends.
func (a *App) runEnvoy(ctx context.Context) error {
	cmd, err := a.envoyCommand(ctx)
	if err != nil {
		return fmt.Errorf("start Envoy: %w", err)
	}
	// The kernel kills Envoy when the thread that started it ends, so this one stays.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start Envoy: %w", err)
	}
	a.events.Info("Envoy started", "path", a.opts.EnvoyPath, "pid", cmd.Process.Pid)
	_ = cmd.Wait() // how it ended tells the state
	if ctx.Err() == nil {
		return fmt.Errorf("the Envoy child has died: %s", cmd.ProcessState)
	}
	a.events.Info("Envoy ended", "state", cmd.ProcessState.String())
	return nil
}

// envoyCommand gives the command whose process is ended with ctx: by SIGTERM, and by
// SIGKILL if it does not obey.
func (a *App) envoyCommand(ctx context.Context) (*exec.Cmd, error) {
	bootstrap, err := envoy.Bootstrap(a.started)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(a.tempDir, "envoy.yaml")
	if err := os.WriteFile(path, bootstrap, 0o600); err != nil {
		return nil, err
	}
	// A listener change drains for an hour, so that running answers end by
	// themselves; a dynamic base id allows a second Envoy on the host.
	cmd := exec.CommandContext(ctx, a.opts.EnvoyPath, "--config-path", path, "--drain-time-s", "3600",
		"--use-dynamic-base-id", "--log-level", "warning")
	cmd.Stdout, cmd.Stderr = a.opts.Stderr, a.opts.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = childStop
	cmd.SysProcAttr = childAttributes()
	return cmd, nil
}
