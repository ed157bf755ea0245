package extproc_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/fakeenvoy"
	"github.com/pointsman/pointsman/internal/ledger"
	"github.com/pointsman/pointsman/internal/wire"
)

// wantError checks an answer: the row of the error table, in the dialect of the path,
// marked as ours, and counted once.
func (w *world) wantError(x *fakeenvoy.Exchange, path string, want wire.Error, pool, message string) {
	w.Helper()
	if x.Answer == nil {
		w.Errorf("routed to %v, want %d %s", x.Clusters, want.Status, want.Code)
		w.end(x)
		return
	}
	body := string(want.Body(wire.DialectOf(path), message))
	got := *x.Answer
	if got.Status != want.Status || got.Body != body || got.Details != "pointsman_"+want.Code {
		w.Errorf("answer %d %s (%s)\nwant %d %s (pointsman_%s)", got.Status, got.Body, got.Details, want.Status, body, want.Code)
	}
	if !json.Valid([]byte(got.Body)) || got.Header.Get("content-type") != "application/json" {
		w.Errorf("not JSON: %s %s", got.Header.Get("content-type"), got.Body)
	}
	if err := x.WaitEnd(); err != nil {
		w.Errorf("after the answer: %v", err)
	}
	_, answers := w.sink.count()
	if len(answers) == 0 || answers[len(answers)-1] != (ledger.Answer{Pool: pool, Status: want.Status, Code: want.Code}) {
		w.Errorf("counted %v, want %d %s of pool %q", answers, want.Status, want.Code, pool)
	}
}

// Report 012, and the table of "Parsing the body": each gets its code, in both
// dialects, and the next request on the same connection is served.
func TestRefusedBodies(t *testing.T) {
	const (
		notJSON  = "the body is not valid JSON"
		noModel  = "the body names no model"
		corrupt  = "the compressed body is corrupt"
		encoding = "the content encoding is not supported"
	)
	zipped := [][2]string{{"content-encoding", "gzip"}}
	tests := []struct {
		name    string
		header  [][2]string
		body    string
		want    wire.Error
		message string
	}{
		{"open", nil, "{", wire.ErrInvalidJSON, notJSON},
		{"array", nil, "[]", wire.ErrMissingModel, noModel},
		{"null", nil, "null", wire.ErrMissingModel, noModel},
		{"string", nil, `"x"`, wire.ErrMissingModel, noModel},
		{"number", nil, "123", wire.ErrMissingModel, noModel},
		{"model is a number", nil, `{"model":123}`, wire.ErrMissingModel, noModel},
		{"model is null", nil, `{"model":null}`, wire.ErrMissingModel, noModel},
		{"model is an array", nil, `{"model":["a"]}`, wire.ErrMissingModel, noModel},
		{"model is empty", nil, `{"model":""}`, wire.ErrMissingModel, noModel},
		{"no model", nil, `{"messages":"hi"}`, wire.ErrMissingModel, noModel},
		{"trailing garbage", nil, `{"model":"m"}x`, wire.ErrInvalidJSON, notJSON},
		{"two documents", nil, `{"model":"m"}{"model":"m"}`, wire.ErrInvalidJSON, notJSON},
		{"deep", nil, strings.Repeat("[", 10_000), wire.ErrInvalidJSON, notJSON},
		{"spaces", nil, strings.Repeat(" ", 1<<20) + "{}", wire.ErrMissingModel, noModel},
		{"corrupt", zipped, "\x1f\x8b\x08 and no more", wire.ErrInvalidEncoding, corrupt},
		{"brotli", [][2]string{{"content-encoding", "br"}}, `{"model":"m"}`, wire.ErrUnsupportedEncoding, encoding},
		{"unknown model", nil, `{"model":"x"}`, wire.ErrModelNotFound, "the model does not exist"},
	}
	w := newWorld(t, oneRoute)
	for _, path := range []string{"/v1/chat/completions", "/v1/messages?beta=true"} {
		for _, test := range tests {
			t.Run(test.name+" "+path, func(t *testing.T) {
				w := w.of(t)
				x := w.ask(fakeenvoy.Request{Path: path, Header: test.header, Body: []byte(test.body)})
				w.wantError(x, path, test.want, "", test.message)
			})
		}
	}
	x := w.ask(fakeenvoy.Request{Body: []byte("\xEF\xBB\xBF" + `{"model":"m"}`)}) // with a byte-order mark
	if x.Answer != nil {
		t.Errorf("the next request is answered %+v", x.Answer)
	}
	w.end(x)
	w.wantIdle()
	if decided, answers := w.sink.count(); decided != 1 || len(answers) != 2*len(tests) {
		t.Errorf("%d decisions and %d answers, want 1 and %d", decided, len(answers), 2*len(tests))
	}
}

