package envoy_test

import (
	"bytes"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/pointsman/pointsman/envoy"
	"github.com/pointsman/pointsman/envoy/envoytest"
	"github.com/pointsman/pointsman/internal/config"
	"github.com/pointsman/pointsman/internal/wire"
)

var update = flag.Bool("update", false, "write the golden files anew")

// testConfig is a configuration with the defaults of the specification and two
// routes that share a target.
func testConfig() *config.Config {
	statuses := []int{408, 429}
	for s := 500; s < 600; s++ {
		statuses = append(statuses, s)
	}
	limits := config.RouteTimeouts{Request: config.PerKind{Stream: 60 * time.Second, Unary: 600 * time.Second}}
	retry := config.RouteRetry{MaxRetries: 2, OnTimeout: []string{"stream"}}
	return &config.Config{
		Listen: config.Listen{GRPC: config.Address{Network: "unix", Addr: "/run/pointsman/grpc.sock"}},
		Envoy:  config.Envoy{Listener: "0.0.0.0:8080", Admin: "127.0.0.1:9901", Clusters: "managed"},
		Providers: []config.Provider{
			{Name: "gpu a", Slug: "gpu-a", Kind: "vllm", Host: "10.0.0.11:8000", Addr: "10.0.0.11:8000"},
			{Name: "gpu b", Slug: "gpu-b", Kind: "sglang", Host: "[fd00::1]", Addr: "[fd00::1]:80"},
			{Name: "***", Slug: "", Kind: "other", Host: "10.0.0.13", Addr: "10.0.0.13:80"},
		},
		Routes: []config.Route{
			{Model: "llama", Timeouts: limits, Retry: retry, Targets: []config.Target{
				{Provider: "gpu a", Model: "org/llama 70b", ID: "gpu-a/org/llama 70b", ProviderIndex: 0, Weight: 1},
				{Provider: "gpu b", Model: "org/llama 70b", ID: "b", ProviderIndex: 1, Weight: 1},
			}},
			{Model: "llama-too", Timeouts: limits, Retry: retry, Targets: []config.Target{
				{Provider: "gpu b", Model: "org/llama 70b", ID: "b", ProviderIndex: 1, Weight: 0},
				{Provider: "***", Model: "m", ID: "c", ProviderIndex: 2, Weight: 1},
			}},
		},
		Timeouts: config.Timeouts{Connect: 10 * time.Second, Idle: 600 * time.Second, Client: 300 * time.Second},
		Retry: config.Retry{
			MaxRetries: 2, OnStatus: statuses, BaseBackoff: 100 * time.Millisecond, MaxBackoff: 2 * time.Second,
		},
		Limits:          config.Limits{Body: 32 << 20},
		ResponseHeaders: true,
	}
}

func build(t *testing.T, cfg *config.Config) *envoy.Resources {
	t.Helper()
	res, err := envoy.Build(cfg, upstreams(cfg))
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// upstreams are the addresses that stand in the configuration.
func upstreams(cfg *config.Config) map[string]envoy.Upstream {
	up := map[string]envoy.Upstream{}
	for _, pr := range cfg.Providers {
		if addr, err := netip.ParseAddrPort(pr.Addr); err == nil {
			up[pr.Name] = envoy.Upstream{Addresses: []netip.AddrPort{addr}}
		}
	}
	return up
}

func connectionManager(t testing.TB, res *envoy.Resources) *hcmv3.HttpConnectionManager {
	t.Helper()
	hcm := &hcmv3.HttpConnectionManager{}
	if err := res.Listener.GetFilterChains()[0].GetFilters()[0].GetTypedConfig().UnmarshalTo(hcm); err != nil {
		t.Fatal(err)
	}
	return hcm
}

// tree gives a message the shape of its JSON, with what is packed unpacked.
func tree(t *testing.T, m proto.Message) any {
	t.Helper()
	raw, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := yaml.Unmarshal(raw, &out); err != nil { // unlike JSON, YAML knows integers
		t.Fatal(err)
	}
	return out
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run with -update)", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got; -update accepts it):\n%s", path, diff)
	}
}

func TestBuildGolden(t *testing.T) {
	res := build(t, testConfig())
	clusters := map[string]any{}
	for name, c := range res.Clusters {
		clusters[name] = tree(t, c)
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	err := enc.Encode(map[string]any{
		"clusters": clusters,
		"listener": tree(t, res.Listener),
		"route":    tree(t, res.Route),
		"targets":  res.Targets,
	})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "resources.yaml", out.Bytes())
}

