package app

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pointsman/pointsman/internal/config"
	"github.com/pointsman/pointsman/internal/upstream"
)

const (
	// sweepEvery is how often state that nothing names any more is looked for.
	sweepEvery = 10 * time.Second
	// logPatience is how long an output that takes nothing may hold up the end.
	logPatience = 2 * time.Second
)

// Run serves until a signal or ctx ends it, and then returns nil. An error means that it
// could not go on; the log has told it.
func (a *App) Run(ctx context.Context) error {
	defer a.close()
	stopLog := a.startLog()
	defer stopLog()

	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return a.admin.Serve(ctx, a.adminLis) })
	g.Go(func() error { return a.serveGRPC(ctx) })
	g.Go(func() error { return a.ledger.Run(ctx) })
	g.Go(func() error { return a.xds.Run(ctx) })
	g.Go(func() error { return a.sweep(ctx) })
	changed, moved := make(chan struct{}, 1), make(chan struct{}, 1)
	g.Go(func() error { return a.watch(ctx, changed) })
	g.Go(func() error {
		return a.sources.Run(ctx, func(map[string]upstream.State) { notify(moved) })
	})
	a.events.Info("started", "version", a.opts.Build.Version, "config", a.opts.ConfigPath,
		"grpc", a.grpcLis.Addr().String(), "admin", a.adminLis.Addr().String(), "envoy_listener", a.started.Envoy.Listener)
	stopEnvoy := a.startEnvoy(g)
	g.Go(func() error {
		// Envoy ends first, while what it still has to say is heard.
		defer stopEnvoy()
		return a.control(ctx, changed, moved)
	})
	if err := g.Wait(); err != nil && !errors.Is(err, errEnded) {
		a.events.Error("ended", "error", err.Error())
		return err
	}
	a.events.Info("ended")
	return nil
}

// startLog writes the log until the function that it gives is called.
func (a *App) startLog() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = a.log.Run(ctx) // ends with ctx only
	}()
	return func() {
		cancel()
		select {
		case <-done:
		case <-time.After(logPatience):
		}
	}
}

// watch tells control of changes of the file.
func (a *App) watch(ctx context.Context, changed chan<- struct{}) error {
	err := config.Watch(ctx, a.opts.ConfigPath, func() { notify(changed) })
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// notify wakes control, unless it is to wake anyway and will then see this change too.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (a *App) sweep(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			a.tracker.Sweep(now)
		}
	}
}

func (a *App) close() {
	for _, lis := range []net.Listener{a.grpcLis, a.adminLis} {
		if lis != nil {
			_ = lis.Close()
		}
	}
	if a.tempDir != "" {
		_ = os.RemoveAll(a.tempDir)
	}
}
