package xds

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pointsman/pointsman/envoy"
	"github.com/pointsman/pointsman/envoy/envoytest"
	"github.com/pointsman/pointsman/internal/config"
	"github.com/pointsman/pointsman/internal/wire"
)

// realLimit is how long a real Envoy may take for anything: milliseconds are
// usual, a busy machine takes more.
const realLimit = 20 * time.Second

// realConfig has n targets that nobody calls.
func realConfig(n int, socket string) *config.Config {
	cfg := &config.Config{
		Listen:          config.Listen{GRPC: config.Address{Network: "unix", Addr: socket}},
		Envoy:           config.Envoy{Listener: "127.0.0.1:0", Admin: "127.0.0.1:0", Clusters: "managed"},
		Timeouts:        config.Timeouts{Connect: time.Second, Idle: time.Minute, Client: time.Minute},
		Retry:           config.Retry{MaxRetries: 2, OnStatus: []int{503}, BaseBackoff: time.Millisecond, MaxBackoff: time.Second},
		Limits:          config.Limits{Body: 1 << 20},
		ResponseHeaders: true,
	}
	for i := range n {
		id := fmt.Sprintf("t%02d", i)
		cfg.Providers = append(cfg.Providers, config.Provider{Name: id, Host: id, Addr: "127.0.0.1:1"})
		cfg.Routes = append(cfg.Routes, config.Route{Model: id, Targets: []config.Target{{Provider: id, Model: "m", ID: id, ProviderIndex: i}}})
	}
	return cfg
}

// upstreams are the addresses of the configuration, and these keys.
func upstreams(cfg *config.Config, keys ...string) map[string]envoy.Upstream {
	up := map[string]envoy.Upstream{}
	for i, pr := range cfg.Providers {
		u := envoy.Upstream{Addresses: []netip.AddrPort{netip.MustParseAddrPort(pr.Addr)}}
		if i < len(keys) {
			u.Key = keys[i]
		}
		up[pr.Name] = u
	}
	return up
}

func realResources(t *testing.T, cfg *config.Config) *envoy.Resources {
	t.Helper()
	res, err := envoy.Build(cfg, upstreams(cfg))
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// serve opens the server's socket; the function that it gives closes it and
// everything behind it.
func (w *world) serve(socket string) (stop func()) {
	w.t.Helper()
	// A closed listener takes its socket file away; one of a killed process does not.
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		w.t.Fatal(err)
	}
	g := grpc.NewServer()
	w.Register(g)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = g.Serve(l)
	}()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			w.stop()
			g.Stop()
			<-served
			<-w.done
		}
	}
	w.t.Cleanup(stop)
	return stop
}

func (w *world) eventuallyUp(n int) {
	w.t.Helper()
	envoytest.Eventually(w.t, realLimit, fmt.Sprint(n, " targets reachable, and ready"), func() error {
		if up := len(strings.Fields(w.board.up())); up != n || !w.Ready() {
			return fmt.Errorf("%d reachable, ready %v", up, w.Ready())
		}
		return nil
	})
}

// Case 394, on the real Envoy: one cluster among 50 that it refuses.
func TestRealEnvoyRejects(t *testing.T) {
	socket := envoytest.SocketPath(t)
	cfg := realConfig(50, socket)
	bootstrap, err := envoy.Bootstrap(cfg)
	if err != nil {
		t.Fatal(err)
	}
	res := realResources(t, cfg)
	bad := wire.ClusterName("t17")
	res.Clusters[bad].TransportSocket = &corev3.TransportSocket{
		Name:       "unheard.of",
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: &anypb.Any{TypeUrl: "type.googleapis.com/unheard.of"}},
	}
	w := newWorld(t, res)
	w.serve(socket)
	e := envoytest.Start(t, bootstrap)
	w.eventuallyUp(49)
	e.Listener(wire.ListenerName)
	if got := w.reason("t17"); !strings.Contains(got, "unheard.of") || strings.Contains(got, "pm|") {
		t.Errorf("reason %q", got)
	}
	wantEqual(t, "counted", w.Rejections()["cluster"], 1)
	wantEqual(t, "logged", w.log.with("resource rejected", bad), 1)
	wantEqual(t, "clusters in Envoy", e.Stat("cluster_manager.active_clusters"), 49+2)

	// The cure is tried by itself.
	w.update(realResources(t, cfg))
	w.eventuallyUp(50)
	wantEqual(t, "reason", w.reason("t17"), "")

	// Envoy drops a response whole for what our own validation lets no one send,
	// and does not say which resource it was.
	w.mu.Lock()
	for _, n := range []string{"pm|n1", "pm|n2", "pm|n3"} {
		c := proto.CloneOf(realResources(t, cfg).Clusters[bad])
		c.Name, c.LoadAssignment.ClusterName = n, n
		if n == "pm|n2" {
			c.ConnectTimeout = &durationpb.Duration{Nanos: -5}
		}
		body, err := anypb.New(c)
		if err != nil {
			t.Fatal(err)
		}
		w.mu.store.resources[clusters][n] = &resource{version: "1", body: body}
		w.mu.store.targets[n] = strings.TrimPrefix(n, "pm|")
	}
	w.wakeAll()
	w.mu.Unlock()
	w.eventuallyUp(52)
	if got := w.reason("n2"); !strings.Contains(got, "duration") {
		t.Errorf("reason %q", got)
	}
}

