package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Case 226: an engine that refuses the key is not failed over: the client hears it, and it is
// counted.
func TestKeyThatAnEngineRefuses(t *testing.T) {
	t.Parallel()
	r := newRecords()
	a, b := newUpstream(t, r, "a", nil), newUpstream(t, r, "b", nil)
	fileA, fileB := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	keyFile(t, fileA, "sk-refused-a")
	keyFile(t, fileB, "sk-refused-b")
	m := newMesh(t, fmt.Sprintf(`
providers:
  - {name: a, url: "http://%s", credentials: {file: %q}}
  - {name: b, url: "http://%s", credentials: {file: %q}}
routes:
  - {model: m, targets: [{provider: a}, {provider: b}]}
`, a.addr(), fileA, b.addr(), fileB))
	m.reachable(2)
	for _, want := range []string{"a", "b"} {
		got := m.post(chatPath, chat("m", "x", false, 1), headerPlan, "401,200", headerCase, "auth")
		seen := r.take("auth")
		if got.status != 401 || len(seen) != 1 || got.body != seen[0].engine || seen[0].authorization != "Bearer sk-refused-"+want {
			t.Errorf("case 226: status %d after %+v", got.status, seen)
		}
	}
	m.settled()
	eventually(t, "both are counted", func() error {
		if n := m.metric("pointsman_upstream_auth_failures_total"); n != 2 {
			return fmt.Errorf("%v", n)
		}
		return nil
	})
	if n := m.metric("pointsman_target_eligible"); n != 2 {
		t.Errorf("case 226: %v targets eligible", n)
	}
	m.noKeys("sk-refused-a", "sk-refused-b")
}

// Case 390: a key is replaced within a second, without touching a running answer; an emptied
// file keeps the last key; cluster and key may be new in one reload.
func TestKeyRotation(t *testing.T) {
	t.Parallel()
	r := newRecords()
	a, b := newUpstream(t, r, "a", nil), newUpstream(t, r, "b", nil)
	dir := t.TempDir()
	fileA, fileB := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	keyFile(t, fileA, "sk-rotate-1")
	head := fmt.Sprintf("providers:\n  - {name: a, url: \"http://%s\", credentials: {file: %q}}\n", a.addr(), fileA)
	const route = "routes:\n  - model: m\n    targets:\n      - {provider: a}\n"
	m := newMesh(t, head+route)
	m.reachable(1)
	key := func() string {
		t.Helper()
		got := m.post(chatPath, chat("m", "x", false, 1), headerCase, "key")
		seen := r.take("key")
		if got.status != 200 || len(seen) != 1 {
			t.Fatalf("case 390: status %d after %v", got.status, seen)
		}
		return seen[0].authorization
	}
	if got := key(); got != "Bearer sk-rotate-1" {
		t.Fatalf("first key %q", got)
	}

	var running sync.WaitGroup
	started := make(chan struct{})
	running.Go(func() {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, m.base+chatPath, strings.NewReader(chat("m", "x", true, 1)))
		req.Header.Set("content-type", "application/json")
		req.Header.Set(headerPlan, "stream")
		resp, err := client.Do(req)
		close(started)
		if err != nil {
			t.Errorf("case 390: %v", err)
			return
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		if err != nil || !strings.HasSuffix(string(body), "data: [DONE]\n\n") {
			t.Errorf("case 390: the running answer was cut: %v, %d bytes", err, len(body))
		}
	})
	<-started
	keyFile(t, fileA, "sk-rotate-2")
	since := time.Now()
	eventually(t, "the new key is in force", func() error {
		if got := key(); got != "Bearer sk-rotate-2" {
			return fmt.Errorf("%s", got)
		}
		return nil
	})
	if took := time.Since(since); took > 3*time.Second { // 1 s, on a machine that is busy with other tests
		t.Errorf("case 390: the new key took %v", took)
	}
	running.Wait()

	keyFile(t, fileA, "")
	eventually(t, "a warning says so", func() error {
		if !strings.Contains(m.pointsman.log.String(), "WARN") {
			return fmt.Errorf("no warning")
		}
		return nil
	})
	if got := key(); got != "Bearer sk-rotate-2" {
		t.Errorf("case 390: emptied: %q", got)
	}
	keyFile(t, fileA, "sk-rotate-3")

	// Requests go on all the time while another provider comes with its key.
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				name := fmt.Sprintf("w%d-%d", worker, i)
				got, err := m.try(chatPath, chat("m", "x", false, 1), headerCase, name)
				seen := r.take(name)
				if err != nil || got.status != 200 || len(seen) != 1 {
					t.Errorf("case 390: status %d %s, %v after %v", got.status, got.body, err, seen)
					return
				}
				if s := seen[0]; s.engine == "b" && s.authorization != "Bearer sk-rotate-b" || s.engine == "a" && !strings.HasPrefix(s.authorization, "Bearer sk-rotate-") {
					t.Errorf("case 390: %s saw %q", s.engine, s.authorization)
				}
			}
		})
	}
	keyFile(t, fileB, "sk-rotate-b")
	m.writeConfig(head + fmt.Sprintf("  - {name: b, url: \"http://%s\", credentials: {file: %q}}\n", b.addr(), fileB) + route + "      - {provider: b}\n")
	eventually(t, "the new provider serves", func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if b.requests == 0 {
			return fmt.Errorf("no request yet")
		}
		return nil
	})
	close(stop)
	wg.Wait()
	m.settled()
	m.noKeys("sk-rotate-")
}

