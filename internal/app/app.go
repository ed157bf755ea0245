// Package app wires pointsman together: it builds everything from the configuration,
// owns all lifetimes, and puts changed configurations into force. It is the only
// package that sees all others, and decides nothing about requests; cmd/pointsman
// calls it.
//
// An App is made, run once and thrown away. What happens to it, signals, changed
// files and the end, happens on one goroutine (control); readers of the configuration
// see the old one or the new one.
package app

import (
	"context"
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
	// NodeID names this replica; "" is allowed.
	NodeID string
	Build  Build
	// Stderr takes the log, and what the Envoy child says. Both may write at once.
	Stderr io.Writer
	// Signals drive the end and the reload: SIGTERM, SIGINT, SIGHUP. Never closed.
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

	file     lastFile
	chain    envoy.Chain    // of the clusters in force
	started  *config.Config // the first one: what a reload cannot change is as it says
	cfg      atomic.Pointer[config.Config]
	retry    atomic.Pointer[map[int]bool] // statuses after which Envoy tries the next entry
	draining atomic.Bool
	tempDir  string // of `pointsman run`
}

// New reads the configuration and builds everything. Nothing is started but the two
// listeners, whose queues hold early connections until Run. The error may be
// config.Faults.
func New(opts Options) (*App, error) {
	a := &App{opts: opts}
	data, err := config.Read(opts.ConfigPath)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", opts.ConfigPath, err)
	}
	a.file.content = data
	cfg, err := config.Parse(opts.ConfigPath, data)
	if err != nil {
		return nil, err
	}
	a.log = logs.New(opts.Stderr, cfg.Log.Format)
	a.events = a.log.Events()
	if err := a.build(cfg); err != nil {
		a.close()
		a.log.Flush()
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
	a.started = cfg

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
	// An Envoy that meets an empty store drops its clusters, so they are there before
	// anybody can connect.
	if err := a.install(context.Background(), cfg); err != nil {
		return err
	}

	a.grpc = NewGRPCServer()
	a.health = health.NewServer()
	healthpb.RegisterHealthServer(a.grpc, a.health)
	a.extproc = extproc.New(extproc.Options{
		Router: a.router, Ledger: a.ledger, Log: a.events, Start: start,
		External: cfg.Envoy.Clusters == config.ClustersExternal,
		Chained:  func() bool { return a.xds.Chain() >= envoy.ChainRewrite },
	})
	a.extproc.Register(a.grpc)
	outcome.New(outcome.Options{Ledger: a.ledger, Log: a.events}).Register(a.grpc)
	a.xds.Register(a.grpc)
	a.admin = admin.New(admin.Options{
		NotReady: a.notReady,
		Metrics:  promhttp.HandlerFor(reg, promhttp.HandlerOpts{}),
		Log:      a.events,
	})

	var err error
	if a.adminLis, err = net.Listen("tcp", cfg.Listen.Admin); err != nil {
		return fmt.Errorf("listen.admin: %w", err)
	}
	a.grpcLis, err = listenGRPC(cfg.Listen)
	return err
}

// notReady implements /readyz.
func (a *App) notReady() []string {
	var why []string
	if a.cfg.Load().Envoy.Clusters != config.ClustersExternal && !a.xds.Ready() {
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
