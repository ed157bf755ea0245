package app

import (
	"bytes"
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/pointsman/pointsman/internal/config"
)

// errEnded ends the process in order.
var errEnded = errors.New("ended")

const (
	// idleBeforeEnd is how long no request may have been open before a draining
	// process ends.
	idleBeforeEnd = 5 * time.Second
	// drainCheck is how often a draining process looks whether it is idle.
	drainCheck = 50 * time.Millisecond
	// reloadResolve is how long a reload waits for names that are new: a change must be in
	// force within 2 s. Names that take longer come later.
	reloadResolve = time.Second
)

// control reacts to signals, to the changed file, to addresses and keys that have moved, and to
// the end of the Envoy child, until one of them ends the process.
func (a *App) control(ctx context.Context, changed, moved <-chan struct{}, child *child) error {
	var drain <-chan struct{} // closed when draining is over
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			a.reload(ctx)
		case <-moved:
			a.refresh()
		case err := <-child.died:
			return err
		case <-drain:
			child.stop()
			return errEnded
		case sig := <-a.opts.Signals:
			switch {
			case sig == syscall.SIGHUP:
				if a.unmet {
					a.file = nil // what it refers to may be there now
				}
				a.reload(ctx)
			case sig == syscall.SIGTERM && drain == nil:
				drain = a.drain(ctx)
			default:
				a.events.Info("ending at once", "signal", signalName(sig))
				child.stop()
				return errEnded
			}
		}
	}
}

// drain makes the process not ready and gives a channel that is closed when it may
// end: no request was open for idleBeforeEnd, or drain.timeout is over.
func (a *App) drain(ctx context.Context) <-chan struct{} {
	a.draining.Store(true)
	a.health.Shutdown() // NOT_SERVING; requests are decided as before
	begin := time.Now()
	timeout := a.cfg.Load().Drain.Timeout
	open, _ := a.extproc.Idle()
	a.events.Info("draining", "open", open, "timeout", timeout.String())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(drainCheck)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-tick.C:
				open, since := a.extproc.Idle()
				if since.Before(begin) {
					since = begin
				}
				if open == 0 && now.Sub(since) >= idleBeforeEnd || now.Sub(begin) >= timeout {
					return
				}
			}
		}
	}()
	return done
}

// reload reads the file again and puts it into force if it changed. A refused
// file changes nothing.
func (a *App) reload(ctx context.Context) {
	data, err := config.Read(a.opts.ConfigPath)
	if err != nil {
		a.refuse(err)
		return
	}
	if bytes.Equal(data, a.file) {
		return
	}
	a.file, a.unmet = data, false
	cfg, err := config.Parse(a.opts.ConfigPath, data)
	if err != nil {
		a.refuse(err)
		return
	}
	old := a.cfg.Load()
	if a.tempDir != "" && !cfg.Listen.GRPCSet {
		cfg.Listen.GRPC = old.Listen.GRPC // the socket in the temporary folder
	}
	ctx, cancel := context.WithTimeout(ctx, reloadResolve)
	defer cancel()
	if err := a.install(ctx, cfg); err != nil {
		a.unmet = true
		a.refuse(err)
		return
	}
	a.events.Info("configuration in force", "routes", len(cfg.Routes), "providers", len(cfg.Providers))
	for _, field := range a.needRestart(old, cfg) {
		a.events.Warn("a changed setting takes effect after a restart only", "field", field)
	}
	if old.Envoy.Listener != cfg.Envoy.Listener {
		a.events.Warn("Envoy's listener is renewed: answers older than its drain time will be cut", "field", "envoy.listener")
	}
}

// needRestart lists the changed settings that only a new process can follow.
func (a *App) needRestart(old, now *config.Config) []string {
	var fields []string
	for _, f := range []struct {
		name    string
		changed bool
	}{
		{"listen.grpc", old.Listen.GRPC != now.Listen.GRPC},
		{"listen.socket_mode", old.Listen.SocketMode != now.Listen.SocketMode},
		{"listen.admin", old.Listen.Admin != now.Listen.Admin},
		{"envoy.admin", old.Envoy.Admin != now.Envoy.Admin},
		{"envoy.clusters", old.Envoy.Clusters != now.Envoy.Clusters},
		{"log.format", old.Log.Format != now.Log.Format},
		{"limits.body", now.Limits.Body > a.maxBody},
	} {
		if f.changed {
			fields = append(fields, f.name)
		}
	}
	return fields
}

// refuse logs every fault of a refused configuration.
func (a *App) refuse(err error) {
	a.metrics.ReloadRefused()
	if faults, ok := errors.AsType[config.Faults](err); ok {
		for _, f := range faults {
			a.events.Error("configuration refused", "fault", f.String())
		}
		return
	}
	a.events.Error("configuration refused", "fault", err.Error())
}

func signalName(sig os.Signal) string {
	if sig == nil {
		return "none"
	}
	return sig.String()
}