// of is the world for a subtest.
func (w *world) of(t *testing.T) *world {
	sub := *w
	sub.TB = t
	return &sub
}

// Report 008 over gRPC: any size up to the limit is read in one message, one byte more is 413
// and names the limit, and the connection lives.
func TestBodySizes(t *testing.T) {
	const limit = 12_000_000
	w := newWorld(t, oneRoute+fmt.Sprintf("limits: {body: %d}\n", limit))
	tooLarge := fmt.Sprintf("the request body is larger than %d bytes", limit)
	for _, n := range []int{640_000, 4_194_304, 4_194_305, limit, limit + 1, 100} {
		const head, tail = `{"model":"m","prompt":"`, `"}`
		body := []byte(head + strings.Repeat("x", n-len(head)-len(tail)) + tail)
		x := w.ask(fakeenvoy.Request{Path: "/v1/completions", Body: body})
		if n > limit {
			w.wantError(x, "/v1/completions", wire.ErrBodyTooLarge, "", tooLarge)
			continue
		}
		if x.Answer != nil {
			t.Errorf("%d bytes: answered %+v", n, x.Answer)
		}
		w.end(x)
	}
	// The limit holds for what a body decodes to.
	x := w.ask(fakeenvoy.Request{
		Path: "/v1/messages", Header: [][2]string{{"content-encoding", "gzip"}},
		Body: gzipped(t, `{"model":"`+strings.Repeat("m", limit)+`"}`),
	})
	w.wantError(x, "/v1/messages", wire.ErrBodyTooLarge, "", tooLarge)
	w.wantIdle()
}

// A refusal of the router has its pool and its time to wait.
func TestNoTarget(t *testing.T) {
	w := newServer(t, oneRoute) // where no proxy has accepted a target
	w.envoy = w.dial()
	w.wantError(w.ask(chat("m")), "/v1/chat/completions", wire.ErrNoTarget, "m", "no target can serve this request now")
	if decided, _ := w.sink.count(); decided != 0 {
		t.Errorf("%d decisions", decided)
	}
}

// Reports 011, 045: a request without a body is answered at the headers, without waiting
// for one.
func TestWithoutBody(t *testing.T) {
	const noBody, noModel = "the request has no body", "the body names no model"
	const unsupported = "CONNECT and upgrades are not supported"
	upgrade := [][2]string{{"connection", "keep-alive, Upgrade"}, {"upgrade", "websocket"}}
	tests := []struct {
		name, method, path string
		header             [][2]string
		want               wire.Error
		message            string
	}{
		{"empty POST", "POST", "/v1/chat/completions", [][2]string{{"content-length", "0"}}, wire.ErrMissingBody, noBody},
		{"with a query", "POST", "/v1/completions?x=1&x=2", nil, wire.ErrMissingBody, noBody},
		{"trailing slash", "POST", "/v1/chat/completions/", nil, wire.ErrMissingBody, noBody},
		{"render", "POST", "/v1/completions/render", nil, wire.ErrMissingBody, noBody},
		{"Anthropic", "POST", "/v1/messages/count_tokens", nil, wire.ErrMissingBody, noBody},
		{"GET on an API path", "GET", "/v1/chat/completions", nil, wire.ErrMissingBody, noBody},
		{"HEAD", "HEAD", "/", nil, wire.ErrMissingModel, noModel},
		{"OPTIONS", "OPTIONS", "/v1/anything", nil, wire.ErrMissingModel, noModel},
		{"DELETE", "DELETE", "/v1/files/x", nil, wire.ErrMissingModel, noModel},
		{"models by POST", "POST", "/v1/models", nil, wire.ErrMissingModel, noModel},
		{"not the models", "GET", "/v1/modelsx", nil, wire.ErrMissingModel, noModel},
		{"unknown model", "GET", "/v1/models/x", nil, wire.ErrModelNotFound, "the model does not exist"},
		{"upgrade", "GET", "/v1/realtime?model=m", upgrade, wire.ErrNotSupported, unsupported},
		{"upgrade on a known path", "GET", "/v1/models", upgrade, wire.ErrNotSupported, unsupported},
		{"CONNECT", "CONNECT", "", nil, wire.ErrNotSupported, unsupported},
	}
	w := newWorld(t, oneRoute)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := w.of(t)
			path := test.path
			if path == "" {
				path = "-"
			}
			x := w.ask(fakeenvoy.Request{Method: test.method, Path: path, Header: test.header})
			w.wantError(x, test.path, test.want, "", test.message)
		})
	}
	// Headers of an upgrade that ask for none.
	x := w.ask(fakeenvoy.Request{Method: "GET", Path: "/v1/models", Header: [][2]string{{"upgrade", "websocket"}, {"connection", "keep-alive"}}})
	if x.Answer == nil || x.Answer.Status != 200 {
		t.Errorf("answer %+v, want the models", x.Answer)
	}
	// An empty body whose end comes after the headers.
	w.wantError(w.ask(fakeenvoy.Request{Chunked: true}), "/v1/chat/completions", wire.ErrMissingBody, "", noBody)
	if decided, _ := w.sink.count(); decided != 0 {
		t.Errorf("%d decisions", decided)
	}
}

