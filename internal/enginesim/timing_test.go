package enginesim

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// clocked is a response writer that notes when things were written.
type clocked struct {
	*httptest.ResponseRecorder
	start   time.Time
	headers time.Duration
	events  []time.Duration
}

func newClocked() *clocked {
	return &clocked{ResponseRecorder: httptest.NewRecorder(), start: time.Now()}
}

func (c *clocked) WriteHeader(status int) {
	c.headers = time.Since(c.start)
	c.ResponseRecorder.WriteHeader(status)
}

func (c *clocked) Write(b []byte) (int, error) {
	for range bytes.Count(b, []byte("data: ")) {
		c.events = append(c.events, time.Since(c.start))
	}
	return c.ResponseRecorder.Write(b)
}

// call runs one request without a connection, on the clock of the bubble.
func (e *Engine) call(ctx context.Context, body string) *clocked {
	w := newClocked()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/chat/completions", strings.NewReader(body))
	e.ServeHTTP(w, r)
	return w
}

func newIdle(t *testing.T, opts Options) *Engine {
	t.Helper()
	e, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// prompts of exactly 1,000 tokens whose first blocks differ.
func thousand(name string) string {
	return strings.Repeat(name+"...", 4*1000)[:4*1000-len("user: \nassistant: ")]
}

func TestTimeToFirstTokenAndPerToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newIdle(t, Options{Prefill: 1000, Decode: 10})
		got := e.call(t.Context(), chatBody(thousand("a"), 3, true))
		if got.headers != 0 {
			t.Errorf("headers after %v, want at once", got.headers)
		}
		// Role and first token after the prefill, then ten tokens a second; usage and
		// [DONE] come with the last.
		want := []time.Duration{1000, 1000, 1100, 1200, 1200, 1200}
		if diff := cmp.Diff(want, millis(got.events)); diff != "" {
			t.Errorf("times of events in ms (-want +got):\n%s", diff)
		}
		// The same prompt again: 62 whole blocks of 16 tokens are there, 8 tokens are left.
		again := e.call(t.Context(), chatBody(thousand("a"), 1, true))
		if want := []time.Duration{8, 8, 8, 8}; !cmp.Equal(want, millis(again.events)) {
			t.Errorf("times of the cached prompt: %v, want %v", millis(again.events), want)
		}
	})
}

func millis(ds []time.Duration) []time.Duration {
	out := make([]time.Duration, len(ds))
	for i, d := range ds {
		out[i] = d.Round(time.Millisecond) / time.Millisecond
	}
	return out
}

func TestWholeAnswerSendsHeadersAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newIdle(t, Options{Prefill: 1000, Decode: 10})
		got := e.call(t.Context(), chatBody(thousand("a"), 11, false))
		if start := time.Since(got.start); start != 2*time.Second {
			t.Errorf("answered after %v, want 2s", start)
		}
	})
}

// Four prompts at once: one is read after the other, each waits for those before.
func TestPrefillsAreSerial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newIdle(t, Options{Prefill: 1000, Decode: 1000})
		var got [4]time.Duration
		var wg sync.WaitGroup
		for i := range got {
			wg.Go(func() {
				got[i] = e.call(t.Context(), chatBody(thousand(string(rune('a'+i))), 1, true)).events[0]
			})
			synctest.Wait()
		}
		wg.Wait()
		want := [4]time.Duration{1 * time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second}
		if got != want {
			t.Errorf("first tokens at %v, want %v", got, want)
		}
	})
}

func TestBatchQueueAndRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newIdle(t, Options{Decode: 1, Batch: 2, Queue: 1})
		var got [4]*clocked
		var wg sync.WaitGroup
		for i := range got {
			wg.Go(func() { got[i] = e.call(t.Context(), chatBody("x", 11, true)) })
			synctest.Wait()
		}
		if s := e.Stats(); s.Running != 2 || s.Waiting != 1 || s.InFlight != 3 || s.Refused != 1 {
			t.Errorf("with the batch full: %+v", s)
		}
		wg.Wait()
		if got[3].Code != http.StatusServiceUnavailable {
			t.Errorf("the fourth: status %d, want 503", got[3].Code)
		}
		if !strings.Contains(got[3].Body.String(), "queue is full") {
			t.Errorf("the fourth: %s", got[3].Body)
		}
		// The third gets its headers at once, and its first token when a place is free.
		if got[2].headers != 0 || got[2].events[0] != 10*time.Second {
			t.Errorf("the third: headers %v, first token %v, want 0s and 10s", got[2].headers, got[2].events[0])
		}
		s := e.Stats()
		if s.Requests != 4 || s.InFlight != 0 || s.MaxFlight != 4 || s.Completed != 3 || s.Refused != 1 || s.Running != 0 || s.Waiting != 0 {
			t.Errorf("at the end: %+v", s)
		}
	})
}

