package extproc_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/fakeenvoy"
	"github.com/pointsman/pointsman/internal/wire"
)

// The whole reply: where to go, in which order, how often, how long, under which id; and
// that the client's keys go no further. Envoy's part (fakeenvoy) checks its form:
// names, raw values, a cleared route cache.
func TestDecision(t *testing.T) {
	w := newWorld(t, oneRoute)
	r := chat("m")
	r.Header = append(r.Header, [2]string{"authorization", "Bearer secret"}, [2]string{"x-api-key", "secret"}, [2]string{"x-other", "stays"})
	x := w.ask(r)
	if x.Answer != nil {
		t.Fatalf("answered: %+v", x.Answer)
	}
	want := fakeenvoy.Header{
		{":method", "POST"}, {":path", "/v1/chat/completions"}, {":scheme", "http"}, {":authority", "llm.example"},
		{"content-type", "application/json"}, {"x-other", "stays"}, {"content-length", fmt.Sprint(len(r.Body))},
		{"x-forwarded-proto", "http"}, {"x-request-id", "0b1f9a1c-8df7-4b0a-9f4e-5a1a0f3c2d11"},
		{wire.HeaderCluster, x.Clusters[0]}, {wire.HeaderDecision, "node-1-1"}, {wire.HeaderMaxRetries, "2"},
		{wire.HeaderTimeoutMS, "600000"},
	}
	if diff := cmp.Diff(want, x.Header); diff != "" {
		t.Errorf("headers to the upstream (-want +got):\n%s", diff)
	}
	if !bytes.Equal(x.Body, r.Body) {
		t.Errorf("body %q, want it as it was", x.Body)
	}
	all := slices.Sorted(slices.Values(x.Clusters))
	if diff := cmp.Diff([]string{"pm|a/m", "pm|b/m", "pm|c/m"}, all); diff != "" {
		t.Errorf("clusters (-want +got):\n%s", diff)
	}
	if len(x.Metadata) != 0 {
		t.Errorf("metadata %v", x.Metadata)
	}
	if n := w.inFlight(); n[0]+n[1]+n[2] != 1 {
		t.Errorf("in flight %v, want one", n)
	}
	w.end(x)
	w.wantIdle()
}

// The header of the time limit: of one attempt for kinds that go on after a timeout, of
// all of them for the others, none without a limit.
func TestTimeLimits(t *testing.T) {
	const unary, stream = `{"model":"m"}`, `{"model":"m","stream":true}`
	tests := []struct {
		name, settings, body string
		perTry, all          string
	}{
		{"stream", "", stream, "60000", ""},
		{"unary", "", unary, "", "600000"},
		{"unary goes on", "retry: {on_timeout: [stream, unary]}\ntimeouts: {idle_secs: 601}", unary, "600000", ""},
		// An attempt that may be silent for no longer anyway needs no time of its own, which would
		// end Envoy's watch over its silence.
		{"of an attempt as long as idle_secs", "retry: {on_timeout: [stream, unary]}", unary, "", ""},
		{"longer", "timeouts: {idle_secs: 59}", stream, "", ""},
		{"shorter", "timeouts: {idle_secs: 60.001}", stream, "60000", ""},
		{"without idle_secs", "timeouts: {idle_secs: 0}", stream, "60000", ""},
		{"of all attempts, longer", "timeouts: {idle_secs: 59}", unary, "", "600000"},
		{"stream does not", "retry: {on_timeout: []}", stream, "", "60000"},
		{"one number for both", "timeouts: {request_secs: 7}", stream, "7000", ""},
		{"a part of a second", "timeouts: {request_secs: 0.25}", unary, "", "250"},
		{"no limit", "timeouts: {request_secs: 0}", stream, "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, oneRoute+test.settings+"\n")
			x := w.ask(fakeenvoy.Request{Body: []byte(test.body)})
			if got := x.Header.Get(wire.HeaderPerTryTimeoutMS); got != test.perTry {
				t.Errorf("time of an attempt %q, want %q", got, test.perTry)
			}
			if got := x.Header.Get(wire.HeaderTimeoutMS); got != test.all {
				t.Errorf("time of all %q, want %q", got, test.all)
			}
			w.end(x)
		})
	}
}

