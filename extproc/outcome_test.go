package extproc_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	logv3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	alsv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"

	"github.com/pointsman/pointsman/internal/fakeenvoy"
	"github.com/pointsman/pointsman/internal/ledger"
	"github.com/pointsman/pointsman/internal/outcome"
	"github.com/pointsman/pointsman/internal/wire"
)

// attempt describes attempt number n (1, 2, ...) of an exchange.
func attempt(x *fakeenvoy.Exchange, n, status int) fakeenvoy.Attempt {
	a := fakeenvoy.Attempt{Decision: x.Decision(), Cluster: x.Clusters[n-1], Number: n, Status: status}
	if status != 0 {
		a.FirstHeader = time.Millisecond
	}
	if status >= 200 && status < 400 {
		a.FirstBody, a.Total = 2*time.Millisecond, 3*time.Millisecond
	}
	return a
}

// target is the id of entry n of an exchange, endpoint its place in inFlight.
func target(x *fakeenvoy.Exchange, n int) string {
	return strings.TrimPrefix(x.Clusters[n-1], wire.ClusterPrefix)
}

func (w *world) inFlightOn(x *fakeenvoy.Exchange, n int) int64 {
	slug, _, _ := strings.Cut(target(x, n), "/")
	return w.tracker.Endpoint(slug).InFlight()
}

func (w *world) parked(id string) bool { return w.tracker.Target(id).Parked(time.Now()) }

// Case 109, and the example of "Where outcomes come from": list b, c, a; the count
// follows the request, each failed target is charged once, the last one learns.
func TestFailover(t *testing.T) {
	w := newWorld(t, oneRoute)
	x := w.ask(chat("m"))
	want := func(on int) {
		t.Helper()
		for n := 1; n <= 3; n++ {
			if got, want := w.inFlightOn(x, n), int64(0); n == on && got != 1 || n != on && got != want {
				t.Errorf("entry %d: %d in flight, the request is on entry %d", n, got, on)
			}
		}
	}
	want(1)
	w.ended(attempt(x, 1, 503))
	want(2)
	reset := attempt(x, 2, 0)
	reset.Flags = &logv3.ResponseFlags{UpstreamRemoteReset: true}
	w.ended(reset)
	want(3)
	w.end(x)
	want(0)
	w.ended(attempt(x, 3, 200))
	want(0)
	for n, o := range []string{"error_status", "no_response", "complete"} {
		id := target(x, n+1)
		if got := w.sink.outcome(id + " " + o); got != 1 {
			t.Errorf("%s %s: %d times", id, o, got)
		}
		if parked := w.parked(id); parked != (n < 2) {
			t.Errorf("%s parked: %v", id, parked)
		}
		if ms, ok := w.tracker.Target(id).Latency(time.Now()); ok != (n == 2) || ok && ms != 3 {
			t.Errorf("%s latency: %v ms, known %v", id, ms, ok)
		}
	}
	if w.sink.closed != 1 {
		t.Errorf("closed %d times", w.sink.closed)
	}
}

// The entry of the last attempt may come before the end of the stream.
func TestEntryBeforeStreamEnd(t *testing.T) {
	w := newWorld(t, oneRoute)
	x := w.ask(chat("m"))
	w.ended(attempt(x, 1, 200))
	if n := w.inFlight(); n != [3]int64{} {
		t.Errorf("in flight %v after the last entry", n)
	}
	if w.sink.closed != 0 {
		t.Error("closed before the stream has ended")
	}
	w.end(x)
	w.wantIdle()
	if w.sink.closed != 1 {
		t.Errorf("closed %d times", w.sink.closed)
	}
	w.ended(attempt(x, 1, 200))
	if w.sink.late != 1 {
		t.Errorf("%d late entries, want 1", w.sink.late)
	}
}

