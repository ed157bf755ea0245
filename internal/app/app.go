// Package app wires pointsman together: it builds everything from the configuration,
// owns all lifetimes, and puts changed configurations into force. It is the only
// package that sees all others; cmd/pointsman calls it.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/pointsman/pointsman/envoy"
	"github.com/pointsman/pointsman/extproc"
	"github.com/pointsman/pointsman/internal/admin"
	"github.com/pointsman/pointsman/internal/config"
	"github.com/pointsman/pointsman/internal/ledger"
	"github.com/pointsman/pointsman/internal/logs"
	"github.com/pointsman/pointsman/internal/metrics"
	"github.com/pointsman/pointsman/internal/outcome"
	"github.com/pointsman/pointsman/internal/routing"
	"github.com/pointsman/pointsman/internal/tracker"
	"github.com/pointsman/pointsman/internal/upstream"
	"github.com/pointsman/pointsman/xds"
)

// Options say how to run.
type Options struct {
	ConfigPath string
	// EnvoyPath is the Envoy to run as a child; "" = serve only.
	EnvoyPath string
	// NodeID names this replica: POINTSMAN_NODE_ID, else the host name.
	NodeID string
	Build  Build
	Stderr io.Writer
	// Signals drive the end and the reload: SIGTERM, SIGINT, SIGHUP.
	Signals <-chan os.Signal
}

// Build is what pointsman_build_info and `pointsman version` say.
type Build struct{ Version, Revision, Go string }

// App is one running pointsman.
type App struct {
	opts    Options
	log     *logs.Log
	events  *slog.Logger
	reqLog  *logs.Requests
	tracker *tracker.Tracker
	router  *routing.Router
	ledger  *ledger.Ledger
	metrics *metrics.Metrics
	extproc *extproc.Server
	xds     *xds.Server
	sources *upstream.Sources
	grpc    *grpc.Server
	health  *health.Server
	admin   *admin.Server

	grpcLis, adminLis net.Listener

	file     []byte // content of the configuration file when it was last looked at
	unmet    bool   // it was refused for what it refers to, which may be there by now
	chain    envoy.Chain
	cfg      atomic.Pointer[config.Config]
	retry    atomic.Pointer[map[int]bool] // statuses after which Envoy tries the next entry
	maxBody  int64                        // the largest body that the gRPC server takes
	draining atomic.Bool
	tempDir  string // of `pointsman run`
}

