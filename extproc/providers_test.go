package extproc_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/fakeenvoy"
	"github.com/pointsman/pointsman/internal/wire"
)

// mixed are targets with models of their own, one that passes credentials on, and groups.
const mixed = `
providers:
  - {name: a, kind: vllm, url: "http://127.0.0.1:8001"}
  - {name: b, kind: vllm, url: "http://127.0.0.1:8002", credentials: passthrough}
  - {name: c, kind: vllm, url: "http://127.0.0.1:8003"}
routes:
  - {model: same, targets: [{provider: a, model: up}, {provider: c, model: up}]}
  - {model: "q\"é", targets: [{provider: a, model: "q\"é"}, {provider: c, model: other}]}
  - {model: pass, targets: [{provider: a, model: up}, {provider: b, model: up}]}
  - {model: "vary", variants: [{name: one, targets: [{provider: a, model: up}]}, {name: two, weight: 0, targets: [{provider: c, model: other}]}]}
groups:
  - {name: g, members: [{provider: a}, {provider: c}, {provider: b, model: own}]}
passthrough:
  - {path_prefix: /v1/files, route: pass}
`

func newMixed(t *testing.T) *world {
	t.Helper()
	w := newServer(t, mixed)
	for target := range w.allTargets() {
		w.reach(target)
	}
	w.envoy = w.dial()
	return w
}

func (w *world) allTargets() map[string]bool {
	targets, _ := w.router.Snapshot().Targets()
	return targets
}

// What Envoy is told so that each target gets its own model, and only what it needs.
func TestModelsOfTargets(t *testing.T) {
	const asked = `{"x":1,"model":"%s", "model":"%s"}`
	quoted := `q\"\u00e9`
	for name, c := range map[string]struct {
		model string // as it stands in the body
		body  string // want, "" = as it was
		meta  map[string]any
	}{
		"one name for all": {"same", strings.ReplaceAll(asked, "%s", "up"), map[string]any{}},
		"two names": {quoted, "", map[string]any{
			wire.KeySpans: []any{[]any{15., 11.}, []any{36., 11.}}, wire.KeyAsked: `q"é`,
		}},
		"variants": {"vary", "", map[string]any{
			wire.KeySpans: []any{[]any{15., 6.}, []any{31., 6.}}, wire.KeyAsked: "vary", wire.KeyVariant: "one",
		}},
		"pin": {`c/x\"y`, strings.ReplaceAll(asked, "%s", `x\"y`), map[string]any{wire.KeyModel: `x"y`}},
		"group": {`g/x\"y`, "", map[string]any{
			wire.KeySpans: []any{[]any{15., 8.}, []any{33., 8.}}, wire.KeyAsked: `g/x"y`,
			wire.KeyModel: `x"y`, wire.KeyText: `"x\"y"`,
		}},
		// It would be a header of the answer.
		"a model that is no header": {`c/x\r\ny`, strings.ReplaceAll(asked, "%s", `x\u000d\u000ay`), map[string]any{}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newMixed(t)
			body := strings.ReplaceAll(asked, "%s", c.model)
			x := w.ask(fakeenvoy.Request{Body: []byte(body)})
			if x.Answer != nil {
				t.Fatalf("answered: %+v", x.Answer)
			}
			if c.body == "" {
				c.body = body
			}
			if string(x.Body) != c.body {
				t.Errorf("body %s, want %s", x.Body, c.body)
			}
			if diff := cmp.Diff(c.meta, x.Metadata); diff != "" {
				t.Errorf("metadata (-want +got):\n%s", diff)
			}
			w.end(x)
		})
	}
}

// A compressed body that has to change for one target goes decoded to all.
func TestCompressedForSeveralModels(t *testing.T) {
	w := newMixed(t)
	const body = `{"model":"g/x"}`
	x := w.ask(fakeenvoy.Request{Body: gzipped(t, body), Header: [][2]string{{"content-encoding", "gzip"}}})
	if string(x.Body) != body || x.Header.Get("content-encoding") != "" || x.Header.Get("content-length") != fmt.Sprint(len(body)) {
		t.Errorf("body %q, headers %v", x.Body, x.Header)
	}
	if diff := cmp.Diff([]any{[]any{9., 5.}}, x.Metadata[wire.KeySpans]); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	w.end(x)
}

func TestFormForSeveralModels(t *testing.T) {
	w := newMixed(t)
	const body = "--b\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\ng/x\r\n--b--\r\n"
	x := w.ask(fakeenvoy.Request{Body: []byte(body), Path: "/v1/audio/transcriptions", Header: [][2]string{{"content-type", "multipart/form-data; boundary=b"}}})
	want := map[string]any{
		wire.KeySpans: []any{[]any{float64(strings.Index(body, "g/x")), 3.}}, wire.KeyAsked: "g/x",
		wire.KeyForm: true, wire.KeyModel: "x", wire.KeyText: "x",
	}
	if diff := cmp.Diff(want, x.Metadata); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	w.end(x)
}

