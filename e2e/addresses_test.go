package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pointsman/pointsman/internal/enginesim"
)

// ask posts a chat request as a caller and gives the answer.
func (m *mesh) ask(model, caller string) answer {
	m.t.Helper()
	a, err := m.send(http.MethodPost, chatPath, []byte(chat(model, "hello", false, 4)), false, "content-type", "application/json", "x-caller", caller)
	if err != nil {
		m.t.Fatal(err)
	}
	return a
}

// Cases 227-231 and 234, case 413, and case 399: what a model string leads to, through a real Envoy.
func TestAddresses(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3, enginesim.Options{})
	m := newMesh(t, f.providers()+`
routes:
  - {model: g/route, targets: [{provider: c}]}
  - {model: plain, targets: [{provider: a}, {provider: b, weight: 0}]}
  - model: split
    variants:
      - {name: old, weight: 0, targets: [{provider: b}]}
      - {name: new, targets: [{provider: a, model: newer}]}
groups:
  - {name: G, members: [{provider: a}, {provider: b, model: own}]}
callers:
  identity: {header: X-Caller}
  trusted: [127.0.0.1]
  allow: [{name: alice, providers: [a]}]
passthrough: [{path_prefix: /v1/files, route: plain}]
`)
	m.reachable(7)

	t.Run("cases 227-231", func(t *testing.T) {
		for _, test := range []struct {
			model, caller string
			status        int
			target, sent  []string // one of them
		}{
			{"a/some/model:x", "", 200, []string{"a/*"}, []string{"some/model:x"}},
			{"g/lora", "", 200, []string{"a/*", "b/own"}, []string{"lora", "own"}},
			{"g/route", "", 200, []string{"c/g/route"}, []string{"g/route"}},
			{"nobody/x", "", 404, nil, nil},
			{"a/", "", 404, nil, nil},
			{"/x", "", 404, nil, nil},
			{"x", "", 404, nil, nil},
			{"split", "", 200, []string{"a/newer"}, []string{"newer"}},
			{"a/x", "alice", 200, []string{"a/*"}, []string{"x"}},
			{"b/x", "alice", 404, nil, nil},
			{"g/route", "alice", 403, nil, nil},
			{"g/x", "alice", 200, []string{"a/*"}, []string{"x"}},
			{"g/route", "bob", 200, []string{"c/g/route"}, []string{"g/route"}},
		} {
			for range 4 {
				a := m.ask(test.model, test.caller)
				if a.status != test.status {
					t.Fatalf("%s as %q: status %d: %s", test.model, test.caller, a.status, a.body)
				}
				if a.status != 200 {
					continue
				}
				i := slices.Index(test.target, a.header.Get("x-pointsman-target"))
				if i < 0 {
					t.Fatalf("%s: served by %s", test.model, a.header.Get("x-pointsman-target"))
				}
				last, _ := f.named(a.servedBy()).Last()
				if last.Model != test.sent[i] || a.header.Get("x-pointsman-model") != test.sent[i] {
					t.Errorf("%s: the engine was asked for %q, the answer says %q", test.model, last.Model, a.header.Get("x-pointsman-model"))
				}
				if last.Headers.Get("x-caller") != "" {
					t.Error("the engine saw the caller's name")
				}
			}
		}
	})

	t.Run("variants, case 234", func(t *testing.T) {
		a := m.ask("split", "")
		if a.header.Get("x-pointsman-variant") != "new" || a.header.Get("x-pointsman-attempts") != "1" {
			t.Errorf("headers %v", a.header)
		}
		f.faults(t, "a", enginesim.Fault{Status: 503})
		defer f.faults(t, "a")
		a = m.ask("split", "")
		if a.status != 200 || a.header.Get("x-pointsman-target") != "b/split" || a.header.Get("x-pointsman-variant") != "new" {
			t.Errorf("status %d, headers %v", a.status, a.header)
		}
		if last, _ := f[1].Last(); last.Model != "split" {
			t.Errorf("b was asked for %q", last.Model)
		}
	})

	t.Run("drained, case 413", func(t *testing.T) {
		before := f.counts()[1]
		f.faults(t, "a", enginesim.Fault{Status: 503})
		defer f.faults(t, "a")
		if a := m.ask("plain", ""); a.status != 503 || a.header.Get("x-pointsman-attempts") != "1" {
			t.Errorf("status %d, headers %v", a.status, a.header)
		}
		if after := f.counts()[1]; after != before {
			t.Errorf("the drained one saw %d requests", after-before)
		}
	})

	t.Run("models of a caller", func(t *testing.T) {
		for caller, want := range map[string][]string{"": {"g/route", "plain", "split", "g/own"}, "alice": {"plain", "split"}} {
			a, err := m.send(http.MethodGet, "/v1/models", nil, false, "x-caller", caller)
			if err != nil || a.status != 200 {
				t.Fatalf("%v %d", err, a.status)
			}
			var got []string
			for _, id := range regexp.MustCompile(`"id":"([^"]*)"`).FindAllStringSubmatch(a.body, -1) {
				got = append(got, id[1])
			}
			if !slices.Equal(got, want) {
				t.Errorf("%q: %v, want %v", caller, got, want)
			}
		}
	})
}