// Cases 105, 106: what answers teach, and failures do not.
func TestLatencySamples(t *testing.T) {
	w := newWorld(t, providers+"routes: [{model: m, targets: [{provider: a}]}]\n")
	teach := func(status int, total time.Duration, wantMS float64) {
		t.Helper()
		x := w.ask(chat("m"))
		a := attempt(x, 1, status)
		a.Total = total
		w.ended(a)
		w.end(x)
		if ms, ok := w.tracker.Target("a/m").Latency(time.Now()); !ok || ms != wantMS {
			t.Errorf("latency %v ms, known %v, want %v ms", ms, ok, wantMS)
		}
	}
	teach(200, 100*time.Millisecond, 100)
	teach(502, time.Millisecond, 100)
	teach(404, time.Millisecond, 100)
	teach(200, 200*time.Millisecond, 130)

	w = newWorld(t, providers+"routes: [{model: m, targets: [{provider: a}]}]\n")
	teach(200, 200*time.Microsecond, 0.2)
}

// Case 107: a latency that nothing has refreshed for 5 minutes is unknown, and the next sample
// starts afresh. Without connections, so that the clock can be moved.
func TestLatencyLapses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer(t, providers+"routes: [{model: m, targets: [{provider: a}]}]\n")
		w.reach("a/m")
		logs := outcome.New(outcome.Options{Ledger: w.ledger, Log: w.log.logger()})
		e := &fakeenvoy.Envoy{BodyMode: filterv3.ProcessingMode_BUFFERED}
		teach := func(total time.Duration) {
			t.Helper()
			r := chat("m")
			s := &stream{ctx: t.Context(), end: io.EOF, last: func() {}}
			s.in = []*extprocv3.ProcessingRequest{e.HeadersMessage(r), fakeenvoy.BodyMessage(r.Body, true)}
			var decision string
			s.sent = func(out *extprocv3.ProcessingResponse) {
				for _, h := range out.GetRequestBody().GetResponse().GetHeaderMutation().GetSetHeaders() {
					if h.Header.Key == wire.HeaderDecision {
						decision = string(h.Header.RawValue)
					}
				}
			}
			if err := w.server.Process(s); err != nil {
				t.Fatal(err)
			}
			a := fakeenvoy.Attempt{Decision: decision, Cluster: "pm|a/m", Number: 1, Status: 200, Total: total}
			if err := logs.StreamAccessLogs(&logStream{entries: []*logv3.HTTPAccessLogEntry{a.Entry()}}); err != nil {
				t.Fatal(err)
			}
		}
		want := func(ms float64, known bool) {
			t.Helper()
			if got, ok := w.tracker.Target("a/m").Latency(time.Now()); ok != known || ok && got != ms {
				t.Errorf("latency %v ms, known %v, want %v ms, %v", got, ok, ms, known)
			}
		}
		teach(100 * time.Millisecond)
		time.Sleep(5*time.Minute - time.Second)
		want(100, true)
		time.Sleep(time.Second)
		want(0, false)
		teach(50 * time.Millisecond)
		want(50, true)
	})
}

// logStream is a stream of the log of attempts without a connection: one message.
type logStream struct {
	grpc.ServerStream
	entries []*logv3.HTTPAccessLogEntry
	read    bool
}

func (s *logStream) RecvMsg(m any) error {
	if s.read {
		return io.EOF
	}
	s.read = true
	in := m.(*alsv3.StreamAccessLogsMessage)
	in.Identifier = &alsv3.StreamAccessLogsMessage_Identifier{LogName: wire.LogAttempt}
	in.LogEntries = &alsv3.StreamAccessLogsMessage_HttpLogs{HttpLogs: &alsv3.StreamAccessLogsMessage_HTTPAccessLogEntries{LogEntry: s.entries}}
	return nil
}

func (s *logStream) SendAndClose(*alsv3.StreamAccessLogsResponse) error { return nil }

// Recv belongs to the interface; the server does without.
func (s *logStream) Recv() (*alsv3.StreamAccessLogsMessage, error) { return nil, errors.ErrUnsupported }

