package envoy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/pointsman/pointsman/envoy/envoytest"
	"github.com/pointsman/pointsman/internal/config"
	"github.com/pointsman/pointsman/internal/wire"
)

// seen is what an engine saw of a request.
type seen struct {
	Path, Host, Authorization, XAPIKey, Length, Encoding, Rank string
	Body                                                       []byte
}

// echo is an engine that answers with what it saw, and with this status.
func echo(t *testing.T, status int) (addr string, last func() *seen) {
	t.Helper()
	got := make(chan *seen, 100)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("reading the request: %v", err)
		}
		got <- &seen{
			Path: r.RequestURI, Host: r.Host, Authorization: strings.Join(r.Header.Values("authorization"), ","),
			XAPIKey: strings.Join(r.Header.Values("x-api-key"), ","), Length: r.Header.Get("content-length"),
			Encoding: strings.Join(r.TransferEncoding, ","), Rank: r.Header.Get(wire.HeaderDataParallelRank), Body: body,
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://"), func() *seen {
		select {
		case s := <-got:
			return s
		default:
			return nil
		}
	}
}

// chainConfig has one failing and one good target of every kind, all with a model of
// their own. Credentials by key need xDS: see package xds and e2e.
func chainConfig(t *testing.T, socket string) (*config.Config, map[string]func() *seen) {
	cfg := realConfig(t, socket)
	logs := map[string]func() *seen{}
	for _, c := range []struct {
		name, prefix, model string
		passthrough         bool
	}{
		{"plain", "", "m", false},
		{"long", "", "a-much-longer-model-name/than-the-one-asked", false},
		{"odd", "", "q\"u\\o't]]é\u4e2d%s", false},
		{"prefix", "/api/v1", "p", false},
		{"deep", "/x/y%20z", "d", false},
		{"pass", "", "c", true},
		{"any", "/any", "", false},
	} {
		for status, name := range map[int]string{200: c.name, 503: c.name + "-503"} {
			addr, last := echo(t, status)
			logs[name] = last
			cfg.Providers = append(cfg.Providers, config.Provider{
				Name: name, Slug: name, Host: "host-of-" + name, Addr: addr, Prefix: c.prefix,
				Credentials: config.Credentials{Passthrough: c.passthrough},
			})
			target := config.Target{Provider: name, Model: c.model, ID: name, ProviderIndex: len(cfg.Providers) - 1, Weight: 1}
			if c.model == "" {
				cfg.Groups = append(cfg.Groups, config.Group{Name: name, Slug: "g-" + name, Members: []config.Target{target}})
				continue
			}
			cfg.Routes = append(cfg.Routes, config.Route{Model: name, Targets: []config.Target{target, {
				Provider: name, Model: c.model + "2", ID: name + "2", ProviderIndex: len(cfg.Providers) - 1, Weight: 1,
			}}})
		}
	}
	return cfg, logs
}

