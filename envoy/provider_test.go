package envoy_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	injectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/credential_injector/v3"
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
	genericv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/injected_credentials/generic/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/envoy"
	"github.com/pointsman/pointsman/internal/config"
)

// provider changes the first provider of testConfig, which has a target of its own in a
// route with another.
func provider(change func(*config.Provider)) *config.Config {
	cfg := testConfig()
	cfg.Providers[0].Hostname, cfg.Providers[0].Port = "10.0.0.11", 8000
	change(&cfg.Providers[0])
	return cfg
}

const chained = "pm|gpu-a/org/llama~2070b"

func httpOptions(t *testing.T, c *clusterv3.Cluster) *httpv3.HttpProtocolOptions {
	t.Helper()
	return unpack(t, c.GetTypedExtensionProtocolOptions()["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"], &httpv3.HttpProtocolOptions{})
}

func filterNames(t *testing.T, c *clusterv3.Cluster) string {
	t.Helper()
	var names []string
	for _, f := range httpOptions(t, c).GetHttpFilters() {
		names = append(names, strings.TrimPrefix(f.GetName(), "envoy.filters.http."))
	}
	return strings.Join(names, " ")
}

// As soon as one target needs a chain every target has one, and what was running
// over one goes on over one.
func TestChain(t *testing.T) {
	const keys, rewrite = "header_mutation upstream_codec", "header_mutation lua upstream_codec"
	for name, c := range map[string]struct {
		cfg         *config.Config
		over        envoy.Chain
		want        envoy.Chain
		own, others string
	}{
		"none":        {testConfig(), envoy.ChainNone, envoy.ChainNone, "", ""},
		"over keys":   {testConfig(), envoy.ChainKeys, envoy.ChainKeys, keys, keys},
		"key":         {provider(func(p *config.Provider) { p.Credentials.Env = "K" }), envoy.ChainNone, envoy.ChainKeys, "header_mutation credential_injector upstream_codec", keys},
		"over prefix": {provider(func(p *config.Provider) { p.Credentials.Env = "K" }), envoy.ChainRewrite, envoy.ChainRewrite, "header_mutation lua credential_injector upstream_codec", rewrite},
		"passthrough": {provider(func(p *config.Provider) { p.Credentials.Passthrough = true }), envoy.ChainNone, envoy.ChainKeys, keys, keys},
		"prefix":      {provider(func(p *config.Provider) { p.Prefix = "/x" }), envoy.ChainNone, envoy.ChainRewrite, rewrite, rewrite},
	} {
		t.Run(name, func(t *testing.T) {
			up := upstreams(c.cfg)
			a := up["gpu a"]
			a.Key = "sk-1"
			up["gpu a"] = a
			res, err := envoy.BuildOver(c.cfg, up, c.over)
			if err != nil {
				t.Fatal(err)
			}
			check(t,
				equal{"chain", res.Chain, c.want},
				equal{"own filters", filterNames(t, res.Clusters[chained]), c.own},
				equal{"other filters", filterNames(t, res.Clusters["pm|b"]), c.others},
				equal{"of a pin", filterNames(t, res.Clusters["pm|gpu-b/*"]), c.others},
			)
		})
	}

	several := testConfig()
	several.Routes[0].Targets[1].Model, several.Routes[0].Targets[1].ID = "other", "b2"
	check(t, equal{"several models", build(t, several).Chain, envoy.ChainRewrite})
}