// Cases 204, 222: the client's own errors park nobody, are not retried and are
// handed to the client; 401 and 403 are counted as a word of their own.
func TestClientErrors(t *testing.T) {
	words := map[int]string{
		400: "client_error", 401: "auth_error", 403: "auth_error", 404: "client_error", 409: "client_error", 422: "client_error", 425: "client_error",
	}
	for status, word := range words {
		w := newWorld(t, providers+"routes: [{model: m, targets: [{provider: a}, {provider: b}]}]\n")
		const times = 100
		var entries []fakeenvoy.Attempt
		var open []*fakeenvoy.Exchange
		for range times {
			x := w.ask(chat("m"))
			open = append(open, x)
			entries = append(entries, attempt(x, 1, status))
		}
		w.ended(entries...)
		if n := w.inFlight(); n != [3]int64{} {
			t.Errorf("%d: in flight %v, want the requests to have ended where they were", status, n)
		}
		for _, x := range open {
			w.end(x)
		}
		if got := w.sink.outcome("a/m "+word) + w.sink.outcome("b/m "+word); got != times {
			t.Errorf("%d: %s %d times, want %d", status, word, got, times)
		}
		if w.parked("a/m") || w.parked("b/m") {
			t.Errorf("%d parked a target", status)
		}
		if w.sink.closed != times {
			t.Errorf("%d: %d closed, want %d", status, w.sink.closed, times)
		}
	}
}

// Cases 223, 224: a retryable status goes on to the second entry and parks the first; a
// lone 500 parks nobody, a second one in a row does.
func TestRetryableStatus(t *testing.T) {
	for _, status := range []int{408, 429, 503, 500} {
		w := newWorld(t, oneRoute)
		x := w.ask(chat("m"))
		w.ended(attempt(x, 1, status))
		if w.inFlightOn(x, 1) != 0 || w.inFlightOn(x, 2) != 1 {
			t.Errorf("%d: in flight %v, want the second entry", status, w.inFlight())
		}
		w.ended(attempt(x, 2, 200))
		w.end(x)
		w.wantIdle()
		if got, want := w.parked(target(x, 1)), status != 500; got != want {
			t.Errorf("%d: first parked %v, want %v", status, got, want)
		}
		if w.parked(target(x, 2)) {
			t.Errorf("%d: the second is parked", status)
		}
	}

	w := newWorld(t, providers+"routes: [{model: m, targets: [{provider: a}]}]\n")
	for i := range 2 {
		x := w.ask(chat("m"))
		w.ended(attempt(x, 1, 500))
		w.end(x)
		if got, want := w.parked("a/m"), i == 1; got != want {
			t.Errorf("500 number %d: parked %v", i+1, got)
		}
	}
}

// Cases 212-215, through the header: how long a target is parked.
func TestParkedByRetryAfter(t *testing.T) {
	const second = time.Second
	rfc850 := "Monday, 02-Jan-06 15:04:05 GMT"
	in := func(d time.Duration, form string) func(time.Time) string {
		return func(now time.Time) string { return now.Add(d).UTC().Format(form) }
	}
	is := func(s string) func(time.Time) string { return func(time.Time) string { return s } }
	tests := []struct {
		name     string
		header   func(now time.Time) string
		settings string
		want     time.Duration // 0 = not parked
	}{
		{"none", is(""), "", 5 * second},
		{"7", is("7"), "", 7 * second},
		{"1", is("1"), "", 5 * second},
		{"9999", is("9999"), "", 300 * second},
		{"date", in(90*second, http.TimeFormat), "", 90 * second},
		{"date of RFC 850", in(90*second, rfc850), "", 90 * second},
		{"date of asctime", in(90*second, time.ANSIC), "", 90 * second},
		{"date in the past", in(-90*second, http.TimeFormat), "", 5 * second},
		{"1.5", is("1.5"), "", 5 * second},
		{"-3", is("-3"), "", 5 * second},
		{"soon", is("soon"), "", 5 * second},
		{"30 digits", is(strings.Repeat("9", 30)), "", 300 * second},
		{"the first of two", is("7,200"), "", 7 * second},
		{"switched off", is("60"), "cooldown: {base_secs: 0}", 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, providers+"routes: [{model: m, targets: [{provider: a}, {provider: b}]}]\n"+test.settings+"\n")
			x := w.ask(chat("m"))
			a := attempt(x, 1, 429)
			now := time.Now()
			a.RetryAfter = test.header(now)
			w.ended(a)
			// A date has whole seconds, and some time passes on the way.
			first := w.tracker.Target(target(x, 1))
			at := func(d time.Duration) bool { return first.Parked(now.Add(d)) }
			if test.want == 0 {
				if at(0) {
					t.Error("parked")
				}
			} else if slack := 2 * second; !at(test.want-slack) || at(test.want+time.Since(now)+slack) {
				t.Errorf("not parked for %s", test.want)
			}
			if w.parked(target(x, 2)) {
				t.Error("the other is parked")
			}
			w.end(x)
		})
	}
}