// TestChainOnRealEnvoy: what one attempt was given is not seen by the next, whatever
// the order, on every path and with every form of body.
func TestChainOnRealEnvoy(t *testing.T) {
	socket := envoytest.SocketPath(t)
	cfg, logs := chainConfig(t, socket)
	cfg.Limits.Body = 32 << 20
	cfg.Timeouts = config.Timeouts{Connect: readLimit, Idle: readLimit, Client: readLimit} // of large bodies
	bootstrap := staticBootstrap(t, cfg)
	if err := envoytest.Validate(t, bootstrap); err != nil {
		t.Fatal(err)
	}
	startStub(t, socket)
	addr := envoytest.Start(t, bootstrap).Listener(wire.ListenerName)
	models := map[string]string{}
	for _, r := range cfg.Routes {
		models[r.Model] = r.Targets[0].Model
	}
	prefixes := map[string]string{"prefix": "/api", "deep": "/x/y%20z", "any": "/any"}

	send := func(t *testing.T, list []string, method, path string, body []byte, meta map[string]any, chunked bool) *http.Response {
		t.Helper()
		if meta == nil {
			meta = map[string]any{}
		}
		raw, err := json.Marshal(meta)
		if err != nil {
			t.Fatal(err)
		}
		var in io.Reader = bytes.NewReader(body)
		if chunked {
			in = io.MultiReader(in)
		}
		if body == nil {
			in = nil
		}
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr+path, in)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(headerList, clusters(slices.Clone(list)...))
		req.Header.Set(headerMeta, string(raw))
		req.Header.Set("authorization", "Bearer client")
		req.Header.Set("x-api-key", "client-x")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return resp
	}

	body := []byte(`{"model": "asked", "x": "é", "model":"asked" , "n": 12345678901234567890}`)
	spans := [][]int{{10, 7}, {bytes.LastIndex(body, []byte(`"asked"`)), 7}}
	want := func(name string) string {
		base := strings.TrimSuffix(name, "-503")
		m := jsonText(t, models[base])
		if base == "any" {
			m = `"right"`
		}
		return strings.ReplaceAll(string(body), `"asked"`, m)
	}
	names := []string{"plain", "long", "odd", "prefix", "deep", "pass", "any"}
	for _, first := range names {
		for _, last := range names {
			if first == last {
				continue
			}
			for _, chunked := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %s %t", first, last, chunked), func(t *testing.T) {
					resp := send(t, []string{first + "-503", last}, "POST", "/v1/chat/completions?q=1", body, map[string]any{
						wire.KeySpans: spans, wire.KeyAsked: "asked", wire.KeyText: `"right"`, wire.KeyModel: "right",
						wire.KeyAuthorization: "Bearer client", wire.KeyXAPIKey: "client-x",
					}, chunked)
					if resp.StatusCode != 200 {
						t.Errorf("status %d", resp.StatusCode)
					}
					model := models[last]
					if last == "any" {
						model = "right"
					}
					if got := resp.Header.Get(wire.HeaderServedModel); got != model {
						t.Errorf("served model %q, want %q", got, model)
					}
					for _, name := range []string{first + "-503", last} {
						got := logs[name]()
						if got == nil {
							t.Fatalf("%s was not asked", name)
						}
						base := strings.TrimSuffix(name, "-503")
						path := prefixes[base] + "/v1/chat/completions?q=1"
						if got.Path != path || got.Host != "host-of-"+name {
							t.Errorf("%s saw %s %s, want %s", name, got.Host, got.Path, path)
						}
						if string(got.Body) != want(name) {
							t.Errorf("%s saw %s, want %s", name, got.Body, want(name))
						}
						auth, key := "", ""
						if base == "pass" {
							auth, key = "Bearer client", "client-x"
						}
						if got.Authorization != auth || got.XAPIKey != key {
							t.Errorf("%s saw the credentials %q %q", name, got.Authorization, got.XAPIKey)
						}
						if got.Rank != "" {
							t.Errorf("%s saw a rank", name)
						}
					}
				})
			}
		}
	}

	t.Run("no model to change", func(t *testing.T) {
		for _, chunked := range []bool{false, true} {
			send(t, []string{"long-503", "prefix"}, "POST", "/v1/completions", body, nil, chunked)
			for _, name := range []string{"long-503", "prefix"} {
				got := logs[name]()
				if got == nil || string(got.Body) != string(body) {
					t.Errorf("%s saw %v", name, got)
				}
			}
		}
	})
	t.Run("the model that was asked for stays as it was written", func(t *testing.T) {
		odd := []byte(`{"model":"\u006d"}`)
		send(t, []string{"long-503", "plain"}, "POST", "/v1/completions", odd,
			map[string]any{wire.KeySpans: [][]int{{9, 8}}, wire.KeyAsked: "m"}, false)
		logs["long-503"]()
		if got := logs["plain"](); got == nil || string(got.Body) != string(odd) {
			t.Errorf("saw %v", got)
		}
	})
	t.Run("form", func(t *testing.T) {
		form := []byte("--b\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nasked\r\n--b--\r\n")
		at := bytes.Index(form, []byte("asked"))
		send(t, []string{"odd-503", "plain"}, "POST", "/v1/audio", form,
			map[string]any{wire.KeySpans: [][]int{{at, 5}}, wire.KeyAsked: "asked", wire.KeyForm: true}, false)
		for _, name := range []string{"odd-503", "plain"} {
			got := logs[name]()
			if want := strings.Replace(string(form), "asked", models[strings.TrimSuffix(name, "-503")], 1); got == nil || string(got.Body) != want {
				t.Errorf("%s saw %s", name, got.Body)
			}
		}
	})
	t.Run("GET", func(t *testing.T) {
		send(t, []string{"prefix-503", "deep-503", "plain"}, "GET", "/v1/files", nil,
			map[string]any{wire.KeySpans: spans, wire.KeyAsked: "asked"}, false)
		for name, path := range map[string]string{"prefix-503": "/api/v1/files", "deep-503": "/x/y%20z/v1/files", "plain": "/v1/files"} {
			if got := logs[name](); got == nil || got.Path != path || len(got.Body) != 0 || got.Length != "" {
				t.Errorf("%s saw %+v", name, got)
			}
		}
	})
	t.Run("one /v1 only", func(t *testing.T) {
		for path, want := range map[string]string{"/v1": "/api/v1", "/v1?a=b": "/api/v1?a=b", "/v1/x": "/api/v1/x", "/v1beta/x": "/api/v1/v1beta/x", "/": "/api/v1/"} {
			send(t, []string{"deep-503", "prefix"}, "POST", path, body, nil, false)
			logs["deep-503"]()
			if got := logs["prefix"](); got == nil || got.Path != want {
				t.Errorf("%s became %v, want %s", path, got, want)
			}
		}
	})
	t.Run("many keys, large bodies", func(t *testing.T) {
		for _, size := range []int{100 << 10, 2 << 20, 31 << 20} {
			var big bytes.Buffer
			var spans [][]int
			big.WriteByte('{')
			for range 500 {
				big.WriteString(`"model":`)
				spans = append(spans, []int{big.Len(), 7})
				big.WriteString(`"asked",`)
			}
			big.WriteString(`"text":"`)
			big.Write(bytes.Repeat([]byte("x"), size))
			big.WriteString(`"}`)
			resp := send(t, []string{"long-503", "plain"}, "POST", "/v1/completions", big.Bytes(),
				map[string]any{wire.KeySpans: spans, wire.KeyAsked: "asked"}, false)
			if resp.StatusCode != 200 {
				t.Errorf("%d bytes: status %d", size, resp.StatusCode)
			}
			for _, name := range []string{"long-503", "plain"} {
				got := logs[name]()
				if got == nil {
					t.Errorf("%d bytes: %s was not asked", size, name)
					continue
				}
				if want := strings.ReplaceAll(big.String(), `"asked"`, jsonText(t, models[strings.TrimSuffix(name, "-503")])); string(got.Body) != want {
					t.Errorf("%d bytes: %s saw %d bytes, want %d", size, name, len(got.Body), len(want))
				}
			}
		}
	})
}

func jsonText(t *testing.T, s string) string {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
