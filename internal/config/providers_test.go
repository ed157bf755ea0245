package config

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestProviders reads testdata/good/providers.yaml, in which providers have all they can have.
func TestProviders(t *testing.T) {
	cfg, err := Load("testdata/good/providers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := []Provider{
		{
			Name: "OpenRouter", Slug: "openrouter", Kind: "openai", URL: "https://openrouter.ai/api/v1", Credentials: Credentials{Env: "OPENROUTER_API_KEY", Line: 6},
			MaxInFlight: 20, HTTPS: true, Host: "openrouter.ai", Hostname: "openrouter.ai", Port: 443, Prefix: "/api/v1", Line: 3,
		},
		{
			Name: "anthropic", Slug: "anthropic", Kind: "anthropic", URL: "https://api.anthropic.com:443/", Credentials: Credentials{File: "/run/secrets/anthropic", Line: 11},
			HTTPS: true, Host: "api.anthropic.com:443", Hostname: "api.anthropic.com", Port: 443, Line: 8,
		},
		{
			Name: "own", Slug: "own", Kind: "vllm", URL: "https://vllm.internal:8443", HTTPS: true, Host: "vllm.internal:8443", Hostname: "vllm.internal", Port: 8443, Line: 12,
			TLS: &ProviderTLS{CA: "/etc/ca.pem", Cert: "/etc/client.pem", Key: "/etc/client.key", ServerName: "engine", Line: 15},
		},
		{
			Name: "theirs", Slug: "theirs", Kind: "other", URL: "http://10.0.0.9", Credentials: Credentials{Passthrough: true, Line: 18},
			Host: "10.0.0.9", Hostname: "10.0.0.9", Port: 80, Addr: "10.0.0.9:80", Line: 16,
		},
	}
	if diff := cmp.Diff(want, cfg.Providers); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	callers := Callers{
		Identity: Identity{Header: "x-caller"},
		Trusted:  []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128")},
		Allow:    []Allow{{Name: "alice", Providers: []string{"own", "theirs"}, Line: 43}, {Name: "bob", Providers: []string{}, Line: 44}},
	}
	if diff := cmp.Diff(callers, cfg.Callers, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	var ids []string
	for _, target := range cfg.Targets() {
		ids = append(ids, target.ID)
	}
	// case 230: members in order, with their own model or the right-hand segment.
	wantIDs := []string{
		"own/meta/llama", "openrouter/meta-llama/llama-3.1:free", "own/split", "own/newer", "theirs/split",
		"own/*", "openrouter/m", "openrouter/*", "anthropic/*", "theirs/*",
	}
	if diff := cmp.Diff(wantIDs, ids); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	// case 231: the provider wins, and a group without members is never matched.
	if len(cfg.Groups) != 1 || cfg.Groups[0].Slug != "the-group" || cfg.Groups[0].Members[0].Weight != 3 {
		t.Errorf("groups %+v", cfg.Groups)
	}
	if len(cfg.Passthrough) != 1 || cfg.Passthrough[0].Route != "several" {
		t.Errorf("passthrough %+v", cfg.Passthrough)
	}
	if v := cfg.Routes[1].Variants; len(cfg.Routes) != 2 || len(v) != 2 || v[0].Weight != 9 || v[1].Weight != 1 {
		t.Errorf("routes %+v", cfg.Routes)
	}
}

// TestChained: the chain is there as soon as attempts can differ, and not before.
func TestChained(t *testing.T) {
	const plain = "providers: [{name: a, url: \"http://10.0.0.1\"}, {name: b, url: \"https://h\", max_in_flight: 3}]\n"
	for text, want := range map[string]bool{
		plain + "routes: [{model: m, targets: [{provider: a}, {provider: b}]}]":                                                                    false,
		plain + "routes: [{model: m, targets: [{provider: a, model: x}, {provider: b, model: x}]}, {model: x, targets: [{provider: a}]}]":          false,
		plain + "routes: [{model: m, targets: [{provider: a}, {provider: b, model: x}]}]":                                                          true,
		plain + "routes: [{model: m, targets: [{provider: a}, {provider: b, model: x, weight: 0}]}]":                                               false,
		plain + "routes: [{model: m, variants: [{name: v, targets: [{provider: a}]}, {name: w, targets: [{provider: b, model: x}]}]}]":             true,
		plain + "groups: [{name: g, members: [{provider: a}, {provider: b}]}]":                                                                     false,
		plain + "groups: [{name: g, members: [{provider: a}, {provider: b, model: x}]}]":                                                           true,
		"providers: [{name: a, url: \"http://h/x\"}]":                                                                                              true,
		"providers: [{name: a, url: \"http://h/\"}]":                                                                                               false,
		"providers: [{name: a, url: \"http://h\", credentials: passthrough}]":                                                                      true,
		"providers: [{name: a, url: \"http://h\", credentials: {env: K}}]":                                                                         true,
		"providers: [{name: a, url: \"http://h\", cluster: c, credentials: {env: K}}]\nenvoy: {clusters: external}":                                false,
		plain + "routes: [{model: m, targets: [{provider: a}]}, {model: n, targets: [{provider: a, model: o}]}]\npassthrough: []\ncallers: null\n": false,
	} {
		if got := mustParse(t, text).Chained(); got != want {
			t.Errorf("%v, want %v of\n%s", got, want, text)
		}
	}
}

// TestNoKeyInMessages: what may be a key in the wrong place is not repeated, of the security reports.
func TestNoKeyInMessages(t *testing.T) {
	for _, value := range []string{"sk-S3CRET", "{env: sk-S3CRET}", "{env: \"S3CRET=\"}", "{file: \"S3CRET\\n\"}", "[S3CRET]", "{env: [S3CRET]}", "\"{env: S3CRET}\""} {
		_, err := Parse("f", []byte("providers: [{name: a, url: \"http://h\", credentials: "+value+"}]"))
		if err == nil || strings.Contains(err.Error(), "S3CRET") {
			t.Errorf("%s: %v", value, err)
		}
	}
}