// A body that names its model a thousand times is changed here and goes to targets that want
// the same model.
func TestManyModelKeys(t *testing.T) {
	w := newMixed(t)
	body := "{" + strings.Repeat(`"model":"g/x",`, 1000) + `"model":"g/x"}`
	for range 3 {
		x := w.ask(fakeenvoy.Request{Body: []byte(body)})
		if x.Metadata[wire.KeySpans] != nil {
			t.Error("Envoy is told all places")
		}
		first := x.Clusters[0] == "pm|b/own"
		if n := x.Header.Get(wire.HeaderMaxRetries); n != fmt.Sprint(len(x.Clusters)-1) || first && len(x.Clusters) > 1 || slices.Contains(x.Clusters[1:], "pm|b/own") {
			t.Errorf("%v, %s retries", x.Clusters, n)
		}
		if want := map[bool]string{true: "own", false: "x"}[first]; string(x.Body) != strings.ReplaceAll(body, "g/x", want) {
			t.Errorf("not %s everywhere", want)
		}
		w.end(x)
	}
}

// The client's credentials go no further, and into the metadata only where they are to be
// passed on.
func TestPassedCredentials(t *testing.T) {
	w := newMixed(t)
	for model, want := range map[string][2]any{"pass": {"Bearer x", "y"}, "same": {nil, nil}, "g/m": {"Bearer x", "y"}, "c/m": {nil, nil}} {
		r := chat(model)
		r.Header = append(r.Header, [2]string{"authorization", "Bearer x"}, [2]string{"x-api-key", "y"})
		x := w.ask(r)
		if got := [2]any{x.Metadata[wire.KeyAuthorization], x.Metadata[wire.KeyXAPIKey]}; got != want {
			t.Errorf("%s: %v, want %v", model, got, want)
		}
		if x.Header.Get("authorization")+x.Header.Get("x-api-key") != "" {
			t.Errorf("%s: %v", model, x.Header)
		}
		w.end(x)
	}
}

// Requests without a model go where their path says, also without a body.
func TestPassthroughPath(t *testing.T) {
	w := newMixed(t)
	for name, r := range map[string]fakeenvoy.Request{
		"GET":  {Method: "GET", Path: "/v1/files/1?x=y"},
		"POST": {Path: "/v1/files", Body: []byte("--b--"), Header: [][2]string{{"content-type", "multipart/form-data; boundary=b"}}},
		"JSON": {Path: "/v1/files", Body: []byte(`{"a":1}`)},
		"text": {Path: "/v1/files", Body: []byte("x"), Header: [][2]string{{"content-type", "text/plain"}}},
	} {
		x := w.ask(r)
		if x.Answer != nil || len(x.Clusters) != 2 || string(x.Body) != string(r.Body) || x.Metadata[wire.KeySpans] != nil {
			t.Errorf("%s: %+v to %v", name, x.Answer, x.Clusters)
			continue
		}
		w.end(x)
	}
	for name, r := range map[string]fakeenvoy.Request{
		"another path": {Method: "GET", Path: "/v1/fil"},
		"upper case":   {Method: "GET", Path: "/V1/files"},
	} {
		if x := w.ask(r); x.Answer == nil || x.Answer.Status != 400 {
			t.Errorf("%s: %+v", name, x.Answer)
		}
	}
	w.wantIdle()
}

// Case 399: a caller is who the header says, if the connection comes from a trusted address;
// the header goes no further.
func TestCallers(t *testing.T) {
	const callers = `
callers:
  identity: {header: x-caller}
  trusted: %s
  allow: [{name: joe, providers: [b]}]
`
	for _, c := range []struct {
		trusted, from string
		believed      bool
	}{
		{"[10.0.0.0/8]", "10.1.2.3:4567", true},
		{"[10.0.0.0/8]", "[::ffff:10.1.2.3]:4567", true},
		{"[10.0.0.0/8]", "11.1.2.3:4567", false},
		{"[10.0.0.0/8, \"fd00::/8\"]", "[fd00::1]:80", true},
		{"[10.0.0.0/8]", "", false},
		{"[10.0.0.0/8]", "nonsense", false},
		{"[]", "10.1.2.3:4567", false}, // the default: from nobody
	} {
		w := newWorld(t, oneRoute+fmt.Sprintf(callers, c.trusted))
		r := chat("m")
		r.From = c.from
		r.Header = append(r.Header, [2]string{"x-caller", "joe"})
		x := w.ask(r)
		if got := slices.Equal(x.Clusters, []string{"pm|b/m"}); got != c.believed {
			t.Errorf("%s from %s: %v", c.trusted, c.from, x.Clusters)
		}
		if x.Header.Get("x-caller") != "" {
			t.Error("the upstream sees the caller")
		}
		w.end(x)
	}

	w := newWorld(t, oneRoute+"callers: {identity: {metadata: auth, key: name}, allow: [{name: joe, providers: [c]}]}\n")
	r := chat("m")
	r.Metadata = map[string]map[string]string{"auth": {"name": "joe"}}
	x := w.ask(r)
	if !slices.Equal(x.Clusters, []string{"pm|c/m"}) {
		t.Errorf("by metadata: %v", x.Clusters)
	}
	w.end(x)
}
