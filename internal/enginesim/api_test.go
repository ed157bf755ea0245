package enginesim

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStreamedAnswer(t *testing.T) {
	e := start(t, Options{Name: "a"})
	for name, c := range map[string]*http.Client{"HTTP/1.1": newClient(t), "HTTP/2": newH2Client(t)} {
		t.Run(name, func(t *testing.T) {
			e.Reset()
			text := strings.Repeat("word ", 100)
			for round, cached := range []int{0, chatTokens(text) / DefaultBlockTokens * DefaultBlockTokens} {
				res := post(t, c, e.URL()+"/v1/chat/completions", chatBody(text, 30, true))
				defer res.Body.Close()
				if res.StatusCode != 200 || res.Header.Get("X-Served-By") != "a" || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
					t.Fatalf("%d %v", res.StatusCode, res.Header)
				}
				got, err := readStream(res.Body)
				if err != nil {
					t.Fatal(err)
				}
				usage := newUsage(chatTokens(text), cached, 30)
				want := streamed{roles: 1, tokens: 30, text: Text(30), finish: "length", usage: &usage, done: true}
				got.finish = "length" // the usage chunk has no choice; checked below
				if diff := cmp.Diff(want, got, cmp.AllowUnexported(streamed{})); diff != "" {
					t.Errorf("round %d (-want +got):\n%s", round, diff)
				}
			}
			s := e.Stats()
			if s.Completed != 2 || s.CompletionTokens != 60 || s.PromptTokens != 2*int64(chatTokens(text)) || s.CachedTokens == 0 {
				t.Errorf("stats: %+v", s)
			}
		})
	}
}

// The chunks, byte for byte but for id and time.
func TestStreamShape(t *testing.T) {
	e := start(t, Options{})
	c := newClient(t)
	body := `{"model":"m\"1","messages":[{"role":"user","content":"hi"}],"stream":true,"max_tokens":2}`
	raw := readAllOf(t, post(t, c, e.URL()+"/v1/chat/completions", body))
	var got []string
	for line := range strings.Lines(raw) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		at := strings.Index(line, `"model"`)
		got = append(got, line[max(0, at):])
	}
	want := []string{
		`"model":"m\"1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}`,
		`"model":"m\"1","choices":[{"index":0,"delta":{"content":"the"},"logprobs":null,"finish_reason":null}]}`,
		`"model":"m\"1","choices":[{"index":0,"delta":{"content":" quick"},"logprobs":null,"finish_reason":"length"}]}`,
		`data: [DONE]`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	raw = readAllOf(t, post(t, c, e.URL()+"/v1/completions", `{"model":"m","prompt":"hi","stream":true,"max_tokens":1}`))
	if !strings.Contains(raw, `"object":"text_completion"`) || !strings.Contains(raw, `"choices":[{"index":0,"text":"the","logprobs":null,"finish_reason":"length"}]}`) ||
		!strings.HasSuffix(raw, "\n\ndata: [DONE]\n\n") {
		t.Errorf("completions: %s", raw)
	}
}