// Case 211: a new park never shortens a running one.
func TestParkNotShortened(t *testing.T) {
	w := newWorld(t, providers+"routes: [{model: m, targets: [{provider: a}]}]\n")
	now := time.Now()
	for _, header := range []string{"60", "5"} {
		x := w.ask(chat("m"))
		a := attempt(x, 1, 429)
		a.RetryAfter = header
		w.ended(a)
		w.end(x)
	}
	if !w.tracker.Target("a/m").Parked(now.Add(59 * time.Second)) {
		t.Error("parked for less than 60 s")
	}
}

// A time limit of one attempt goes on to the next entry. That of all attempts leaves no
// flag in the entry, looks like a client that has gone, and ends the request.
func TestTimeout(t *testing.T) {
	for flag, goesOn := range map[bool]bool{true: true, false: false} {
		w := newWorld(t, oneRoute)
		x := w.ask(fakeenvoy.Request{Body: []byte(`{"model":"m","stream":true}`)})
		a := attempt(x, 1, 0)
		a.Flags = &logv3.ResponseFlags{UpstreamRequestTimeout: flag}
		w.ended(a)
		if got := w.inFlightOn(x, 2) == 1; got != goesOn {
			t.Errorf("flag %v: the second entry is counted: %v", flag, got)
		}
		if got := w.parked(target(x, 1)); got != goesOn {
			t.Errorf("flag %v: parked %v", flag, got)
		}
		w.end(x)
		w.wantIdle()
	}
}

// The request log: our own answers are counted once, when they are given; Envoy's are
// counted by their code, or belong to their decision.
func TestRequestLog(t *testing.T) {
	w := newWorld(t, oneRoute)
	refused := w.ask(chat("x"))
	routed := w.ask(chat("m"))
	l, err := w.envoy.Log(t.Context(), wire.LogRequest)
	if err != nil {
		t.Fatal(err)
	}
	of := func(decision string, status int, details string) *logv3.HTTPAccessLogEntry {
		e := fakeenvoy.Attempt{Decision: decision, Status: status}.Entry()
		e.Response.ResponseCodeDetails = details
		return e
	}
	if err := l.Send(
		of("", 404, refused.Answer.Details),
		of("", 413, "request_payload_too_large"),
		of(routed.Decision(), 502, "upstream_reset_before_response_started{connection_failure}"),
	); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	w.end(routed)
	_, answers := w.sink.count()
	want := []ledger.Answer{
		{Status: 404, Code: "model_not_found"},
		{Status: 413, Code: "body_too_large"},
		{Decision: routed.Decision(), Pool: "m", Status: 502, Code: "upstream_connection_failed"},
	}
	if diff := cmp.Diff(want, answers); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}

// Report 030: engines that die in mid-answer, 20 at once: every count is back, and each is
// charged to the engine that died.
func TestEnginesDie(t *testing.T) {
	const rounds, atOnce = 10, 20
	w := newWorld(t, oneRoute)
	total := 0
	for range rounds {
		var open []*fakeenvoy.Exchange
		var entries []fakeenvoy.Attempt
		for range atOnce {
			x := w.ask(fakeenvoy.Request{Body: []byte(`{"model":"m","stream":true}`)})
			a := attempt(x, 1, 200)
			a.Total, a.Flags = 0, &logv3.ResponseFlags{UpstreamConnectionTermination: true}
			open, entries = append(open, x), append(entries, a)
		}
		w.ended(entries...)
		for _, x := range open {
			w.end(x)
		}
		total += atOnce
	}
	w.wantIdle()
	got := 0
	for _, id := range []string{"a/m", "b/m", "c/m"} {
		got += w.sink.outcome(id + " cut")
	}
	if got != total {
		t.Errorf("%d cut, want %d", got, total)
	}
}