// Case 411: a full provider is not chosen, and when all are full the answer is 429 at once.
func TestMaxInFlight(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	held := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { <-gate; w.WriteHeader(200) }))
	defer held.Close()
	m := newMesh(t, fmt.Sprintf("providers:\n  - {name: a, url: %q, max_in_flight: 2}\n  - {name: b, url: %q, max_in_flight: 2}\n", held.URL, held.URL)+
		"routes: [{model: m, targets: [{provider: a}, {provider: b}]}]\n")
	m.reachable(2)
	var wg sync.WaitGroup
	var once sync.Once
	release := func() { once.Do(func() { close(gate) }) }
	defer wg.Wait()
	defer release()
	for range 4 {
		wg.Go(func() {
			a, err := m.send(http.MethodPost, chatPath, []byte(chat("m", "hello", false, 4)), false, "content-type", "application/json")
			if err != nil || a.status != 200 {
				t.Errorf("held: %v status %d: %s", err, a.status, a.body)
			}
		})
	}
	eventually(t, "four are in flight", func() error {
		if n := m.metric("pointsman_in_flight"); n != 4 {
			return fmt.Errorf("%v", n)
		}
		return nil
	})
	a := m.ask("m", "")
	if a.status != 429 || a.header.Get("retry-after") != "1" || !strings.Contains(a.body, `"code":"saturated"`) {
		t.Errorf("fifth: status %d, %v: %s", a.status, a.header, a.body)
	}
	release()
	wg.Wait()
	eventually(t, "the next is served", func() error {
		if a := m.ask("m", ""); a.status != 200 {
			return fmt.Errorf("status %d", a.status)
		}
		return nil
	})
}

// Every configuration of docs/providers.md, with engines in the place of the services: each route is served,
// with the path, key and model that the document says.
func TestDocumentedProviders(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../docs/providers.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY"} {
		//nolint:usetesting // t.Setenv forbids parallel tests; it is for the child, and no other test reads it
		if err := os.Setenv(name, "sk-"+name); err != nil {
			t.Fatal(err)
		}
	}
	key := filepath.Join(t.TempDir(), "anthropic")
	keyFile(t, key, "sk-file")
	r := newRecords()
	u := newUpstream(t, r, "service", nil)
	address := regexp.MustCompile(`url: https?://[^/\s]+`)
	n := 0
	for _, part := range strings.Split(string(data), "```yaml\n")[1:] {
		text, _, _ := strings.Cut(part, "```")
		if !strings.Contains(text, "routes:") {
			continue
		}
		n++
		text = strings.ReplaceAll(address.ReplaceAllString(text, "url: http://"+u.addr()), "/run/secrets/anthropic", key)
		m := newMesh(t, text)
		for _, model := range regexp.MustCompile(`(?m)^  - model: (\S+)`).FindAllStringSubmatch(text, -1) {
			name := fmt.Sprintf("%d %s", n, model[1])
			eventually(t, name+" is served", func() error {
				r.take(name)
				a, err := m.send(http.MethodPost, chatPath, []byte(chat(model[1], "hello", false, 4)), false,
					"content-type", "application/json", "authorization", "Bearer sk-client", headerCase, name)
				if err != nil || a.status != 200 {
					return fmt.Errorf("%v status %d: %s", err, a.status, a.body)
				}
				return nil
			})
			for _, a := range r.take(name) {
				if strings.Contains(a.authorization+a.xAPIKey, "sk-client") {
					t.Errorf("%s: the engine saw the client's key", name)
				}
				want, _ := url.Parse("http://" + a.host + a.path)
				if !strings.HasSuffix(want.Path, chatPath) || strings.Contains(want.Path, "/v1/v1") {
					t.Errorf("%s: path %s", name, a.path)
				}
			}
		}
		m.settled()
	}
	if n != 5 {
		t.Errorf("%d configurations", n)
	}
}