// A key is a secret of its own, in the header of its kind; the client's own goes to nobody
// but those to whom it is passed on.
func TestCredentials(t *testing.T) {
	for kind, want := range map[string][2]string{"openai": {"authorization", "Bearer "}, "vllm": {"authorization", "Bearer "}, "anthropic": {"x-api-key", ""}} {
		cfg := provider(func(p *config.Provider) { p.Kind, p.Credentials.File = kind, "/key" })
		up := upstreams(cfg)
		up["gpu a"] = envoy.Upstream{Addresses: up["gpu a"].Addresses, Key: "sk-1"}
		res, err := envoy.Build(cfg, up)
		if err != nil {
			t.Fatal(err)
		}
		filter := httpOptions(t, res.Clusters[chained]).GetHttpFilters()[1]
		injector := unpack(t, filter.GetTypedConfig(), &injectorv3.CredentialInjector{})
		generic := unpack(t, injector.GetCredential().GetTypedConfig(), &genericv3.Generic{})
		name := generic.GetCredential().GetName()
		check(t,
			equal{"header", generic.GetHeader(), want[0]},
			equal{"prefix", generic.GetHeaderValuePrefix(), want[1]},
			equal{"secret", strings.HasPrefix(name, "pm-key|gpu~20a/"), true},
			equal{"overwrite", injector.GetOverwrite(), true},
			equal{"without", injector.GetAllowRequestWithoutCredential(), false},
			equal{"key", res.Secrets[name].GetGenericSecret().GetSecret().GetInlineString(), "sk-1"},
		)
		if diff := cmp.Diff(map[string]string{chained: name, "pm|gpu-a/*": name}, res.Needs); diff != "" {
			t.Errorf("needs (-want +got):\n%s", diff)
		}
		for cluster, c := range res.Clusters {
			if strings.Contains(c.String(), "sk-1") {
				t.Errorf("the key stands in cluster %s", cluster)
			}
		}
	}

	// Another place to send it to or to take it from is another secret, another key or model is not.
	names := make(map[string]bool)
	for _, change := range []func(*config.Provider){
		func(*config.Provider) {}, func(p *config.Provider) { p.URL += "/other" }, func(p *config.Provider) { p.Credentials.File = "/other" },
		func(p *config.Provider) { p.Credentials.File, p.Credentials.Env = "", "/key" }, func(p *config.Provider) { p.MaxInFlight = 7 },
	} {
		cfg := provider(func(p *config.Provider) { p.Credentials.File = "/key"; change(p) })
		up := upstreams(cfg)
		up["gpu a"] = envoy.Upstream{Addresses: up["gpu a"].Addresses, Key: "sk-" + fmt.Sprint(len(names))}
		res, err := envoy.Build(cfg, up)
		if err != nil {
			t.Fatal(err)
		}
		names[res.Needs[chained]] = true
	}
	if len(names) != 4 {
		t.Errorf("%d names of 5 secrets, of which two are one: %v", len(names), names)
	}

	cfg := provider(func(p *config.Provider) { p.Credentials.Passthrough = true })
	res := build(t, cfg)
	reset := func(cluster string) (removed, set []string) {
		m := unpack(t, httpOptions(t, res.Clusters[cluster]).GetHttpFilters()[0].GetTypedConfig(), &mutationv3.HeaderMutation{})
		for _, h := range m.GetMutations().GetRequestMutations() {
			if h.GetRemove() != "" {
				removed = append(removed, h.GetRemove())
			} else {
				set = append(set, h.GetAppend().GetHeader().GetKey()+"="+h.GetAppend().GetHeader().GetValue())
			}
		}
		return removed, set
	}
	all := []string{"authorization", "x-api-key", "x-data-parallel-rank"}
	passed := []string{"authorization=%DYNAMIC_METADATA(pointsman.decision:authorization)%", "x-api-key=%DYNAMIC_METADATA(pointsman.decision:x_api_key)%"}
	for cluster, want := range map[string][]string{chained: passed, "pm|b": nil} {
		removed, set := reset(cluster)
		if !cmp.Equal(removed, all) || !cmp.Equal(set, want) {
			t.Errorf("%s removes %v and sets %v", cluster, removed, set)
		}
	}
}

// A provider whose key or address is not there has no cluster; a key that is no header
// value is refused without being quoted.
func TestWhatIsMissing(t *testing.T) {
	cfg := provider(func(p *config.Provider) { p.Credentials.Env = "K" })
	up := upstreams(cfg)
	delete(up, "gpu b")
	res, err := envoy.Build(cfg, up)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"pm|c": "c"}, res.Targets); diff != "" || len(res.Secrets) != 0 {
		t.Errorf("targets (-want +got):\n%s\nsecrets %v", diff, res.Secrets)
	}
	up["gpu a"] = envoy.Upstream{Addresses: up["gpu a"].Addresses, Key: "sk-1\nx: y"}
	if _, err := envoy.Build(cfg, up); err == nil || strings.Contains(err.Error(), "sk-1") || !strings.Contains(err.Error(), `"gpu a"`) {
		t.Errorf("a key of two lines: %v", err)
	}
}

