package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// minimal is report 185's: one provider, one route with one target, nothing else.
const minimal = `providers:
  - {name: gpu-a, url: "http://10.0.0.11:8000"}
routes:
  - {model: llama, targets: [{provider: gpu-a}]}
`

func mustParse(t *testing.T, text string) *Config {
	t.Helper()
	cfg, err := Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatalf("refused:\n%v\n%s", err, text)
	}
	return cfg
}

// defaults is the specification's table of defaults, written out.
func defaults() *Config {
	status := []int{408, 429}
	for s := 500; s <= 599; s++ {
		status = append(status, s)
	}
	kinds := PerKind{Stream: 60 * time.Second, Unary: 600 * time.Second}
	return &Config{
		Listen: Listen{GRPC: Address{"unix", "/run/pointsman/grpc.sock"}, SocketMode: 0o660, Admin: "127.0.0.1:9090"},
		Envoy:  Envoy{Listener: "127.0.0.1:8080", Admin: "127.0.0.1:9901", Clusters: "managed"},
		Providers: []Provider{{
			Name: "gpu-a", Slug: "gpu-a", Kind: "other", URL: "http://10.0.0.11:8000",
			Host: "10.0.0.11:8000", Hostname: "10.0.0.11", Port: 8000, Addr: "10.0.0.11:8000", Line: 2,
		}},
		Routes: []Route{{
			Model: "llama", Strategy: "round_robin",
			Targets:   []Target{{Provider: "gpu-a", Model: "llama", Weight: 1, ID: "gpu-a/llama", Line: 4}},
			Timeouts:  RouteTimeouts{Request: kinds},
			Retry:     RouteRetry{MaxRetries: 2, OnTimeout: []string{"stream"}},
			Prefix:    RoutePrefix{Threshold: 0.5, MaxBytes: 16 << 20},
			LoadGuard: LoadGuard{Margin: 2, Ratio: 1.5},
			Line:      4,
		}},
		Timeouts: Timeouts{Connect: 10 * time.Second, Request: kinds, Idle: 600 * time.Second, Client: 300 * time.Second},
		Retry: Retry{
			MaxRetries: 2, OnStatus: status, OnTimeout: []string{"stream"},
			BaseBackoff: 100 * time.Millisecond, MaxBackoff: 2 * time.Second,
		},
		Cooldown:        Cooldown{Base: 5 * time.Second, Max: 300 * time.Second},
		Limits:          Limits{Body: 32 << 20},
		Session:         Session{Headers: Ordered{"x-session-id"}, BodyFields: Ordered{}},
		Affinity:        Affinity{MaxText: 32 << 10, StripTokenIDs: true},
		Prefix:          Prefix{Threshold: 0.5, MaxBytes: 16 << 20, MaxTotalBytes: 1 << 30},
		LoadGuard:       LoadGuard{Margin: 2, Ratio: 1.5},
		Latency:         Latency{Alpha: 0.3, Label: "duration", Idle: 5 * time.Minute},
		Log:             Log{Format: "json", Level: "info"},
		Drain:           Drain{Timeout: 30 * time.Second, Max: 10 * time.Minute},
		Tracker:         Tracker{ForgetAfter: 10 * time.Minute},
		DNS:             DNS{Refresh: 30 * time.Second},
		Callers:         Callers{Trusted: []netip.Prefix{}},
		ResponseHeaders: true,
		Path:            "test.yaml",
	}
}