// The number of retries is that of the entries after the first.
func TestRetries(t *testing.T) {
	for reachable, want := range map[int]string{1: "0", 2: "1", 3: "2"} {
		w := newServer(t, oneRoute)
		w.reach([]string{"a/m", "b/m", "c/m"}[:reachable]...)
		w.envoy = w.dial()
		x := w.ask(chat("m"))
		if got := x.Header.Get(wire.HeaderMaxRetries); got != want || len(x.Clusters) != reachable {
			t.Errorf("%d reachable: %s retries on %v, want %s", reachable, got, x.Clusters, want)
		}
		w.end(x)
	}
}

const otherModel = providers + `
routes:
  - {model: m, targets: [{provider: a, model: up/stream, id: a/m}, {provider: b, model: up/stream, id: b/m}, {provider: c, model: up/stream, id: c/m}]}
`

// A body is changed only where another model name has to stand, and its length is exact.
func TestRewrittenBody(t *testing.T) {
	const before = "{ \"temperature\" : 1e400,\n \"seed\":18446744073709551615, \"model\" : \"m\", \"messages\":[] , \"model\":\"m\"}"
	const after = "{ \"temperature\" : 1e400,\n \"seed\":18446744073709551615, \"model\" : \"up/stream\", \"messages\":[] , \"model\":\"up/stream\"}"
	zipped := gzipped(t, before)
	tests := []struct {
		name     string
		request  fakeenvoy.Request
		encoding string
	}{
		{"plain", fakeenvoy.Request{Body: []byte(before)}, ""},
		{"chunked", fakeenvoy.Request{Body: []byte(before), Chunked: true}, ""}, // report 016
		{"with trailers", fakeenvoy.Request{Body: []byte(before), Trailers: [][2]string{{"x-sum", "1"}}}, ""},
		{"compressed", fakeenvoy.Request{Body: zipped, Header: [][2]string{{"content-encoding", "gzip"}}}, "gzip"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, otherModel)
			x := w.ask(test.request)
			if x.Answer != nil {
				t.Fatalf("answered: %+v", x.Answer)
			}
			if string(x.Body) != after {
				t.Errorf("body %q, want %q", x.Body, after)
			}
			if got, want := x.Header.Values("content-length"), []string{fmt.Sprint(len(after))}; !slices.Equal(got, want) {
				t.Errorf("content-length %q, want %q", got, want)
			}
			if got := x.Header.Get("content-encoding"); got != "" {
				t.Errorf("content-encoding %q on a decoded body", got)
			}
			if len(x.Metadata) != 0 { // the cluster knows its model
				t.Errorf("metadata %v", x.Metadata)
			}
			w.end(x)
		})
	}

	// The pooled parts of one reply leave no trace in the next.
	w := newWorld(t, otherModel)
	w.end(w.ask(tests[3].request))
	w.install(parse(t, oneRoute))
	w.reach("a/m", "b/m", "c/m")
	x := w.ask(fakeenvoy.Request{Body: zipped, Header: [][2]string{{"content-encoding", "gzip"}}})
	if !bytes.Equal(x.Body, zipped) || x.Header.Get("content-encoding") != "gzip" {
		t.Errorf("a compressed body that needs no change was changed")
	}
	w.end(x)
}