// New reads the configuration and builds everything. Nothing is started but the two
// listeners, whose queues hold early connections until Run. The error may be
// config.Faults.
func New(opts Options) (*App, error) {
	a := &App{opts: opts}
	var err error
	if a.file, err = config.Read(opts.ConfigPath); err != nil {
		return nil, fmt.Errorf("%s: %w", opts.ConfigPath, err)
	}
	cfg, err := config.Parse(opts.ConfigPath, a.file)
	if err != nil {
		return nil, err
	}
	a.log = logs.New(opts.Stderr, cfg.Log.Format)
	a.log.SetLevel(cfg.Log.Level)
	a.events = a.log.Events()
	if err := a.build(cfg); err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

func (a *App) build(cfg *config.Config) error {
	start := time.Now()
	if a.opts.EnvoyPath != "" {
		dir, err := os.MkdirTemp("", "pointsman-")
		if err != nil {
			return fmt.Errorf("temporary folder: %w", err)
		}
		a.tempDir = dir
		if !cfg.Listen.GRPCSet {
			cfg.Listen.GRPC = config.Address{Network: "unix", Addr: filepath.Join(dir, "grpc.sock")}
		}
	}

	reg := prometheus.NewRegistry()
	registerProcess(reg, a.opts.Build)
	a.metrics = metrics.New(reg)
	a.reqLog = logs.NewRequests(a.log.Requests())
	a.tracker = tracker.New(trackerSettings(cfg))
	a.router = routing.NewRouter(a.tracker, start)
	a.ledger = ledger.New(ledger.Options{
		Prefix:      nodePart(a.opts.NodeID) + "-" + strconv.FormatInt(start.UnixMilli(), 36) + "-",
		Retryable:   func(status int) bool { return (*a.retry.Load())[status] },
		LatencyTTFT: func() bool { return a.cfg.Load().Latency.Label == "ttft" },
		Free:        a.router.Free,
		Sink:        sinks{a.metrics, a.reqLog},
	})
	a.sources = upstream.New(upstream.Options{Log: a.events})
	a.xds = xds.New(xds.Options{Log: a.events, Targets: a.tracker, DrainMax: func() time.Duration { return a.cfg.Load().Drain.Max }})
	reg.MustRegister(&metrics.Gauges{Snapshot: a.router.Snapshot, Proxies: a.xds, Dropped: a.log.Dropped})

	if err := a.install(context.Background(), cfg); err != nil {
		return err
	}

	a.maxBody = max(cfg.Limits.Body, roomyBody)
	a.grpc = NewGRPCServer(a.maxBody)
	a.health = health.NewServer()
	healthpb.RegisterHealthServer(a.grpc, a.health)
	a.extproc = extproc.New(extproc.Options{
		Router: a.router, Ledger: a.ledger, Log: a.events, Start: start,
		External: cfg.Envoy.Clusters == "external",
		Chained:  func() bool { return a.xds.Chain() >= envoy.ChainRewrite },
	})
	a.extproc.Register(a.grpc)
	outcome.New(outcome.Options{Ledger: a.ledger, Log: a.events}).Register(a.grpc)
	a.xds.Register(a.grpc)
	a.admin = admin.New(admin.Options{
		NotReady: a.notReady,
		Metrics:  promhttp.HandlerFor(reg, promhttp.HandlerOpts{}),
	})

	var err error
	if a.adminLis, err = net.Listen("tcp", cfg.Listen.Admin); err != nil {
		return fmt.Errorf("listen.admin: %w", err)
	}
	a.grpcLis, err = listenGRPC(cfg.Listen)
	return err
}

// install puts a configuration into force. The order matters: the tracker must
// know a target before its cluster is accepted, and a removed target must no longer be
// chosen when its cluster may be withdrawn. On an error nothing has changed.
//
// It waits for the names of providers, as long as ctx lives and 5 s at most.
func (a *App) install(ctx context.Context, cfg *config.Config) error {
	loaded, err := a.sources.Load(ctx, cfg)
	if err != nil {
		return err
	}
	resources, err := envoy.BuildOver(cfg, upstreams(loaded.States), a.chain)
	if err != nil {
		return err
	}
	snapshot, err := routing.NewSnapshot(cfg, a.tracker, a.router.Snapshot())
	if err != nil {
		return err
	}
	retry := make(map[int]bool, len(cfg.Retry.OnStatus))
	for _, status := range cfg.Retry.OnStatus {
		retry[status] = true
	}
	a.retry.Store(&retry)
	a.cfg.Store(cfg)
	a.sources.Configure(loaded)
	a.tracker.Configure(trackerSettings(cfg))
	a.router.Swap(snapshot)
	targets, endpoints := snapshot.Targets()
	a.tracker.Retain(targets, endpoints, time.Now())
	a.metrics.Configured(snapshot)
	a.log.SetLevel(cfg.Log.Level)
	a.reqLog.Switch(cfg.Log.Requests)
	for _, w := range cfg.Warnings {
		a.events.Warn("configuration", "warning", w)
	}
	if err := a.xds.Update(resources); err != nil {
		return fmt.Errorf("resources for Envoy: %w", err)
	}
	// Requests that began under a chain may run for as long as answers do, so there is no way back.
	a.chain = resources.Chain
	return nil
}

// refresh gives Envoy the addresses and keys that have changed under the configuration in force.
func (a *App) refresh() {
	resources, err := envoy.BuildOver(a.cfg.Load(), upstreams(a.sources.Now()), a.chain)
	if err == nil {
		err = a.xds.Update(resources)
	}
	if err != nil {
		a.events.Error("changed addresses or keys cannot be given to Envoy", "error", err.Error())
	}
}

// upstreams is what Envoy's resources are made of.
func upstreams(states map[string]upstream.State) map[string]envoy.Upstream {
	authorities := upstream.SystemAuthorities()
	all := make(map[string]envoy.Upstream, len(states))
	for name, s := range states {
		all[name] = envoy.Upstream{Addresses: s.Addresses, Key: s.Key, Authorities: authorities}
	}
	return all
}

// Run serves until a signal ends it, and then returns nil; an error means that
// it could not go on.
func (a *App) Run() error {
	defer a.close()
	logCtx, stopLog := context.WithCancel(context.Background())
	logDone := make(chan struct{})
	go func() { defer close(logDone); _ = a.log.Run(logCtx) }()
	defer func() { stopLog(); <-logDone }()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return a.admin.Serve(ctx, a.adminLis) })
	g.Go(func() error { return a.serveGRPC(ctx) })
	g.Go(func() error { return a.ledger.Run(ctx) })
	g.Go(func() error { return a.xds.Run(ctx) })
	g.Go(func() error { return a.sweep(ctx) })
	changed, moved := make(chan struct{}, 1), make(chan struct{}, 1)
	g.Go(func() error {
		return config.Watch(ctx, a.opts.ConfigPath, func() {
			select {
			case changed <- struct{}{}:
			default: // a reload that has not begun yet will see this change too
			}
		})
	})
	g.Go(func() error {
		return a.sources.Run(ctx, func(map[string]upstream.State) {
			select {
			case moved <- struct{}{}:
			default: // a refresh that has not begun yet will see this change too
			}
		})
	})
	child := a.startEnvoy(ctx, g)
	cfg := a.cfg.Load()
	a.events.Info("started", "version", a.opts.Build.Version, "config", a.opts.ConfigPath,
		"grpc", a.grpcLis.Addr().String(), "admin", a.adminLis.Addr().String(), "envoy_listener", cfg.Envoy.Listener)
	g.Go(func() error {
		defer cancel()
		return a.control(ctx, changed, moved, child)
	})
	err := g.Wait()
	if errors.Is(err, errEnded) {
		err = nil
	}
	if err == nil {
		a.events.Info("ended")
	} else {
		a.events.Error("ended", "error", err.Error())
	}
	return err
}

// sweepEvery is how often state that nothing names any more is looked for.
const sweepEvery = 10 * time.Second

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

// notReady implements /readyz.
func (a *App) notReady() []string {
	var why []string
	if a.cfg.Load().Envoy.Clusters != "external" && !a.xds.Ready() {
		why = append(why, "proxy: none has accepted the listener")
	}
	if a.draining.Load() {
		why = append(why, "draining")
	}
	return why
}

func trackerSettings(cfg *config.Config) tracker.Settings {
	return tracker.Settings{
		LatencyAlpha: cfg.Latency.Alpha, LatencyIdle: cfg.Latency.Idle,
		CooldownBase: cfg.Cooldown.Base, CooldownMax: cfg.Cooldown.Max,
		ForgetAfter: cfg.Tracker.ForgetAfter,
	}
}
