package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pointsman/pointsman/internal/enginesim"
)

// One pointsman, one Envoy, and everything that needs no fault and no restart.
func TestServe(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3, enginesim.Options{})
	m := newMesh(t, f.providers()+"routes:\n"+
		f.route("llama", "round_robin", "meta/Llama-3.1-70B")+
		f[:1].route("plain", "round_robin", "plain")+
		f.route("warm", "cache_aware", "warm"))
	m.reachable(7)

	t.Run("renamed model, exact content length", func(t *testing.T) {
		body := `{"n":18446744073709551617, "model" : "llama","messages":[{"role":"user","content":"héllo"}] }`
		a := m.post(chatPath, body)
		if a.status != 200 {
			t.Fatalf("status %d: %s", a.status, a.body)
		}
		e := f.named(a.servedBy())
		last, _ := e.Last()
		want := strings.Replace(body, `"llama"`, `"meta/Llama-3.1-70B"`, 1)
		if last.Model != "meta/Llama-3.1-70B" || last.BodySHA256 != sum(want) || last.ContentLength != int64(len(want)) {
			t.Errorf("engine saw %+v, want %q", last, want)
		}
		if last.Host != strings.TrimPrefix(e.URL(), "http://") {
			t.Errorf("Host %q", last.Host)
		}
		if got := a.header.Get("x-pointsman-target"); got != e.Name()+"/meta/Llama-3.1-70B" {
			t.Errorf("x-pointsman-target %q", got)
		}
		if a.header.Get("x-pointsman-provider") != e.Name() || a.header.Get("x-pointsman-model") != "meta/Llama-3.1-70B" ||
			a.header.Get("x-pointsman-attempts") != "1" {
			t.Errorf("headers %v", a.header)
		}
	})

	t.Run("same model, body untouched, query kept (report 001)", func(t *testing.T) {
		body := ` {"model":"plain", "messages":[{"role":"user","content":"emoji \ud83d"}]}` // report 014
		a := m.post(chatPath+"?api-version=2024-10-21", body)
		last, _ := f[0].Last()
		if a.status != 200 || last.BodySHA256 != sum(body) || last.Path != chatPath+"?api-version=2024-10-21" {
			t.Errorf("status %d, engine saw %+v", a.status, last)
		}
	})

	t.Run("completions", func(t *testing.T) {
		if a := m.post("/v1/completions", `{"model":"plain","prompt":"x"}`); a.status != 200 {
			t.Errorf("status %d: %s", a.status, a.body)
		}
	})

	t.Run("errors in both dialects", func(t *testing.T) {
		for _, c := range []struct {
			name, body   string
			status       int
			code, anType string
		}{
			{"unknown model", `{"model":"nobody"}`, 404, "model_not_found", "not_found_error"},
			{"bad JSON", `{"model":`, 400, "invalid_json", "invalid_request_error"},
			{"trailing garbage", `{"model":"plain"} x`, 400, "invalid_json", "invalid_request_error"},
			{"missing model", `{"messages":[]}`, 400, "missing_model", "invalid_request_error"},
			{"not an object", `[1]`, 400, "missing_model", "invalid_request_error"},
			{"no body", ``, 400, "missing_body", "invalid_request_error"},
			{"33 MiB", `{"model":"plain","x":"` + strings.Repeat("a", 33<<20) + `"}`, 413, "body_too_large", "invalid_request_error"},
		} {
			a := m.post(chatPath, c.body)
			if code, dialect := a.code(t); a.status != c.status || code != c.code || dialect != "openai" {
				t.Errorf("%s: %d %s (%s)", c.name, a.status, code, dialect)
			}
			a = m.post("/v1/messages?beta=true", c.body)
			if kind, dialect := a.code(t); a.status != c.status || kind != c.anType || dialect != "anthropic" {
				t.Errorf("%s: %d %s (%s)", c.name, a.status, kind, dialect)
			}
		}
	})

	t.Run("forged headers change nothing (case 239, reports 036 and 162)", func(t *testing.T) {
		before := f[0].Stats().Requests
		a := m.post(chatPath, chat("plain", "x", false, 1),
			"x-pointsman-cluster", "pm|none", "X-Pointsman-Cluster", "pm|b/meta/Llama-3.1-70B",
			"x-pointsman-decision", "forged-0-1", "x-envoy-max-retries", "0", "x-envoy-retry-on", "5xx",
			"x-envoy-upstream-rq-timeout-ms", "1", "x-envoy-upstream-rq-per-try-timeout-ms", "1",
			"x-envoy-attempt-count", "9", "x-data-parallel-rank", "9",
			"authorization", "Bearer client-secret", "x-api-key", "client-secret")
		if a.status != 200 || a.servedBy() != "a" || f[0].Stats().Requests != before+1 {
			t.Fatalf("status %d, served by %q", a.status, a.servedBy())
		}
		last, _ := f[0].Last()
		for _, name := range []string{"x-pointsman-cluster", "x-data-parallel-rank", "authorization", "x-api-key"} {
			if v := last.Headers.Values(name); name != "x-pointsman-cluster" && len(v) > 0 {
				t.Errorf("engine saw %s: %q", name, v)
			} else if name == "x-pointsman-cluster" && (len(v) > 1 || len(v) == 1 && v[0] != "pm|a/plain") {
				t.Errorf("engine saw %s: %q", name, v)
			}
		}
		if v := last.Headers.Values("x-pointsman-decision"); len(v) != 1 || strings.HasPrefix(v[0], "forged") {
			t.Errorf("decision header %q", v)
		}
	})

	t.Run("models", func(t *testing.T) {
		a, err := do(t.Context(), http.MethodGet, m.base+"/v1/models", "")
		if err != nil {
			t.Fatal(err)
		}
		var list struct {
			Object string
			Data   []struct {
				ID, Object string
				OwnedBy    string `json:"owned_by"`
				Created    int64
			}
		}
		if err := json.Unmarshal([]byte(a.body), &list); err != nil {
			t.Fatalf("%q: %v", a.body, err)
		}
		var ids []string
		for _, d := range list.Data {
			ids = append(ids, d.ID)
			if d.Object != "model" || d.OwnedBy != "pointsman" || d.Created == 0 {
				t.Errorf("entry %+v", d)
			}
		}
		if got := fmt.Sprint(ids); got != "[llama plain warm]" || list.Object != "list" {
			t.Errorf("models %s", a.body)
		}
		one, err := do(t.Context(), http.MethodGet, m.base+"/v1/models/plain", "")
		if err != nil || one.status != 200 || !strings.Contains(one.body, `"id":"plain"`) {
			t.Errorf("one model: %d %s %v", one.status, one.body, err)
		}
		none, err := do(t.Context(), http.MethodGet, m.base+"/v1/models/nobody", "")
		if err != nil {
			t.Fatal(err)
		}
		if code, _ := none.code(t); none.status != 404 || code != "model_not_found" {
			t.Errorf("unknown model: %d %s", none.status, none.body)
		}
	})

	t.Run("upgrade and CONNECT", func(t *testing.T) {
		a, err := do(t.Context(), http.MethodGet, m.base+"/v1/realtime?model=plain", "", "connection", "upgrade", "upgrade", "websocket",
			"sec-websocket-version", "13", "sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
		if err != nil {
			t.Fatal(err)
		}
		if code, _ := a.code(t); a.status != 501 || code != "not_supported" {
			t.Errorf("upgrade: %d %s", a.status, a.body)
		}
	})

	t.Run("body of 4 MiB, and of limits.body", func(t *testing.T) {
		for _, size := range []int{640 << 10, 4 << 20, 32 << 20} { // report 008
			head, tail := `{"model":"plain","messages":[{"role":"user","content":"`, `"}]}`
			body := head + strings.Repeat("x", size-len(head)-len(tail)) + tail
			a := m.post(chatPath, body)
			last, _ := f[0].Last()
			if a.status != 200 || last.BodyBytes != size || last.BodySHA256 != sum(body) {
				t.Errorf("%d bytes: status %d, engine saw %d", size, a.status, last.BodyBytes)
			}
		}
	})

	t.Run("chunked upload (report 016)", func(t *testing.T) {
		body := chat("llama", strings.Repeat("y", 100_000), false, 1)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, m.base+chatPath, struct{ *bytes.Reader }{bytes.NewReader([]byte(body))})
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = -1
		req.Header.Set("content-type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		last, _ := f.named(resp.Header.Get("x-served-by")).Last()
		if want := strings.Replace(body, `"llama"`, `"meta/Llama-3.1-70B"`, 1); resp.StatusCode != 200 || last.BodySHA256 != sum(want) {
			t.Errorf("status %d, engine saw %+v", resp.StatusCode, last)
		}
	})

	t.Run("HTTP/2 without TLS, with trailers (case 401)", func(t *testing.T) {
		h2 := &http.Client{Transport: &http.Transport{Protocols: plainHTTP2()}}
		for _, c := range []struct {
			body   string
			status int
		}{{chat("plain", "h2", false, 1), 200}, {"", 400}} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, m.base+chatPath, struct{ *strings.Reader }{strings.NewReader(c.body)})
			if err != nil {
				t.Fatal(err)
			}
			req.ContentLength = -1
			req.Trailer = http.Header{"X-Checksum": {"1"}}
			req.Header.Set("content-type", "application/json")
			before := f[0].Stats().Requests
			resp, err := h2.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			var buf bytes.Buffer
			_, _ = buf.ReadFrom(resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != c.status || resp.ProtoMajor != 2 {
				t.Errorf("body %q: HTTP/%d status %d %s", c.body, resp.ProtoMajor, resp.StatusCode, buf.String())
			}
			last, _ := f[0].Last()
			if c.status == 200 && (last.BodySHA256 != sum(c.body) || f[0].Stats().Requests != before+1) {
				t.Errorf("engine saw %+v", last)
			}
			if c.status == 400 && !strings.Contains(buf.String(), "missing_body") {
				t.Errorf("body %s", buf.String())
			}
		}
	})

	t.Run("response headers reach the client as they were sent (report 040)", func(t *testing.T) {
		f.faults(t, "a", enginesim.Fault{Count: 1, Headers: map[string]string{"server": "vllm", "x-odd": "1"}})
		a := m.post(chatPath, chat("plain", "x", false, 1))
		if got := a.header.Values("server"); len(got) != 1 || got[0] != "vllm" {
			t.Errorf("server %q", got)
		}
	})

	m.settled()
}

func (f fleet) named(name string) *enginesim.Engine {
	for _, e := range f {
		if e.Name() == name {
			return e
		}
	}
	return nil
}

func sum(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}