func TestBuildValidates(t *testing.T) {
	minimal := testConfig()
	minimal.Retry = config.Retry{}
	minimal.Timeouts = config.Timeouts{Connect: time.Second}
	minimal.Limits.Body = 64 << 10
	minimal.ResponseHeaders = false
	honour := testConfig()
	honour.Retry.HonourRetryAfter = true
	external := testConfig()
	external.Envoy.Clusters = "external"
	for name, cfg := range map[string]*config.Config{
		"default": testConfig(), "minimal": minimal, "honour": honour, "external": external,
	} {
		t.Run(name, func(t *testing.T) {
			res := build(t, cfg)
			if err := res.Listener.ValidateAll(); err != nil {
				t.Error(err)
			}
			if err := res.Route.ValidateAll(); err != nil {
				t.Error(err)
			}
			if err := connectionManager(t, res).ValidateAll(); err != nil {
				t.Error(err)
			}
			for _, c := range res.Clusters {
				if err := c.ValidateAll(); err != nil {
					t.Error(err)
				}
			}
			if err := envoytest.Validate(t, staticBootstrap(t, cfg)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestBuildIsDeterministic: a restarted pointsman sends nothing that changes Envoy.
func TestBuildIsDeterministic(t *testing.T) {
	bytesOf := func() string {
		res := build(t, testConfig())
		var all []string
		for _, m := range []proto.Message{res.Listener, res.Route, res.Clusters[wire.ClusterNone], res.Clusters[wire.ClusterName("b")]} {
			b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, string(b))
		}
		return strings.Join(all, "|")
	}
	first := bytesOf()
	for range 20 {
		if bytesOf() != first {
			t.Fatal("the same configuration gave other bytes")
		}
	}
}

// TestReloadLeavesListenerAlone is the condition of case 419: a changed listener
// would cut the answers that outlive its drain time.
func TestReloadLeavesListenerAlone(t *testing.T) {
	before := build(t, testConfig())
	for name, change := range map[string]func(*config.Config){
		"retry":            func(c *config.Config) { c.Retry.MaxRetries, c.Retry.OnStatus = 5, []int{503} },
		"backoff":          func(c *config.Config) { c.Retry.BaseBackoff, c.Retry.HonourRetryAfter = time.Second, true },
		"timeouts":         func(c *config.Config) { c.Timeouts = config.Timeouts{Connect: 1, Idle: 2, Client: 3} },
		"limits":           func(c *config.Config) { c.Limits.Body = 64 << 10 },
		"targets":          func(c *config.Config) { c.Routes = c.Routes[:1] },
		"response headers": func(c *config.Config) { c.ResponseHeaders = false },
		"admin":            func(c *config.Config) { c.Envoy.Admin = "off" },
	} {
		cfg := testConfig()
		change(cfg)
		if diff := cmp.Diff(before.Listener, build(t, cfg).Listener, protocmp.Transform()); diff != "" {
			t.Errorf("%s changes the listener:\n%s", name, diff)
		}
	}
	cfg := testConfig()
	cfg.Envoy.Listener = "0.0.0.0:8081"
	if proto.Equal(before.Listener, build(t, cfg).Listener) {
		t.Error("another address does not change the listener")
	}
}

func TestBuildTargets(t *testing.T) {
	res := build(t, testConfig())
	want := map[string]string{
		"pm|gpu-a/org/llama~2070b": "gpu-a/org/llama 70b",
		"pm|b":                     "b", // in two routes
		"pm|c":                     "c",
		"pm|gpu-a/*":               "gpu-a/*", // pins
		"pm|gpu-b/*":               "gpu-b/*",
	}
	if diff := cmp.Diff(want, res.Targets); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
	if len(res.Clusters) != len(want)+1 || res.Clusters[wire.ClusterNone] == nil || len(res.External) != 0 {
		t.Errorf("clusters %v, external %v", res.Clusters, res.External)
	}

	cfg := testConfig()
	cfg.Envoy.Clusters = "external"
	res = build(t, cfg)
	if len(res.Clusters) != 1 || res.Clusters[wire.ClusterNone] == nil || len(res.Targets) != 0 {
		t.Errorf("external: clusters %v, targets %v", res.Clusters, res.Targets)
	}
	if diff := cmp.Diff([]string{"gpu-a/org/llama 70b", "b", "c", "gpu-a/*", "gpu-b/*"}, res.External); diff != "" {
		t.Errorf("external (-want +got):\n%s", diff)
	}
	if res, err := envoy.Build(cfg, nil); err != nil || len(res.External) != 0 { // no address is known
		t.Errorf("external without addresses: %v, %v", res.External, err)
	}
}

func TestBuildRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*config.Config)
		want   string
	}{
		"listener name": {func(c *config.Config) { c.Envoy.Listener = "example.org:80" }, `envoy.listener: "example.org" is not an IP address`},
		"listener port": {func(c *config.Config) { c.Envoy.Listener = "0.0.0.0:http" }, `envoy.listener: bad port "http"`},
		"listener":      {func(c *config.Config) { c.Envoy.Listener = "8080" }, "envoy.listener: address 8080: missing port in address"},
		"provider":      {func(c *config.Config) { c.Routes[0].Targets[0].ProviderIndex = 9 }, "no such provider"},
	} {
		cfg := testConfig()
		c.change(cfg)
		_, err := envoy.Build(cfg, upstreams(cfg))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestListenerAddress(t *testing.T) {
	for in, want := range map[string]string{
		"127.0.0.1:0":    "127.0.0.1:0",
		":8080":          "0.0.0.0:8080",
		"localhost:1":    "127.0.0.1:1",
		"[::1]:8080":     "::1:8080",
		"[::]:8080":      "::8080 v4",
		"10.0.0.1:65535": "10.0.0.1:65535",
	} {
		cfg := testConfig()
		cfg.Envoy.Listener = in
		a := build(t, cfg).Listener.GetAddress().GetSocketAddress()
		got := fmt.Sprintf("%s:%d", a.GetAddress(), a.GetPortValue())
		if a.GetAddress() == "::" {
			got = fmt.Sprintf("::%d", a.GetPortValue())
		}
		if a.GetIpv4Compat() {
			got += " v4"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func TestBootstrap(t *testing.T) {
	text, err := envoy.Bootstrap(testConfig())
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "bootstrap.yaml", text)
	b := envoytest.ParseBootstrap(t, text)
	if err := b.ValidateAll(); err != nil {
		t.Error(err)
	}
	if err := envoytest.Validate(t, text); err != nil {
		t.Error(err)
	}
	if !slices.ContainsFunc(strings.Split(string(text), "\n"), func(l string) bool { return strings.HasPrefix(l, "# ") }) {
		t.Error("no comments")
	}

	ads := b.GetDynamicResources().GetAdsConfig()
	backoff := ads.GetGrpcServices()[0].GetEnvoyGrpc().GetRetryPolicy().GetRetryBackOff()
	if backoff.GetBaseInterval().AsDuration() != 100*time.Millisecond || backoff.GetMaxInterval().AsDuration() != time.Second {
		t.Errorf("back-off %v", backoff)
	}
	if len(b.GetStaticResources().GetClusters()) != 1 {
		t.Errorf("static clusters %v", b.GetStaticResources().GetClusters())
	}
	th := b.GetStaticResources().GetClusters()[0].GetCircuitBreakers().GetThresholds()[0]
	for _, n := range []uint32{th.GetMaxConnections().GetValue(), th.GetMaxPendingRequests().GetValue(), th.GetMaxRequests().GetValue(), th.GetMaxRetries().GetValue()} {
		if n < 100_000 {
			t.Errorf("breakers %v", th)
		}
	}

	off := testConfig()
	off.Envoy.Admin = "off"
	off.Listen.GRPC = config.Address{Network: "tcp", Addr: "localhost:9002"}
	text, err = envoy.Bootstrap(off)
	if err != nil {
		t.Fatal(err)
	}
	b = envoytest.ParseBootstrap(t, text)
	if b.GetAdmin() != nil {
		t.Error("an admin listener though it is off")
	}
	a := b.GetStaticResources().GetClusters()[0].GetLoadAssignment().GetEndpoints()[0].GetLbEndpoints()[0].GetEndpoint().GetAddress().GetSocketAddress()
	if a.GetAddress() != "127.0.0.1" || a.GetPortValue() != 9002 {
		t.Errorf("leads to %v", a)
	}

	for want, change := range map[string]func(*config.Config){
		"envoy.admin: ":        func(c *config.Config) { c.Envoy.Admin = "x" },
		"listen.grpc: port 0":  func(c *config.Config) { c.Listen.GRPC = config.Address{Network: "tcp", Addr: "127.0.0.1:0"} },
		`"h" is not an IP`:     func(c *config.Config) { c.Listen.GRPC = config.Address{Network: "tcp", Addr: "h:1"} },
		"listen.grpc: address": func(c *config.Config) { c.Listen.GRPC = config.Address{Network: "tcp", Addr: "h"} },
	} {
		cfg := testConfig()
		change(cfg)
		if _, err := envoy.Bootstrap(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