func TestDefaults(t *testing.T) {
	if diff := cmp.Diff(defaults(), mustParse(t, minimal)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestEmptyBlocks is report 185: every optional block and key left empty, null or
// out is as the defaults.
func TestEmptyBlocks(t *testing.T) {
	var texts []string
	for _, block := range []string{
		"listen", "envoy", "timeouts", "retry", "cooldown", "limits", "session", "affinity", "prefix", "load_guard", "latency", "log", "drain", "tracker",
	} {
		for _, empty := range []string{"", " {}", " null", " ~"} {
			texts = append(texts, minimal+block+":"+empty+"\n")
		}
	}
	route := func(block string) string {
		return strings.Replace(minimal, "model: llama,", "model: llama, "+block+",", 1)
	}
	for _, block := range []string{"timeouts", "retry", "prefix", "load_guard"} {
		texts = append(texts, route(block+": {}"), route(block+": null"))
	}
	texts = append(texts, route("strategy: null"), minimal+"response_headers:\n",
		minimal+"listen: {grpc: , socket_mode: , admin: }\nenvoy: {listener: , admin: ~, clusters: null}\n",
		minimal+"retry: {on_status: , on_timeout: , max_retries: }\ntimeouts: {request_secs: }\nlimits: {body: }\n",
		minimal+"timeouts: {request_secs: {}}\n", minimal+"timeouts: {request_secs: {stream: , unary: ~}}\n",
		strings.Replace(minimal, "{provider: gpu-a}", "{provider: gpu-a, model: , weight: , id: }", 1),
		strings.Replace(minimal, "{name: gpu-a,", "{name: gpu-a, slug: , kind: , cluster: ,", 1))
	for _, text := range texts {
		if diff := cmp.Diff(defaults(), mustParse(t, text)); diff != "" {
			t.Errorf("%s(-want +got)\n%s", text, diff)
		}
	}
}

// TestEverything reads testdata/good/everything.yaml, in which no key has its default.
func TestEverything(t *testing.T) {
	cfg, err := Load("testdata/good/everything.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const s, ms = time.Second, time.Millisecond
	kinds := PerKind{Stream: 1500 * ms, Unary: 1500 * ms}
	want := &Config{
		Listen: Listen{GRPC: Address{"tcp", "127.0.0.1:9002"}, GRPCSet: true, SocketMode: 0o600, Admin: "[::1]:0"},
		Envoy:  Envoy{Listener: "[::]:8081", Admin: "off", Clusters: "external"},
		Providers: []Provider{
			{Name: "GPU A (rack 1)", Slug: "gpu-a-rack-1", Kind: "vllm", URL: "http://[fd00::11]:8000/", Cluster: "engines_a", Host: "[fd00::11]:8000", Hostname: "fd00::11", Port: 8000, Addr: "[fd00::11]:8000", Line: 11},
			{Name: "日本", Slug: "tokyo", Kind: "llamacpp", URL: "HTTP://10.0.0.12", Cluster: "engines_b", Host: "10.0.0.12", Hostname: "10.0.0.12", Port: 80, Addr: "10.0.0.12:80", Line: 15},
			{Name: "東京", Kind: "other", URL: "http://10.0.0.13:80", Cluster: "engines_c", Host: "10.0.0.13:80", Hostname: "10.0.0.13", Port: 80, Addr: "10.0.0.13:80", Line: 20},
		},
		Routes: []Route{
			{
				Model: "org/model:70b", Strategy: "cache_aware", Line: 24,
				Targets: []Target{
					{Provider: "GPU A (rack 1)", Model: "up/stream", Weight: 0, ID: "gpu-a-rack-1/up/stream", ProviderIndex: 0, Line: 27},
					{Provider: "日本", Model: "up/stream", Weight: 1000000, ID: "tokyo/up/stream", ProviderIndex: 1, Line: 28},
					{Provider: "東京", Model: "up/stream", Weight: 1, ID: "rack/3:*", ProviderIndex: 2, Line: 29},
				},
				Timeouts:  RouteTimeouts{Request: PerKind{Stream: 1500 * ms, Unary: 30 * s}},
				Retry:     RouteRetry{MaxRetries: 0, OnTimeout: []string{"stream", "unary"}},
				Prefix:    RoutePrefix{Threshold: 1, MaxBytes: 1 << 20},
				LoadGuard: LoadGuard{Margin: 0, Ratio: 3},
			},
			{
				Model: "plain", Strategy: "round_robin", Line: 34,
				Targets:   []Target{{Provider: "日本", Model: "plain", Weight: 1, ID: "tokyo/plain", ProviderIndex: 1, Line: 35}},
				Timeouts:  RouteTimeouts{Request: kinds},
				Retry:     RouteRetry{MaxRetries: 5, OnTimeout: []string{}},
				Prefix:    RoutePrefix{Threshold: 0, MaxBytes: 0},
				LoadGuard: LoadGuard{Margin: 0, Ratio: 1},
			},
		},
		Session:   Session{Headers: Ordered{"x-tenant-session", "x-session-id"}, BodyFields: Ordered{"user", "metadata.user_id"}},
		Affinity:  Affinity{MaxText: 64 << 10, StripTokenIDs: false},
		Timeouts:  Timeouts{Connect: 500 * ms, Request: kinds, Idle: 0, Client: 10 * s},
		Retry:     Retry{MaxRetries: 5, OnStatus: []int{429, 503}, OnTimeout: []string{}, BaseBackoff: 250 * ms, MaxBackoff: 250 * ms, HonourRetryAfter: true},
		Limits:    Limits{Body: 64 << 10},
		Prefix:    Prefix{MaxTotalBytes: 3 << 29},
		LoadGuard: LoadGuard{Margin: 0, Ratio: 1},
		Latency:   Latency{Alpha: 1, Label: "ttft", Idle: 0},
		Log:       Log{Format: "text", Level: "debug", Requests: true},
		Drain:     Drain{Timeout: 0, Max: 90 * time.Minute},
		Tracker:   Tracker{ForgetAfter: 250 * ms},
		DNS:       DNS{Refresh: time.Minute},
		Callers:   Callers{Trusted: []netip.Prefix{}},
		Path:      "testdata/good/everything.yaml",
		Warnings:  []string{"testdata/good/everything.yaml:28: routes[0].targets[1].weight: cache_aware does not read weights; only 0 has an effect"},
	}
	if diff := cmp.Diff(want, cfg); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestDrainedRouteIsLeftOut(t *testing.T) {
	cfg, err := Load("testdata/good/drained.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Routes) != 1 || cfg.Routes[0].Model != "half" {
		t.Errorf("routes %v", cfg.Routes)
	}
}

// TestWeights is report 056: the order of weights does not matter, an absent
// one is 1, 0 drains.
func TestWeights(t *testing.T) {
	for weights, want := range map[string][]int{
		"{}, {weight: 3}, {weight: 1}":          {1, 3, 1},
		"{weight: 1}, {weight: 3}, {}":          {1, 3, 1},
		"{weight: 0}, {weight: 3}, {weight: 1}": {0, 3, 1},
	} {
		text := "providers:\n"
		targets := strings.Split(weights, ", ")
		for i, target := range targets {
			text += fmt.Sprintf("  - {name: p%d, url: \"http://10.0.0.1\"}\n", i)
			targets[i] = strings.Replace(target, "{", fmt.Sprintf("{provider: p%d, ", i), 1)
		}
		cfg := mustParse(t, text+"routes: [{model: m, targets: ["+strings.Join(targets, ", ")+"]}]\n")
		var got []int
		for _, target := range cfg.Routes[0].Targets {
			got = append(got, target.Weight)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", weights, got, want)
		}
	}
}

func TestSlug(t *testing.T) {
	for name, want := range map[string]string{
		"gpu-a":                   "gpu-a",
		"GPU A":                   "gpu-a",
		"  (GPU)__A.1  ":          "gpu-a-1",
		"a--b":                    "a-b",
		"Ünïcode":                 "n-code",
		"日本":                      "",
		"---":                     "",
		"":                        "",
		strings.Repeat("ab ", 40): strings.Repeat("ab-", 21),
		strings.Repeat("x", 200):  strings.Repeat("x", 63),
	} {
		got := Slug(name)
		if got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
		if got != "" && checkSlug(got) != nil {
			t.Errorf("%q: the slug %q made from it is not valid", name, got)
		}
	}
}

func TestURL(t *testing.T) {
	for url, want := range map[string]address{
		"http://10.0.0.11":          {host: "10.0.0.11", hostname: "10.0.0.11", port: 80, addr: "10.0.0.11:80"},
		"http://10.0.0.11/":         {host: "10.0.0.11", hostname: "10.0.0.11", port: 80, addr: "10.0.0.11:80"},
		"http://10.0.0.11:80":       {host: "10.0.0.11:80", hostname: "10.0.0.11", port: 80, addr: "10.0.0.11:80"},
		"http://[::1]:8000":         {host: "[::1]:8000", hostname: "::1", port: 8000, addr: "[::1]:8000"},
		"http://[::1]":              {host: "[::1]", hostname: "::1", port: 80, addr: "[::1]:80"},
		"http://[2001:DB8::0:1]:1":  {host: "[2001:DB8::0:1]:1", hostname: "2001:DB8::0:1", port: 1, addr: "[2001:db8::1]:1"},
		"http://[::ffff:10.0.0.1]":  {host: "[::ffff:10.0.0.1]", hostname: "::ffff:10.0.0.1", port: 80, addr: "[::ffff:10.0.0.1]:80"},
		"https://openrouter.ai/api": {https: true, host: "openrouter.ai", hostname: "openrouter.ai", port: 443, prefix: "/api"},
		"https://h:8443/api/v1/":    {https: true, host: "h:8443", hostname: "h", port: 8443, prefix: "/api/v1"},
		"http://h/x/":               {host: "h", hostname: "h", port: 80, prefix: "/x"},
		"http://h/a%20b/~c":         {host: "h", hostname: "h", port: 80, prefix: "/a%20b/~c"},
		"http://my_engine.svc:8000": {host: "my_engine.svc:8000", hostname: "my_engine.svc", port: 8000},
	} {
		got, err := parseURL(url)
		if err != nil || got != want {
			t.Errorf("%s: got %+v %v, want %+v", url, got, err, want)
		}
	}
}

// TestNoSecretInMessages: a URL with a password is refused without repeating it.
func TestNoSecretInMessages(t *testing.T) {
	for _, url := range []string{
		"http://u:s3cret@10.0.0.1", "http://u:s3/cret@10.0.0.1", "https://s3cret@h/x", "u:s3cret@h", "http://u:s3cret@ 10.0.0.1", "http://u:s3%zzcret@10.0.0.1",
	} {
		if _, err := parseURL(url); err == nil || strings.Contains(err.Error(), "s3") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestGRPCAddress(t *testing.T) {
	for text, want := range map[string]Address{
		"unix:///run/x.sock":                  {"unix", "/run/x.sock"},
		"unix:///run//a/../x":                 {"unix", "/run/x"},
		"tcp://127.0.0.1:9002":                {"tcp", "127.0.0.1:9002"},
		"tcp://127.1.2.3:65535":               {"tcp", "127.1.2.3:65535"},
		"tcp://[::1]:9002":                    {"tcp", "[::1]:9002"},
		"tcp://localhost:9002":                {"tcp", "127.0.0.1:9002"},
		"unix:///a b/grpc.sock":               {"unix", "/a b/grpc.sock"},
		"unix:///" + strings.Repeat("x", 106): {"unix", "/" + strings.Repeat("x", 106)},
	} {
		cfg := mustParse(t, minimal+"listen: {grpc: \""+text+"\"}\n")
		if cfg.Listen.GRPC != want || !cfg.Listen.GRPCSet {
			t.Errorf("%s: got %v", text, cfg.Listen)
		}
	}
	if _, err := Parse("f", []byte(minimal+"listen: {grpc: \"unix:///"+strings.Repeat("x", 107)+"\"}\n")); err == nil {
		t.Error("a socket path that the kernel does not take was accepted")
	}
}

// TestOrderOfKeys: routes inherit the deployment's settings wherever these stand.
func TestOrderOfKeys(t *testing.T) {
	settings := "retry: {max_retries: 7}\nload_guard: {margin: 9}\n"
	before, after := mustParse(t, settings+minimal), mustParse(t, minimal+settings)
	for _, cfg := range []*Config{before, after} {
		if r := cfg.Routes[0]; r.Retry.MaxRetries != 7 || r.LoadGuard.Margin != 9 || r.LoadGuard.Ratio != 1.5 {
			t.Errorf("got %+v %+v", r.Retry, r.LoadGuard)
		}
	}
}

func TestStrategies(t *testing.T) {
	got := Strategies()
	if !slices.IsSorted(got) || !slices.Contains(got, "round_robin") || !slices.Contains(got, "cache_aware") {
		t.Errorf("got %v", got)
	}
	got[0] = "changed"
	if slices.Contains(Strategies(), "changed") {
		t.Error("the table can be changed from outside")
	}
}