// A client that leaves, wherever its request stands, gives everything back at once.
func TestLeavingFreesThePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newIdle(t, Options{Prefill: 1000, Decode: 1, Batch: 2, Queue: 10})
		ctx, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 3 { // one in prefill, one waiting to be read, one in the queue
			wg.Go(func() { e.call(ctx, chatBody(thousand(string(rune('a'+i))), 5, true)) })
			synctest.Wait()
		}
		time.Sleep(500 * time.Millisecond)
		leave()
		wg.Wait()
		if s := e.Stats(); s.Aborted != 3 || s.InFlight != 0 || s.Running != 0 || s.Waiting != 0 || s.PromptTokens != 0 {
			t.Errorf("after all left: %+v", s)
		}
		// The accelerator is free, and what was not read to the end is not cached.
		got := e.call(t.Context(), chatBody(thousand("a"), 1, true))
		if got.events[0] != time.Second {
			t.Errorf("first token after %v, want 1s", got.events[0])
		}
		// Leaving in the middle of the answer.
		ctx, leave = context.WithCancel(t.Context())
		time.AfterFunc(2500*time.Millisecond, leave)
		half := e.call(ctx, chatBody(thousand("b"), 5, true))
		if n := len(half.events); n != 3 { // role, tokens at 1 s and 2 s
			t.Errorf("%d events before the client left, want 3", n)
		}
		if s := e.Stats(); s.Aborted != 4 || s.Completed != 1 || s.Running != 0 {
			t.Errorf("after leaving in the stream: %+v", s)
		}
	})
}

// Tokens that are due at the same time go out in one write, none is lost.
func TestFastStreamsAreCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newIdle(t, Options{Decode: 10_000})
		got := e.call(t.Context(), chatBody("x", 1000, true))
		s, err := readStream(got.Body)
		if err != nil || s.tokens != 1000 || s.text != Text(1000) || !s.done {
			t.Fatalf("%d tokens, done %v, %v", s.tokens, s.done, err)
		}
		moments := map[time.Duration]bool{}
		for _, at := range got.events {
			moments[at] = true
		}
		if len(moments) > 52 {
			t.Errorf("%d writes for 100 ms, want one per %v", len(moments), flushGap)
		}
	})
}

func TestSlowAndDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newIdle(t, Options{Prefill: 1000, Decode: 10})
		if err := e.SetFaults(Fault{Slow: 3, DelayMS: 500, Count: 1}); err != nil {
			t.Fatal(err)
		}
		got := e.call(t.Context(), chatBody(thousand("a"), 2, true))
		if got.headers != 500*time.Millisecond {
			t.Errorf("headers after %v, want 500ms", got.headers)
		}
		want := []time.Duration{3500, 3500, 3800, 3800, 3800}
		if diff := cmp.Diff(want, millis(got.events)); diff != "" {
			t.Errorf("times of events in ms (-want +got):\n%s", diff)
		}
	})
}

// A hang of limited time shifts the rest of the answer.
func TestHangForSomeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newIdle(t, Options{Decode: 10})
		if err := e.SetFaults(Fault{Action: Hang, AfterTokens: new(2), ForMS: 5000, Count: 1}); err != nil {
			t.Fatal(err)
		}
		got := e.call(t.Context(), chatBody("x", 4, true))
		want := []time.Duration{0, 0, 100, 5200, 5300, 5300, 5300}
		if diff := cmp.Diff(want, millis(got.events)); diff != "" {
			t.Errorf("times of events in ms (-want +got):\n%s", diff)
		}
		if err := e.SetFaults(Fault{Action: Hang, ForMS: 700, Count: 1}); err != nil {
			t.Fatal(err)
		}
		if got := e.call(t.Context(), chatBody("x", 1, true)); got.headers != 700*time.Millisecond {
			t.Errorf("hung before headers for %v, want 700ms", got.headers)
		}
	})
}