// Case 390: a key that changes in its file is in force within a second, and a running answer is not
// cut; a file that is emptied keeps the last key; a cluster and its key that are new in one reload fail no
// request. Case 392, the reload: a name that cannot be resolved holds nobody back.
func TestKeysMove(t *testing.T) {
	t.Parallel()
	r := newRecords()
	u, v := newUpstream(t, r, "u", nil), newUpstream(t, r, "v", nil)
	path := filepath.Join(t.TempDir(), "key")
	keyFile(t, path, "sk-one")
	head := fmt.Sprintf("providers:\n  - {name: u, url: \"http://%s\", credentials: {file: %q}}\n", u.addr(), path)
	m := newMesh(t, head+"routes: [{model: m, targets: [{provider: u}]}]\n")
	m.reachable(1)
	sent := func(name, model, plan string) (answer, []attempt) {
		a, err := m.send(http.MethodPost, chatPath, []byte(chat(model, "hello", false, 4)), false, "content-type", "application/json", headerCase, name, headerPlan, plan)
		if err != nil {
			t.Fatal(err)
		}
		return a, r.take(name)
	}
	if a, seen := sent("first", "m", ""); a.status != 200 || len(seen) != 1 || seen[0].authorization != "Bearer sk-one" {
		t.Fatalf("status %d, %+v", a.status, seen)
	}
	var wg sync.WaitGroup
	wg.Go(func() { // two seconds of answer
		a, err := m.send(http.MethodPost, chatPath, []byte(chat("m", "hello", true, 4)), false, "content-type", "application/json", headerCase, "long", headerPlan, "stream")
		if err != nil || a.err != nil || !strings.Contains(a.body, "[DONE]") {
			t.Errorf("the running answer was cut: %v %v", err, a.err)
		}
	})
	eventually(t, "the answer runs", func() error {
		if m.metric("pointsman_in_flight") != 1 {
			return fmt.Errorf("not in flight")
		}
		return nil
	})
	keyFile(t, path, "sk-two")
	eventually(t, "the new key is in force", func() error {
		if _, seen := sent("second", "m", ""); len(seen) != 1 || seen[0].authorization != "Bearer sk-two" {
			return fmt.Errorf("%+v", seen)
		}
		return nil
	})
	wg.Wait()
	keyFile(t, path, "")
	eventually(t, "a warning", func() error {
		if !strings.Contains(m.pointsman.log.String(), "the last one stays in use") {
			return fmt.Errorf("none")
		}
		return nil
	})
	if _, seen := sent("third", "m", ""); len(seen) != 1 || seen[0].authorization != "Bearer sk-two" {
		t.Errorf("%+v", seen)
	}
	keyFile(t, path, "sk-three")

	other := filepath.Join(t.TempDir(), "other")
	keyFile(t, other, "sk-other")
	m.writeConfig(head + fmt.Sprintf("  - {name: v, url: \"http://%s\", credentials: {file: %q}}\n  - {name: nowhere, url: \"http://does-not-exist.invalid\"}\n", v.addr(), other) +
		"routes: [{model: m, targets: [{provider: u}, {provider: v}, {provider: nowhere}]}]\n")
	both := map[string]bool{}
	eventually(t, "both serve", func() error {
		a, seen := sent("fourth", "m", "")
		if a.status != 200 || len(seen) != 1 {
			t.Fatalf("a request failed: status %d, %+v", a.status, seen)
		}
		if want := map[string]string{"u": "Bearer sk-three", "v": "Bearer sk-other"}[seen[0].engine]; seen[0].authorization != want && seen[0].authorization != "Bearer sk-two" {
			t.Errorf("%s saw %s", seen[0].engine, seen[0].authorization)
		}
		both[seen[0].engine] = true
		if len(both) < 2 {
			return fmt.Errorf("%v", both)
		}
		return nil
	})
	for _, key := range []string{"sk-one", "sk-two", "sk-three", "sk-other"} {
		if strings.Contains(m.pointsman.log.String(), key) {
			t.Errorf("%s is in the log", key)
		}
	}
	m.settled()
}