// Case 391: the path of the URL comes first, one /v1 of two is left out. Case 378 behind a
// prefix: Envoy's own answers are in the dialect of the client's path.
func TestPathsAndErrorsBehindPrefixes(t *testing.T) {
	t.Parallel()
	r := newRecords()
	names := []string{"api", "bare", "deep", "v1"}
	suffix := map[string]string{"api": "/api/v1", "bare": "", "deep": "/x/", "v1": "/v1"}
	var providers, routes strings.Builder
	for _, name := range names {
		u := newUpstream(t, r, name, nil)
		fmt.Fprintf(&providers, "  - {name: %s, url: \"http://%s%s\"}\n", name, u.addr(), suffix[name])
		fmt.Fprintf(&routes, "  - {model: %s, targets: [{provider: %s}]}\n", name, name)
	}
	routes.WriteString("  - {model: two, targets: [{provider: api, model: two}, {provider: deep, model: other}]}\n")
	m := newMesh(t, "cooldown: {base_secs: 0}\ntimeouts: {request_secs: 1}\nretry: {base_backoff_ms: 1, max_backoff_ms: 1, on_timeout: [stream, unary]}\nproviders:\n"+
		providers.String()+"routes:\n"+routes.String())
	m.reachable(6)
	for path, want := range map[string]map[string]string{
		"/v1/chat/completions": {"api": "/api/v1/chat/completions", "bare": "/v1/chat/completions", "deep": "/x/v1/chat/completions", "v1": "/v1/chat/completions"},
		"/v1/x?q=/v1":          {"api": "/api/v1/x?q=/v1", "bare": "/v1/x?q=/v1", "deep": "/x/v1/x?q=/v1", "v1": "/v1/x?q=/v1"},
		"/generate":            {"api": "/api/v1/generate", "bare": "/generate", "deep": "/x/generate", "v1": "/v1/generate"},
	} {
		for _, name := range names {
			m.post(path, chat(name, "x", false, 1), headerCase, "path")
			if seen := r.take("path"); len(seen) != 1 || seen[0].path != want[name] {
				t.Errorf("case 391: %s at %s: %+v, want %s", path, name, seen, want[name])
			}
		}
	}

	for plan, status := range map[string]int{"reset,reset": 502, "silent,silent": 504, "503,reset": 502, "silent,reset": 502, "reset,silent": 504} {
		for path, anthropic := range map[string]bool{"/v1/messages": true, "/v1/messages/count_tokens?beta=true": true, "/v1/chat/completions": false} {
			got := m.post(path, chat("two", "x", false, 1), headerPlan, plan, headerCase, "error")
			if seen := r.take("error"); len(seen) != 2 {
				t.Errorf("case 378: %s: %+v", plan, seen)
			}
			var body struct {
				Type  string
				Error struct{ Type, Message, Code string }
			}
			err := json.Unmarshal([]byte(got.body), &body)
			if err != nil || got.status != status || got.header.Get("content-type") != "application/json" || body.Error.Type != "api_error" {
				t.Errorf("case 378: %s at %s: %d %s", plan, path, got.status, got.body)
			}
			if (body.Type == "error") != anthropic || (body.Error.Code == "") != anthropic {
				t.Errorf("case 378: %s at %s: the other dialect: %s", plan, path, got.body)
			}
		}
	}
	m.settled()
}