func gzipped(t *testing.T, s string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Reports 036, 162: what a client says about its destination is overwritten, in the
// user's own Envoy, where nobody has stripped it before, too.
func TestForgedHeaders(t *testing.T) {
	forged := make([][2]string, 0, 32)
	for _, name := range wire.StrippedHeaders() {
		forged = append(forged, [2]string{name, "169.254.169.254:80"}, [2]string{name, "second"})
	}
	for _, clusters := range []string{"managed", "external"} {
		t.Run(clusters, func(t *testing.T) {
			w := newWorld(t, oneRoute+"envoy: {clusters: "+clusters+"}\n")
			for _, body := range []string{`{"model":"m"}`, `{"model":"m","stream":true}`} {
				x := w.ask(fakeenvoy.Request{Body: []byte(body), Header: forged})
				for _, name := range wire.StrippedHeaders() {
					values := x.Header.Values(name)
					ours := slices.Contains([]string{wire.HeaderCluster, wire.HeaderDecision, wire.HeaderMaxRetries}, name)
					switch {
					case ours && (len(values) != 1 || strings.Contains(values[0], "169.254")):
						t.Errorf("%s: %q, want one value, ours", name, values)
					case !ours && clusters == "external" && slices.ContainsFunc(values, func(v string) bool {
						return v == "second" || strings.Contains(v, "169.254")
					}):
						t.Errorf("%s: %q came through", name, values)
					}
				}
				w.end(x)
			}
		})
	}
}

// With the user's own clusters, the proxy's configuration decides about the client's
// credentials, and the clusters have the user's names.
func TestExternalClusters(t *testing.T) {
	w := newWorld(t, strings.Replace(oneRoute, "cluster-a", "ü-gpu 1", 1)+"envoy: {clusters: external}\n")
	r := chat("m")
	r.Header = append(r.Header, [2]string{"authorization", "Bearer of-the-client"})
	seen := map[string]bool{}
	for range 3 {
		x := w.ask(r)
		if got := x.Header.Get("authorization"); got != "Bearer of-the-client" {
			t.Errorf("authorization %q", got)
		}
		seen[x.Header.Get(wire.HeaderCluster)] = true
		if x.Clusters[0] != x.Header.Get(wire.HeaderCluster) {
			t.Errorf("cluster %s by header, %v by metadata", x.Header.Get(wire.HeaderCluster), x.Clusters)
		}
		w.end(x)
	}
	if want := map[string]bool{"ü-gpu 1": true, "cluster-b": true, "cluster-c": true}; !cmp.Equal(seen, want) {
		t.Errorf("clusters %v, want %v", seen, want)
	}
}

// Older Envoys send header values as text.
func TestHeaderValuesAsText(t *testing.T) {
	w := newWorld(t, oneRoute)
	r := chat("m")
	r.OldHeaders = true
	x := w.ask(r)
	if x.Answer != nil {
		t.Fatalf("answered: %+v", x.Answer)
	}
	w.end(x)
}

// A reload is seen by the next request: its targets, its time limits, its models.
func TestReload(t *testing.T) {
	w := newWorld(t, oneRoute)
	w.end(w.ask(chat("m")))
	w.install(parse(t, providers+`
routes:
  - {model: n, targets: [{provider: b, id: b/m}], timeouts: {request_secs: 9}}
`))
	w.reach("b/m")
	x := w.ask(chat("n"))
	if x.Answer != nil {
		t.Fatalf("answered: %+v", x.Answer)
	}
	if !slices.Equal(x.Clusters, []string{"pm|b/m"}) || x.Header.Get(wire.HeaderTimeoutMS) != "9000" {
		t.Errorf("clusters %v within %s ms", x.Clusters, x.Header.Get(wire.HeaderTimeoutMS))
	}
	w.end(x)
	if x := w.ask(chat("m")); x.Answer == nil || x.Answer.Status != 404 {
		t.Errorf("the removed model is still served: %+v", x.Answer)
	}
	if got := w.ask(fakeenvoy.Request{Method: "GET", Path: "/v1/models"}).Answer.Body; !strings.Contains(got, `"id":"n"`) {
		t.Errorf("models after the reload: %s", got)
	}
}