// A reload that changes everything but the listener's address leaves the listener
// alone, and a restart with the same configuration leaves Envoy alone (case 419
// and case 409, as far as Envoy's own counters tell).
func TestRealEnvoyReloadAndRestart(t *testing.T) {
	socket := envoytest.SocketPath(t)
	cfg := realConfig(20, socket)
	bootstrap, err := envoy.Bootstrap(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, realResources(t, cfg))
	stop := w.serve(socket)
	e := envoytest.Start(t, bootstrap)
	w.eventuallyUp(20)
	addr := e.Listener(wire.ListenerName)

	cfg = realConfig(25, socket)
	cfg.Providers[0].Addr = "127.0.0.1:2"
	cfg.Retry.OnStatus, cfg.Retry.HonourRetryAfter = []int{429}, true
	cfg.Timeouts = config.Timeouts{Connect: time.Second, Idle: time.Second, Client: time.Second}
	cfg.Limits.Body = 64 << 10
	cfg.ResponseHeaders = false
	_, mark := w.board.since(0)
	w.update(realResources(t, cfg))
	w.eventuallyUp(25)
	history, _ := w.board.since(mark)
	if slices.ContainsFunc(history, func(h string) bool { return strings.HasSuffix(h, "false") && h < "t20" }) {
		t.Errorf("a target became unreachable: %v", history)
	}
	envoytest.Eventually(t, realLimit, "the new route", func() error {
		if n := e.Stat("http.pointsman.rds.pointsman.config_reload"); n != 2 {
			return fmt.Errorf("%d reloads", n)
		}
		return nil
	})
	wantEqual(t, "listener changes", e.Stat("listener_manager.listener_modified"), 0)
	wantEqual(t, "cluster changes", e.Stat("cluster_manager.cluster_modified"), 1)

	before := changes(e)
	stop()
	w = newWorld(t, realResources(t, cfg))
	w.serve(socket)
	start := time.Now()
	w.eventuallyUp(25)
	// The bootstrap's back-off brings Envoy back within a second; the rest is the machine's.
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("back after %v", took)
	}
	wantEqual(t, "changes by the restart", changes(e), before)
	wantEqual(t, "the port", e.Listener(wire.ListenerName), addr)

	// What Envoy does with a changed address: one listener, in place.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Envoy.Listener = l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	w.update(realResources(t, cfg))
	envoytest.Eventually(t, realLimit, "the new address", func() error {
		if got := e.Listener(wire.ListenerName); got != cfg.Envoy.Listener {
			return errors.New(got)
		}
		return nil
	})
	wantEqual(t, "listener changes", e.Stat("listener_manager.listener_modified"), 1)

	// A new process of the same name counts when it has accepted everything.
	e.Kill()
	e = envoytest.Start(t, bootstrap)
	w.eventuallyUp(25)
	e.Listener(wire.ListenerName)
	envoytest.Eventually(t, realLimit, "one proxy", func() error {
		if c, n := w.Proxies(); c != 1 || n != 1 {
			return fmt.Errorf("%d connected, %d counting", c, n)
		}
		return nil
	})
}

// changes are Envoy's counters of what xDS has changed.
func changes(e *envoytest.Process) map[string]int64 {
	out := map[string]int64{}
	for _, name := range []string{
		"cluster_manager.cluster_added", "cluster_manager.cluster_modified", "cluster_manager.cluster_removed",
		"listener_manager.listener_added", "listener_manager.listener_modified", "listener_manager.listener_removed",
		"http.pointsman.rds.pointsman.config_reload",
	} {
		out[name] = e.Stat(name)
	}
	return out
}

// Two Envoys with one bootstrap, one frozen while a target is added.
func TestRealEnvoysTwo(t *testing.T) {
	socket := envoytest.SocketPath(t)
	cfg := realConfig(3, socket)
	bootstrap, err := envoy.Bootstrap(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, realResources(t, cfg))
	w.serve(socket)
	envoytest.Start(t, bootstrap)
	w.eventuallyUp(3)
	two := envoytest.Start(t, bootstrap)
	envoytest.Eventually(t, realLimit, "two proxies", func() error {
		if c, n := w.Proxies(); c != 2 || n != 2 {
			return fmt.Errorf("%d connected, %d counting", c, n)
		}
		return nil
	})
	two.Freeze()
	thaw := context.AfterFunc(t.Context(), two.Thaw) // never leave it frozen
	w.update(realResources(t, realConfig(4, socket)))
	envoytest.Eventually(t, realLimit, "the first has it", func() error {
		proxies, _ := w.Status()
		w.mu.Lock()
		defer w.mu.Unlock()
		for p := range w.mu.proxies {
			if p.has(clusters, wire.ClusterName("t03")) {
				return nil
			}
		}
		return fmt.Errorf("%v", proxies)
	})
	if up := w.board.up(); up != "t00 t01 t02" {
		t.Errorf("reachable: %s", up)
	}
	thaw()
	two.Thaw()
	w.eventuallyUp(4)
}
