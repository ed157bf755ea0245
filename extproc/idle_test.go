package extproc_test

import (
	"testing"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/pointsman/pointsman/internal/fakeenvoy"
)

// A request is open from its headers to the end of its answer, also as long as its body is on
// the way: a draining process waits for a slow upload. Those that get no decision count too.
func TestIdle(t *testing.T) {
	before := time.Now()
	w := newWorld(t, oneRoute)
	wantOpen := func(step string, want int64) time.Time {
		t.Helper()
		open, last := w.server.Idle()
		if open != want || last.Before(before) || last.After(time.Now()) {
			t.Errorf("%s: %d open, last end %s after the start; want %d", step, open, last.Sub(before), want)
		}
		return last
	}
	start := wantOpen("new", 0)

	x, err := w.envoy.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := chat("m")
	for i, m := range []*extprocv3.ProcessingRequest{w.envoy.HeadersMessage(r), fakeenvoy.BodyMessage(r.Body, true)} {
		if err := x.Stream().Send(m); err != nil {
			t.Fatal(err)
		}
		if _, err := x.Stream().Recv(); err != nil {
			t.Fatal(err)
		}
		if decided, _ := w.sink.count(); decided != i {
			t.Errorf("%d decisions after %d messages", decided, i+1)
		}
		if last := wantOpen("one open", 1); !last.Equal(start) {
			t.Error("an end was noted")
		}
	}
	w.end(x)
	w.wantIdle()
	first := wantOpen("ended", 0)
	if !first.After(start) {
		t.Error("its end was not noted")
	}

	w.end(w.ask(fakeenvoy.Request{Method: "GET", Path: "/v1/models"}))
	w.wantIdle()
	if !wantOpen("models", 0).After(first) {
		t.Error("the end of a request without a decision was not noted")
	}
}