func TestSeveralAddresses(t *testing.T) {
	cfg := testConfig()
	up := upstreams(cfg)
	for _, list := range []string{"10.0.0.2:1 10.0.0.1:1 [fd00::1]:1 10.0.0.2:1", "[fd00::1]:1 10.0.0.1:1 10.0.0.2:1"} {
		var u envoy.Upstream
		for _, a := range strings.Fields(list) {
			u.Addresses = append(u.Addresses, netip.MustParseAddrPort(a))
		}
		up["gpu a"] = u
		res, err := envoy.Build(cfg, up)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range res.Clusters[chained].GetLoadAssignment().GetEndpoints()[0].GetLbEndpoints() {
			got = append(got, e.GetEndpoint().GetAddress().GetSocketAddress().GetAddress()+" "+e.GetEndpoint().GetHostname())
		}
		if diff := cmp.Diff([]string{"10.0.0.1 10.0.0.11:8000", "10.0.0.2 10.0.0.11:8000", "fd00::1 10.0.0.11:8000"}, got); diff != "" {
			t.Errorf("endpoints (-want +got):\n%s", diff)
		}
	}
}

func TestUpstreamTLS(t *testing.T) {
	type want struct {
		ca, sni, san, cert, key string
		kind                    tlsv3.SubjectAltNameMatcher_SanType
	}
	const dns, ip = tlsv3.SubjectAltNameMatcher_DNS, tlsv3.SubjectAltNameMatcher_IP_ADDRESS
	for name, c := range map[string]struct {
		host        string
		tls         *config.ProviderTLS
		authorities string
		want        want
	}{
		"system":    {"api.example", nil, "", want{envoy.SystemAuthorities, "api.example", "api.example", "", "", dns}},
		"elsewhere": {"api.example", nil, "/etc/other.pem", want{"/etc/other.pem", "api.example", "api.example", "", "", dns}},
		"address":   {"fd00::1", nil, "", want{envoy.SystemAuthorities, "", "fd00::1", "", "", ip}},
		"private":   {"10.0.0.1", &config.ProviderTLS{CA: "/ca", ServerName: "e.test"}, "/etc/other.pem", want{"/ca", "e.test", "e.test", "", "", dns}},
		"client":    {"e.test", &config.ProviderTLS{Cert: "/cert", Key: "/key"}, "", want{envoy.SystemAuthorities, "e.test", "e.test", "/cert", "/key", dns}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := provider(func(p *config.Provider) { p.HTTPS, p.Hostname, p.TLS = true, c.host, c.tls })
			up := upstreams(cfg)
			up["gpu a"] = envoy.Upstream{Addresses: up["gpu a"].Addresses, Authorities: c.authorities}
			res, err := envoy.Build(cfg, up)
			if err != nil {
				t.Fatal(err)
			}
			ctx := unpack(t, res.Clusters[chained].GetTransportSocket().GetTypedConfig(), &tlsv3.UpstreamTlsContext{})
			validation := ctx.GetCommonTlsContext().GetValidationContext()
			san := validation.GetMatchTypedSubjectAltNames()[0]
			got := want{ca: validation.GetTrustedCa().GetFilename(), sni: ctx.GetSni(), san: san.GetMatcher().GetExact(), kind: san.GetSanType()}
			if certs := ctx.GetCommonTlsContext().GetTlsCertificates(); len(certs) > 0 {
				got.cert, got.key = certs[0].GetCertificateChain().GetFilename(), certs[0].GetPrivateKey().GetFilename()
			}
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if res.Clusters["pm|b"].GetTransportSocket() != nil {
				t.Error("TLS to a provider without https")
			}
		})
	}
}

// Nothing of a model or path means anything to Lua.
func TestScriptQuotes(t *testing.T) {
	cfg := provider(func(p *config.Provider) { p.Prefix = "/a'..os.exit()..'%20" })
	cfg.Routes[0].Targets[0].Model = "x']] .. os.exit() --[[\\"
	res := build(t, cfg)
	lua := unpack(t, httpOptions(t, res.Clusters[chained]).GetHttpFilters()[1].GetTypedConfig(), &luav3.Lua{})
	text := lua.GetDefaultSourceCode().GetInlineString()
	head, _, _ := strings.Cut(text, "function ")
	if strings.Contains(head, "exit(") || strings.Contains(head, "[[") || strings.Count(head, "'") != 6 {
		t.Errorf("script begins with %s", head)
	}
}
