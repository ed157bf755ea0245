package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/pointsman/pointsman/internal/enginesim"
)

// fleet is some engines in this process.
type fleet []*enginesim.Engine

// newFleet starts n engines named a, b, c, ... that answer instantly unless the
// options say otherwise.
func newFleet(t testing.TB, n int, opts enginesim.Options) fleet {
	t.Helper()
	var f fleet
	for i := range n {
		opts.Name = engineName(i)
		e, err := enginesim.New(opts)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := e.Serve(ctx); err != nil {
				t.Errorf("engine %s: %v", e.Name(), err)
			}
		}()
		t.Cleanup(func() { cancel(); <-done })
		f = append(f, e)
	}
	return f
}

// engineName is a, b, ..., z, n26, n27, ...
func engineName(i int) string {
	if i < 26 {
		return string(rune('a' + i))
	}
	return fmt.Sprintf("n%d", i)
}

// providers gives the providers section for the engines, named like them.
func (f fleet) providers() string {
	var b strings.Builder
	b.WriteString("providers:\n")
	for _, e := range f {
		fmt.Fprintf(&b, "  - {name: %s, kind: vllm, url: \"%s\"}\n", e.Name(), e.URL())
	}
	return b.String()
}

// route gives one entry of routes over these engines, all serving upstream.
func (f fleet) route(model, strategy, upstream string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  - model: %s\n    strategy: %s\n    targets:\n", model, strategy)
	for _, e := range f {
		fmt.Fprintf(&b, "      - {provider: %s, model: %s}\n", e.Name(), upstream)
	}
	return b.String()
}

// faults sets the same faults on every engine named.
func (f fleet) faults(t testing.TB, names string, faults ...enginesim.Fault) {
	t.Helper()
	for _, e := range f {
		if strings.Contains(names, e.Name()) {
			if err := e.SetFaults(faults...); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// counts gives the requests that each engine got.
func (f fleet) counts() []int64 {
	var n []int64
	for _, e := range f {
		n = append(n, e.Stats().Requests)
	}
	return n
}

// quiet waits until no engine works on anything.
func (f fleet) quiet(t testing.TB) {
	t.Helper()
	eventually(t, "engines are idle", func() error {
		for _, e := range f {
			if s := e.Stats(); s.InFlight != 0 {
				return fmt.Errorf("%s has %d in flight", s.Name, s.InFlight)
			}
		}
		return nil
	})
}

// chat is a body for /v1/chat/completions.
func chat(model, prompt string, stream bool, maxTokens int) string {
	p, err := json.Marshal(prompt)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"model":%q,"stream":%v,"max_tokens":%d,"messages":[{"role":"user","content":%s}]}`,
		model, stream, maxTokens, p)
}

// client keeps many connections and never retries by itself.
var client = &http.Client{Transport: &http.Transport{
	MaxIdleConnsPerHost: 64, DisableCompression: true,
	DialContext: (&net.Dialer{Timeout: patience}).DialContext,
}}

// answer is a whole answer.
type answer struct {
	status int
	header http.Header
	body   string
	err    error // of reading the body
}

func (a answer) servedBy() string { return a.header.Get("x-served-by") }

// post sends a body and reads the whole answer; an error of the exchange itself fails
// the test.
func (m *mesh) post(path, body string, headers ...string) answer {
	m.t.Helper()
	a, err := m.try(path, body, headers...)
	if err != nil {
		m.t.Fatalf("POST %s: %v", path, err)
	}
	return a
}

func (m *mesh) try(path, body string, headers ...string) (answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	a, err := do(ctx, http.MethodPost, m.base+path, body, headers...)
	if err == nil && a.status >= 400 {
		_, _ = fmt.Fprintln(&m.errors, a.header, a.body)
	}
	return a, err
}

func do(ctx context.Context, method, url, body string, headers ...string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if body != "" {
		req.Header.Set("content-type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	return answer{status: resp.StatusCode, header: resp.Header, body: string(data), err: err}, nil
}

const chatPath = "/v1/chat/completions"

// stream is a streamed answer being read.
type stream struct {
	resp   *http.Response
	events *bufio.Scanner
	cancel context.CancelFunc
}

// open sends a streaming request and returns when the response headers are
// there.
func (m *mesh) open(body string) (*stream, error) {
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.base+chatPath, strings.NewReader(body))
	if err != nil {
		cancel()
		return nil, err
	}
	req.Header.Set("content-type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		cancel()
		return nil, err
	}
	return &stream{resp: resp, events: bufio.NewScanner(resp.Body), cancel: cancel}, nil
}

// next gives the next event's data, and false at the end of the answer.
func (s *stream) next() (string, bool) {
	for s.events.Scan() {
		if data, ok := strings.CutPrefix(s.events.Text(), "data: "); ok {
			return data, true
		}
	}
	return "", false
}

// rest reads to the end and tells whether the answer was whole.
func (s *stream) rest() (events int, whole bool) {
	defer s.close()
	for {
		data, ok := s.next()
		if !ok {
			return events, false
		}
		if data == "[DONE]" {
			return events, s.events.Err() == nil
		}
		events++
	}
}

func (s *stream) close() {
	s.cancel()
	_ = s.resp.Body.Close()
}

// code gives the code (OpenAI dialect) or type (Anthropic dialect) of an error
// body, and its dialect.
func (a answer) code(t testing.TB) (code, dialect string) {
	t.Helper()
	if ct := a.header.Get("content-type"); ct != "application/json" {
		t.Errorf("content-type of an error: %q", ct)
	}
	var e struct {
		Type  string
		Error struct{ Type, Code, Message string }
	}
	if err := json.Unmarshal([]byte(a.body), &e); err != nil {
		t.Fatalf("error body %q: %v", a.body, err)
	}
	if e.Error.Message == "" || e.Error.Type == "" {
		t.Errorf("error body %q lacks message or type", a.body)
	}
	if e.Type == "error" {
		return e.Error.Type, "anthropic"
	}
	return e.Error.Code, "openai"
}