// Case 391: where the path of the URL is put, and case 378 behind one: what Envoy answers itself has the shape of
// the path that the client asked for.
func TestUpstreamPaths(t *testing.T) {
	t.Parallel()
	r := newRecords()
	u := newUpstream(t, r, "u", nil)
	m := newMesh(t, fmt.Sprintf(`
providers:
  - {name: api, url: "http://%[1]s/api/v1"}
  - {name: bare, url: "http://%[1]s"}
  - {name: x, url: "http://%[1]s/x/"}
  - {name: gone, url: "http://127.0.0.1:1/x/v1"}
timeouts: {request_secs: 3}
retry: {max_retries: 0}
`, u.addr())+"routes: [{model: m, targets: [{provider: bare}]}]\n")
	m.reachable(1)
	send := func(model, path, plan string) (answer, []attempt) {
		a, err := m.send(http.MethodPost, path, []byte(chat(model, "hello", true, 4)), false, "content-type", "application/json", headerCase, model, headerPlan, plan)
		if err != nil {
			t.Fatal(err)
		}
		return a, r.take(model)
	}
	for provider, paths := range map[string][2]string{
		"api":  {"/api/v1/chat/completions?a=/v1/", "/api/v1/messages"},
		"bare": {"/v1/chat/completions?a=/v1/", "/v1/messages"},
		"x":    {"/x/v1/chat/completions?a=/v1/", "/x/v1/messages"},
	} {
		for i, path := range []string{"/v1/chat/completions?a=/v1/", "/v1/messages"} {
			if a, seen := send(provider+"/m", path, ""); a.status != 200 || len(seen) != 1 || seen[0].path != paths[i] {
				t.Errorf("case 391: %s %s: status %d, %+v", provider, path, a.status, seen)
			}
		}
	}
	for _, test := range []struct {
		model, plan string
		status      int
		code        string
	}{
		{"gone/m", "", 502, "upstream_connection_failed"},
		{"x/m", "reset", 502, "upstream_connection_failed"},
		{"x/m", "silent", 504, "upstream_timeout"},
	} {
		for path, want := range map[string]string{
			"/v1/chat/completions": `{"error":{"message":`, "/v1/messages": `{"type":"error","error":{"type":"api_error","message":`,
		} {
			a, _ := send(test.model, path, test.plan)
			if a.status != test.status || !strings.HasPrefix(a.body, want) || strings.Contains(path, "chat") != strings.Contains(a.body, `"code":"`+test.code) {
				t.Errorf("case 378: %s %s %s: status %d: %s", test.model, test.plan, path, a.status, a.body)
			}
		}
	}
}