func TestModels(t *testing.T) {
	w := newWorld(t, providers+`
routes:
  - {model: z, targets: [{provider: a}]}
  - {model: org/a model, targets: [{provider: a}, {provider: b}]}
`)
	object := func(id string) string {
		return fmt.Sprintf(`{"id":%q,"object":"model","created":%d,"owned_by":"pointsman"}`, id, created)
	}
	list := `{"object":"list","data":[` + object("z") + `,` + object("org/a model") + `]}`
	tests := []struct{ method, path, want string }{
		{"GET", "/v1/models", list}, // in the order of the configuration
		{"GET", "/v1/models?limit=1", list},
		{"GET", "/v1/models/", list},
		{"HEAD", "/v1/models", list}, // Envoy leaves the body out
		{"GET", "/v1/models/z", object("z")},
		{"GET", "/v1/models/org%2Fa%20model", object("org/a model")},
		{"GET", "/v1/models/org/a%20model?x=1", object("org/a model")},
	}
	for _, test := range tests {
		x := w.ask(fakeenvoy.Request{Method: test.method, Path: test.path})
		want := &fakeenvoy.Answer{
			Status: 200, Header: fakeenvoy.Header{{"content-type", "application/json"}}, Body: test.want, Details: "pointsman_models",
		}
		if diff := cmp.Diff(want, x.Answer); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", test.method, test.path, diff)
		}
	}
	_, answers := w.sink.count()
	for _, a := range answers {
		if a != (ledger.Answer{Status: 200}) {
			t.Errorf("counted as %+v", a)
		}
	}
	if len(answers) != len(tests) {
		t.Errorf("%d answers counted, want %d", len(answers), len(tests))
	}
}

// Case 401, our part: trailers after an empty body are 400 on any path; after a body they
// change nothing.
func TestTrailers(t *testing.T) {
	w := newWorld(t, oneRoute)
	trailers := [][2]string{{"x-checksum", "1"}}
	for _, path := range []string{"/v1/chat/completions", "/v1/messages", "/anything"} {
		for _, chunked := range []bool{false, true} {
			x := w.ask(fakeenvoy.Request{Path: path, Trailers: trailers, Chunked: chunked})
			w.wantError(x, path, wire.ErrMissingBody, "", "the request has no body")
		}
	}
	r := chat("m")
	r.Trailers = trailers
	x := w.ask(r)
	if x.Answer != nil || !bytes.Equal(x.Body, r.Body) || len(x.Clusters) != 3 {
		t.Errorf("answer %+v, %d clusters, body %q", x.Answer, len(x.Clusters), x.Body)
	}
	w.end(x)
	w.wantIdle()
	if decided, _ := w.sink.count(); decided != 1 {
		t.Errorf("%d decisions, want 1", decided)
	}
}

// Report 165: what clients send is in no line of the log, whatever becomes of it.
func TestNothingOfTheClientIsLogged(t *testing.T) {
	const canary = "ZX-CANARY-17"
	w := newWorld(t, oneRoute+"limits: {body: 64KiB}\n")
	header := [][2]string{{"x-session-id", canary}, {"authorization", "Bearer " + canary}, {"x-api-key", canary}}
	for _, r := range []fakeenvoy.Request{
		{Header: header, Body: []byte(`{"model":"m","messages":[{"role":"system","content":"` + canary + `"}]}`)},
		{Header: header, Body: []byte(`{"model":"` + canary + `"}`)},
		{Header: header, Body: []byte(`{"` + canary)},
		{Header: header, Body: []byte(`{"model":"m","x":"` + strings.Repeat(canary, 10_000) + `"}`)},
		{Header: header, Method: "GET", Path: "/v1/models/" + canary},
		{Header: header, Method: "GET", Path: "/" + canary},
	} {
		x := w.ask(r)
		if x.Answer == nil {
			w.end(x)
		} else if strings.Contains(x.Answer.Body, canary) {
			t.Errorf("answered with it: %s", x.Answer.Body)
		}
	}
	if got := w.log.String(); got != "" {
		t.Errorf("logged by default:\n%s", got)
	}
	_, answers := w.sink.count()
	if strings.Contains(fmt.Sprint(answers), canary) {
		t.Errorf("counted with it: %v", answers)
	}
}