func readAllOf(t *testing.T, res *http.Response) string {
	t.Helper()
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The headers of a stream are there before its first token is.
func TestStreamHeadersAtOnce(t *testing.T) {
	e := start(t, Options{Prefill: 0.001}) // the first token in hours
	res := post(t, newClient(t), e.URL()+"/v1/chat/completions", chatBody("hello", 5, true))
	if res.StatusCode != 200 {
		t.Errorf("status %d", res.StatusCode)
	}
	res.Body.Close()
	eventually(t, "the engine notices that the client left", func() bool {
		s := e.Stats()
		return s.InFlight == 0 && s.Aborted == 1 && s.Running == 0
	})
}

func TestWholeAnswers(t *testing.T) {
	e := start(t, Options{Name: "a"})
	c := newClient(t)
	tests := []struct {
		name, path, body string
		text             string
		finish           string
		prompt           int
	}{
		{"chat", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"12345678"}],"max_tokens":3}`, "the quick brown", "length", 7},
		{"max_completion_tokens wins", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"1"}],"max_tokens":3,"max_completion_tokens":1}`, "the", "length", 5},
		{"no limit", "/v1/completions", `{"model":"m","prompt":"12345"}`, Text(DefaultOutput), "stop", 2},
		{"parts", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"1234"},{"type":"text","text":"5678"}]}],"max_tokens":1}`, "the", "length", 7},
		{"escapes", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"12\n\u00e45678"}],"max_tokens":1}`, "the", "length", 7},
		{"null content", "/v1/chat/completions", `{"model":"m","messages":[{"role":"assistant","content":null},{"role":"user","content":"1"}],"max_tokens":1}`, "the", "length", 8},
		{"list of one prompt", "/v1/completions", `{"model":"m","prompt":["1234"],"max_tokens":1}`, "the", "length", 1},
		{"token ids", "/v1/completions", `{"model":"m","prompt":[1,2,3,4,5],"max_tokens":1}`, "the", "length", 5},
		{"behind a path", "/api/v1/completions", `{"model":"m","prompt":"1234","max_tokens":1}`, "the", "length", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res := post(t, c, e.URL()+tt.path, tt.body)
			raw := readAllOf(t, res)
			if res.StatusCode != 200 || res.ContentLength != int64(len(raw)) || res.Header.Get("X-Served-By") != "a" {
				t.Fatalf("%d, length %d, %v: %s", res.StatusCode, res.ContentLength, res.Header, raw)
			}
			var got whole
			if err := json.Unmarshal([]byte(raw), &got); err != nil {
				t.Fatal(err)
			}
			text := ""
			if m := got.Choices[0].Message; m != nil {
				text = m.Content
			} else {
				text = *got.Choices[0].Text
			}
			if text != tt.text || got.Choices[0].FinishReason != tt.finish || got.Model != "m" {
				t.Errorf("%s", raw)
			}
			want := newUsage(tt.prompt, 0, len(strings.Fields(tt.text)))
			if diff := cmp.Diff(want, got.Usage); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRefusedRequests(t *testing.T) {
	e := start(t, Options{Models: []string{"m", "n"}})
	c := newClient(t)
	tests := []struct {
		name, method, path, body string
		status                   int
	}{
		{"bad JSON", "POST", "/v1/chat/completions", `{`, 400},
		{"no messages", "POST", "/v1/chat/completions", `{"model":"m"}`, 400},
		{"content of a wrong type", "POST", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":5}]}`, 400},
		{"no prompt", "POST", "/v1/completions", `{"model":"m"}`, 400},
		{"empty prompt", "POST", "/v1/completions", `{"model":"m","prompt":""}`, 400},
		{"no prompts", "POST", "/v1/completions", `{"model":"m","prompt":[]}`, 400},
		{"no tokens", "POST", "/v1/completions", `{"model":"m","prompt":"a","max_tokens":0}`, 400},
		{"unknown model", "POST", "/v1/completions", `{"model":"x","prompt":"a"}`, 404},
		{"unknown path", "POST", "/v1/other", `{}`, 404},
		{"wrong method", "GET", "/v1/completions", ``, 405},
		{"wrong method for models", "POST", "/v1/models", `{}`, 405},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), tt.method, e.URL()+tt.path, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			res, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			raw := readAllOf(t, res)
			var got struct{ Error struct{ Code int } }
			if err := json.Unmarshal([]byte(raw), &got); err != nil || res.StatusCode != tt.status || got.Error.Code != tt.status {
				t.Errorf("%d %s, want %d", res.StatusCode, raw, tt.status)
			}
		})
	}
	if s := e.Stats(); s.Requests != int64(len(tests)) || s.Completed != 0 || s.InFlight != 0 {
		t.Errorf("stats: %+v", s)
	}
}

func TestModelsAndHealth(t *testing.T) {
	e := start(t, Options{Name: "a", Models: []string{"m", "n"}})
	c := newClient(t)
	res, err := c.Get(e.URL() + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	if raw := readAllOf(t, res); !strings.Contains(raw, `"id":"m","object":"model"`) || !strings.Contains(raw, `"id":"n"`) {
		t.Errorf("models: %s", raw)
	}
	res, err = c.Get(e.URL() + "/health")
	if err != nil {
		t.Fatal(err)
	}
	if readAllOf(t, res); res.StatusCode != 200 {
		t.Errorf("health: %d", res.StatusCode)
	}
}

func TestLast(t *testing.T) {
	e := start(t, Options{Name: "a"})
	c := newClient(t)
	if _, ok := e.Last(); ok {
		t.Error("a last request before the first")
	}
	if res, err := c.Get(e.URL() + "/sim/last"); err != nil || res.StatusCode != 404 {
		t.Errorf("before the first: %v, %v", res, err)
	} else {
		res.Body.Close()
	}
	var zipped bytes.Buffer
	zw := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(zw, `{"model":"m2","prompt":"abc","max_tokens":1}`)
	zw.Close()
	req, err := http.NewRequestWithContext(t.Context(), "POST", e.URL()+"/v1/completions?x=1", io.MultiReader(&zipped))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Encoding", "gzip")
	req.Header.Add("X-Twice", "1")
	req.Header.Add("X-Twice", "2")
	req.Trailer = http.Header{"X-After": {"t"}}
	req.ContentLength = -1
	length := zipped.Len()
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if raw := readAllOf(t, res); res.StatusCode != 200 {
		t.Fatalf("%d %s", res.StatusCode, raw)
	}
	res, err = c.Get(e.URL() + "/sim/last")
	if err != nil {
		t.Fatal(err)
	}
	var got Last
	if err := json.Unmarshal([]byte(readAllOf(t, res)), &got); err != nil {
		t.Fatal(err)
	}
	if got.Method != "POST" || got.Path != "/v1/completions?x=1" || got.Model != "m2" || got.Host != e.Addr() || got.Proto != "HTTP/1.1" ||
		got.BodyBytes != length || len(got.BodySHA256) != 64 || got.ContentLength != -1 ||
		!cmp.Equal(got.Headers["X-Twice"], []string{"1", "2"}) || got.Trailers.Get("X-After") != "t" {
		t.Errorf("%+v", got)
	}
	post(t, c, e.URL()+"/sim/reset", "").Body.Close()
	if _, ok := e.Last(); ok || e.Stats().Requests != 0 {
		t.Error("not forgotten by a reset")
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, opts := range []Options{{Prefill: -1}, {Decode: -1}, {Batch: -1}, {BlockTokens: -1}, {Output: -1}, {Listen: "nowhere"}} {
		if e, err := New(opts); err == nil {
			e.Close()
			t.Errorf("%+v was accepted", opts)
		}
	}
}