// Case 416: a private authority is trusted where it is named, the name has to fit, and nobody
// falls back to plain text.
func TestProviderTLS(t *testing.T) {
	t.Parallel()
	r := newRecords()
	ca := newAuthority(t)
	named := newUpstream(t, r, "named", ca.server(t, "engine.test", false))
	byIP := newUpstream(t, r, "by-ip", ca.server(t, "127.0.0.1", false))
	mutual := newUpstream(t, r, "mutual", ca.server(t, "engine.test", true))
	plain := newUpstream(t, r, "plain", nil)
	_, cert, key := ca.issue(t, "client.test")
	url := func(u *upstream) string { return "https://" + u.addr() }
	m := newMesh(t, "cooldown: {base_secs: 0}\nproviders:\n"+
		fmt.Sprintf("  - {name: named, url: %q, tls: {ca: %q, server_name: engine.test}}\n", url(named), ca.file)+
		fmt.Sprintf("  - {name: by-ip, url: %q, tls: {ca: %q}}\n", url(byIP), ca.file)+
		fmt.Sprintf("  - {name: mutual, url: %q, tls: {ca: %q, server_name: engine.test, cert: %q, key: %q}}\n", url(mutual), ca.file, cert, key)+
		fmt.Sprintf("  - {name: wrong-name, url: %q, tls: {ca: %q, server_name: other.test}}\n", url(named), ca.file)+
		fmt.Sprintf("  - {name: wrong-ip, url: %q, tls: {ca: %q}}\n", url(named), ca.file)+
		fmt.Sprintf("  - {name: system, url: %q, tls: {server_name: engine.test}}\n", url(named))+
		fmt.Sprintf("  - {name: no-cert, url: %q, tls: {ca: %q, server_name: engine.test}}\n", url(mutual), ca.file)+
		fmt.Sprintf("  - {name: plain, url: %q, tls: {ca: %q}}\n", url(plain), ca.file)+
		"routes:\n  - {model: m, targets: [{provider: named}]}\n")
	m.reachable(1)
	for name, want := range map[string]int{
		"named": 200, "by-ip": 200, "mutual": 200,
		"wrong-name": 502, "wrong-ip": 502, "system": 502, "no-cert": 502, "plain": 502,
	} {
		got := m.post(chatPath, chat(name+"/m", "x", false, 1), headerCase, name)
		if got.status != want {
			t.Errorf("case 416: %s: status %d %s, want %d", name, got.status, got.body, want)
		}
		if seen := r.take(name); (len(seen) == 1) != (want == 200) {
			t.Errorf("case 416: %s: %+v", name, seen)
		}
	}
	if strings.Contains(plain.raw.String(), "POST ") {
		t.Error("case 416: a request went out in plain text")
	}
	m.settled()
	if body, err := fetch(m.envoyURL + "/config_dump?include_eds"); err != nil || strings.Contains(string(body), "PRIVATE KEY") {
		t.Errorf("the dump holds a private key: %v", err)
	}
}

// Case 101: two routes and a group on one endpoint share its load.
func TestSharedEndpoint(t *testing.T) {
	t.Parallel()
	r := newRecords()
	u := newUpstream(t, r, "one", nil)
	m := newMesh(t, fmt.Sprintf(`
providers:
  - {name: one, url: "http://%s"}
routes:
  - {model: a, targets: [{provider: one}]}
  - {model: b, targets: [{provider: one}]}
groups:
  - {name: g, members: [{provider: one}]}
`, u.addr()))
	m.reachable(3)
	var streams []*http.Response
	for _, model := range []string{"a", "b", "g/any"} {
		for range 3 {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, m.base+chatPath, strings.NewReader(chat(model, "x", true, 1)))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("content-type", "application/json")
			req.Header.Set(headerPlan, "stream")
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			streams = append(streams, resp)
		}
	}
	for _, target := range []string{"one/a", "one/b", "one/*"} {
		if n := m.metric("pointsman_load", `target="`+target+`"`); n != 9 {
			t.Errorf("case 101: load %v of %s", n, target)
		}
	}
	for _, s := range streams {
		_, _ = io.Copy(io.Discard, s.Body)
		_ = s.Body.Close()
	}
	m.settled()
}