// Case 226: a key that is refused is the client's to hear, counted, and no reason to leave the target out.
func TestRefusedKey(t *testing.T) {
	t.Parallel()
	r := newRecords()
	u, v := newUpstream(t, r, "u", nil), newUpstream(t, r, "v", nil)
	dir := t.TempDir()
	keyFile(t, filepath.Join(dir, "u"), "sk-u")
	keyFile(t, filepath.Join(dir, "v"), "sk-v")
	m := newMesh(t, fmt.Sprintf("providers:\n  - {name: u, url: \"http://%s\", credentials: {file: %q}}\n  - {name: v, url: \"http://%s\", credentials: {file: %q}}\n",
		u.addr(), filepath.Join(dir, "u"), v.addr(), filepath.Join(dir, "v"))+"routes: [{model: m, targets: [{provider: u}, {provider: v}]}]\n")
	m.reachable(2)
	by := map[string]int{}
	for range 6 {
		a, err := m.send(http.MethodPost, chatPath, []byte(chat("m", "hello", false, 4)), false, "content-type", "application/json", headerCase, "c", headerPlan, "401")
		seen := r.take("c")
		if err != nil || a.status != 401 || len(seen) != 1 || seen[0].authorization != "Bearer sk-"+seen[0].engine {
			t.Fatalf("%v status %d, %+v", err, a.status, seen)
		}
		by[seen[0].engine]++
	}
	if by["u"] != 3 || by["v"] != 3 {
		t.Errorf("served by %v", by)
	}
	eventually(t, "all are counted", func() error {
		if n := m.metric("pointsman_upstream_auth_failures_total"); n != 6 {
			return fmt.Errorf("%v", n)
		}
		return nil
	})
}

// Case 416: a private authority is believed where it is configured, and a certificate for another name is not; nothing
// goes out in plain text.
func TestPrivateAuthority(t *testing.T) {
	t.Parallel()
	r := newRecords()
	ca := newAuthority(t)
	u := newUpstream(t, r, "u", ca.server(t, "engine.test", false))
	m := newMesh(t, fmt.Sprintf(`
providers:
  - {name: good, url: "https://%[1]s", tls: {ca: %[2]q, server_name: engine.test}}
  - {name: wrong, url: "https://%[1]s", tls: {ca: %[2]q, server_name: other.test}}
  - {name: system, url: "https://%[1]s", tls: {server_name: engine.test}}
  - {name: plain, url: "http://%[1]s"}
routes: [{model: m, targets: [{provider: good}]}]
`, u.addr(), ca.file))
	m.reachable(1)
	for provider, want := range map[string]int{"good": 200, "wrong": 502, "system": 502, "plain": 502} {
		a, err := m.send(http.MethodPost, chatPath, []byte(chat(provider+"/m", "hello", false, 4)), false, "content-type", "application/json", headerCase, provider)
		if err != nil || a.status != want {
			t.Errorf("%s: %v status %d: %s", provider, err, a.status, a.body)
		}
		if seen := r.take(provider); (len(seen) == 1) != (want == 200) {
			t.Errorf("%s: the engine saw %+v", provider, seen)
		}
	}
}

// Case 399: a caller's header is believed from trusted addresses only, by default from nobody, and no upstream sees it.
func TestUntrustedCaller(t *testing.T) {
	t.Parallel()
	for name, trusted := range map[string]string{"outside": "trusted: [10.0.0.0/8]", "default": "trusted: []", "inside": "trusted: [127.0.0.0/8]"} {
		r := newRecords()
		u := newUpstream(t, r, "u", nil)
		m := newMesh(t, fmt.Sprintf("providers: [{name: u, url: \"http://%s\"}, {name: v, url: \"http://%[1]s\"}]\n", u.addr())+
			"routes: [{model: m, targets: [{provider: u}]}]\n"+
			"callers: {identity: {header: x-caller}, "+trusted+", allow: [{name: alice, providers: [v]}]}\n")
		m.reachable(1)
		want := 200
		if name == "inside" {
			want = 403
		}
		a, err := m.send(http.MethodPost, chatPath, []byte(chat("m", "hello", false, 4)), false, "content-type", "application/json", headerCase, name, "x-caller", "alice")
		seen := r.take(name)
		if err != nil || a.status != want || (len(seen) == 1) != (want == 200) {
			t.Fatalf("%s: %v status %d, %+v", name, err, a.status, seen)
		}
		if want == 200 && seen[0].caller != "" {
			t.Errorf("%s: the engine saw the caller %q", name, seen[0].caller)
		}
	}
}
