package ledger

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/config"
	"github.com/pointsman/pointsman/internal/request"
	"github.com/pointsman/pointsman/internal/routing"
	"github.com/pointsman/pointsman/internal/tracker"
	"github.com/pointsman/pointsman/internal/wire"
)

// spy is a Sink that remembers. Its lines are short words, as the log's.
type spy struct {
	sync.Mutex
	decided, late int
	attempts      []string
	answers       []Answer
	records       []Record
}

func (s *spy) Decided(*routing.Decision) {
	s.Lock()
	defer s.Unlock()
	s.decided++
}

func (s *spy) Attempted(pool, target string, a *Attempt, parked bool) {
	line := fmt.Sprintf("%s %d %s", target, a.Number, a.Outcome)
	if a.Status != 0 {
		line += fmt.Sprintf(" %d", a.Status)
	}
	if parked {
		line += " parked"
	}
	s.Lock()
	defer s.Unlock()
	s.attempts = append(s.attempts, line)
}

func (s *spy) Answered(a Answer) {
	s.Lock()
	defer s.Unlock()
	s.answers = append(s.answers, a)
}

func (s *spy) Closed(r Record) {
	s.Lock()
	defer s.Unlock()
	s.records = append(s.records, r)
}

func (s *spy) Late() {
	s.Lock()
	defer s.Unlock()
	s.late++
}

// world is a ledger with all it needs, and one route m over targets b, c and a.
type world struct {
	*testing.T
	*spy
	tracker *tracker.Tracker
	router  *routing.Router
	ledger  *Ledger
	retry   map[int]bool
	ttft    bool
	freed   map[string]int // by decision id; guarded by spy
}

var targets = []string{"b", "c", "a"}

func newWorld(t *testing.T) *world { return newWorldWith(t, "round_robin", targets...) }

func newWorldWith(t *testing.T, strategy string, targets ...string) *world {
	w := &world{T: t, spy: &spy{}, retry: map[int]bool{408: true, 429: true}, freed: map[string]int{}}
	for status := 500; status < 600; status++ {
		w.retry[status] = true
	}
	w.tracker = tracker.New(tracker.Settings{
		LatencyAlpha: 0.3, LatencyIdle: 5 * time.Minute, CooldownBase: 5 * time.Second, CooldownMax: 300 * time.Second,
		ForgetAfter: 10 * time.Minute,
	})
	r := config.Route{
		Model: "m", Strategy: strategy, Retry: config.RouteRetry{MaxRetries: 2},
		Prefix: config.RoutePrefix{Threshold: 0.5}, LoadGuard: config.LoadGuard{Margin: 2, Ratio: 1.5},
	}
	c := &config.Config{Limits: config.Limits{Body: 1 << 20}, Prefix: config.Prefix{MaxTotalBytes: 1 << 30}}
	for i, id := range targets {
		c.Providers = append(c.Providers, config.Provider{Name: id, Slug: id})
		r.Targets = append(r.Targets, config.Target{Provider: id, Model: "m", ID: id, Weight: 1, ProviderIndex: i})
	}
	c.Routes = []config.Route{r}
	s, err := routing.NewSnapshot(c, w.tracker, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.router = routing.NewRouter(w.tracker, time.Now().Add(-time.Hour))
	w.router.Swap(s)
	for _, id := range targets {
		w.tracker.SetReachable(id, true)
	}
	w.ledger = New(Options{
		Prefix:      "node-start-",
		Retryable:   func(status int) bool { return w.retry[status] },
		LatencyTTFT: func() bool { return w.ttft },
		Free: func(d *routing.Decision) {
			w.Lock()
			w.freed[d.ID]++
			w.Unlock()
			w.router.Free(d)
		},
		Sink: w.spy,
	})
	return w
}

// decide opens a decision.
func (w *world) decide() *routing.Decision { return w.prompt("") }

func (w *world) prompt(text string) *routing.Decision {
	q := &request.Request{Model: "m", Text: []byte(text), Length: int64(len(text)), HasPrompt: text != ""}
	d, err := w.router.Decide(w.Context(), w.router.Snapshot(), q, "")
	if err != nil {
		w.Error(err)
		panic("no decision")
	}
	w.ledger.Open(d)
	return d
}

// on makes the entry of an attempt on a target.
func on(decision string, number int, target string, o Outcome, status int) *Attempt {
	return &Attempt{
		Decision: decision, Cluster: wire.ClusterName(target), Number: number, Outcome: o, Status: status,
		RetryAfter: tracker.NoHint,
	}
}

// counts gives what is in flight, as "b1 c0 a0".
func (w *world) counts() string {
	var parts []string
	for _, t := range w.router.Snapshot().Pool("m").Targets() {
		parts = append(parts, fmt.Sprintf("%s%d", t.ID, t.Endpoint.InFlight()))
	}
	return strings.Join(parts, " ")
}

func (w *world) want(step, counts string) {
	w.Helper()
	if got := w.counts(); got != counts {
		w.Errorf("%s: in flight %s, want %s", step, got, counts)
	}
}

// closed gives what was counted so far.
func (w *world) closed() []Record {
	w.Lock()
	defer w.Unlock()
	return slices.Clone(w.records)
}

func (w *world) wantAttempts(want ...string) {
	w.Helper()
	w.Lock()
	defer w.Unlock()
	if diff := cmp.Diff(want, w.attempts); diff != "" {
		w.Errorf("attempts: %s", diff)
	}
}

// wantClosed says what requests were counted, by status.
func (w *world) wantClosed(status ...int) {
	w.Helper()
	w.Lock()
	defer w.Unlock()
	var got []int
	for _, r := range w.records {
		if r.Pool != "m" {
			w.Errorf("pool %q", r.Pool)
		}
		got = append(got, r.Status)
	}
	if diff := cmp.Diff(status, got); diff != "" {
		w.Errorf("closed with: %s", diff)
	}
	if len(w.freed) != len(status) {
		w.Errorf("%d decisions freed, want %d", len(w.freed), len(status))
	}
	for id, n := range w.freed {
		if n != 1 {
			w.Errorf("%s freed %d times", id, n)
		}
	}
}

// parkedFor gives how long a target is parked from now, in whole seconds.
func (w *world) parkedFor(id string) (seconds int) {
	now := time.Now()
	for w.tracker.Target(id).Parked(now.Add(time.Duration(seconds)*time.Second + time.Second/2)) {
		seconds++
	}
	return seconds
}

// The table of targets §8, for the first of three entries.
func TestOutcomes(t *testing.T) {
	const total, firstBody = 100 * time.Millisecond, 20 * time.Millisecond
	for _, test := range []struct {
		name     string
		outcome  Outcome
		status   int
		hint     time.Duration
		duration float64 // latency learned with label duration, 0 = none
		ttft     float64 // and with label ttft
		parked   int     // seconds
		next     bool
	}{
		{"complete", Complete, 200, tracker.NoHint, 100, 20, 0, false},
		{"cut", Cut, 200, tracker.NoHint, 0, 20, 0, false},
		{"client left", ClientLeft, 200, tracker.NoHint, 0, 20, 0, false},
		{"client gone", ClientGone, 0, tracker.NoHint, 0, 0, 0, false},
		{"client error", ClientError, 404, tracker.NoHint, 0, 0, 0, false},
		{"client error that is retried", ClientError, 409, tracker.NoHint, 0, 0, 0, true},
		{"auth error", AuthError, 401, tracker.NoHint, 0, 0, 0, false},
		{"auth error that is retried", AuthError, 403, tracker.NoHint, 0, 0, 0, true},
		{"408", ErrorStatus, 408, tracker.NoHint, 0, 0, 5, true},
		{"429 with a hint", ErrorStatus, 429, 7 * time.Second, 0, 0, 7, true},
		{"503", ErrorStatus, 503, tracker.NoHint, 0, 0, 5, true},
		{"504 that is not retried", ErrorStatus, 504, tracker.NoHint, 0, 0, 5, false},
		{"a plain 500", ErrorStatus, 500, tracker.NoHint, 0, 0, 0, true},
		{"no response", NoResponse, 0, tracker.NoHint, 0, 0, 5, true},
		{"timeout", Timeout, 0, tracker.NoHint, 0, 0, 5, true},
		{"refused", Refused, 0, tracker.NoHint, 0, 0, 0, false},
	} {
		for _, ttft := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/ttft=%t", test.name, ttft), func(t *testing.T) {
				w := newWorld(t)
				w.ttft = ttft
				w.retry[409], w.retry[403] = true, true
				delete(w.retry, 504)
				d := w.decide()
				a := on(d.ID, 1, "b", test.outcome, test.status)
				a.RetryAfter, a.FirstBody, a.Total = test.hint, firstBody, total
				w.ledger.AttemptEnded(a)
				want := test.duration
				if ttft {
					want = test.ttft
				}
				ms, known := w.tracker.Target("b").Latency(time.Now())
				if ms != want || known != (want > 0) {
					t.Errorf("latency %g (%t), want %g", ms, known, want)
				}
				if got := w.parkedFor("b"); got != test.parked {
					t.Errorf("parked %d s, want %d", got, test.parked)
				}
				if test.next {
					w.want("goes on", "b0 c1 a0")
				} else {
					w.want("is over", "b0 c0 a0")
				}
			})
		}
	}
}

// An attempt whose start is not known teaches no latency.
func TestNoSampleWithoutTimes(t *testing.T) {
	for _, ttft := range []bool{false, true} {
		w := newWorld(t)
		w.ttft = ttft
		w.ledger.AttemptEnded(on(w.decide().ID, 1, "b", Complete, 200))
		if ms, known := w.tracker.Target("b").Latency(time.Now()); known {
			t.Errorf("latency %g", ms)
		}
	}
}

// Case 105: a failed attempt between two answers teaches nothing.
func TestFailureTeachesNoLatency(t *testing.T) {
	w := newWorldWith(t, "round_robin", "b")
	serve := func(o Outcome, status int, total time.Duration) {
		a := on(w.decide().ID, 1, "b", o, status)
		a.FirstBody, a.Total = total/2, total
		w.ledger.AttemptEnded(a)
	}
	serve(Complete, 200, 100*time.Millisecond)
	serve(ErrorStatus, 503, time.Millisecond)
	if ms, _ := w.tracker.Target("b").Latency(time.Now()); ms != 100 {
		t.Errorf("latency %g, want 100", ms)
	}
	serve(Complete, 200, 200*time.Millisecond)
	if ms, _ := w.tracker.Target("b").Latency(time.Now()); ms != 130 {
		t.Errorf("latency %g, want 130", ms)
	}
}

// Case 418: one 500 may be the request's fault, two in a row are the target's.
func TestPlain500(t *testing.T) {
	type outcome struct {
		Outcome
		status int
	}
	for _, test := range []struct {
		name     string
		outcomes []outcome
		parked   bool
	}{
		{"one", []outcome{{ErrorStatus, 500}}, false},
		{"two in a row", []outcome{{ErrorStatus, 500}, {ErrorStatus, 500}}, true},
		{"a 200 between", []outcome{{ErrorStatus, 500}, {Complete, 200}, {ErrorStatus, 500}}, false},
		{"a 404 between", []outcome{{ErrorStatus, 500}, {ClientError, 404}, {ErrorStatus, 500}}, false},
		{"a client gone between", []outcome{{ErrorStatus, 500}, {ClientGone, 0}, {ErrorStatus, 500}}, true},
		{"a refusal between", []outcome{{ErrorStatus, 500}, {Refused, 0}, {ErrorStatus, 500}}, true},
		{"a 503 before", []outcome{{ErrorStatus, 503}, {ErrorStatus, 500}}, true}, // by the 503
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorldWith(t, "round_robin", "b")
			for _, o := range test.outcomes {
				w.ledger.AttemptEnded(on(w.decide().ID, 1, "b", o.Outcome, o.status))
			}
			if parked := w.tracker.Target("b").Parked(time.Now()); parked != test.parked {
				t.Errorf("parked %t, want %t", parked, test.parked)
			}
		})
	}
}

// The example of targets §8.1: list b, c, a; the stream ends before the last entry.
func TestExample(t *testing.T) {
	const prompt = "a prompt that is remembered wherever it was dispatched"
	w := newWorldWith(t, "cache_aware", targets...)
	d := w.prompt(prompt)
	id, number := d.ID, d.Number
	w.want("dispatch", "b1 c0 a0")
	w.ledger.AttemptEnded(on(id, 1, "b", ErrorStatus, 503))
	w.want("b 503", "b0 c1 a0")
	w.ledger.AttemptEnded(on(id, 2, "c", NoResponse, 0))
	w.want("c reset", "b0 c0 a1")
	w.ledger.StreamEnded(number)
	w.want("stream ends", "b0 c0 a0")
	if len(w.closed()) != 0 {
		t.Error("closed before the last entry")
	}
	last := on(id, 3, "a", Complete, 200)
	last.Total = 80 * time.Millisecond
	w.ledger.AttemptEnded(last)
	w.want("a complete", "b0 c0 a0")
	w.wantAttempts("b 1 error_status 503 parked", "c 2 no_response parked", "a 3 complete 200")
	w.wantClosed(200)
	if w.closed()[0].Attempts != 3 {
		t.Errorf("%d attempts", w.closed()[0].Attempts)
	}
	if ms, ok := w.tracker.Target("a").Latency(time.Now()); !ok || ms != 80 {
		t.Errorf("latency of a: %g", ms)
	}
	// Every attempt was observed: the prompt is known on all three.
	for _, target := range targets {
		for _, other := range targets {
			w.tracker.SetReachable(other, other == target)
		}
		if d := w.prompt(prompt); d.Entry(0).ID != target || d.MatchedBytes != len(prompt) {
			t.Errorf("%d bytes known on %s", d.MatchedBytes, d.Entry(0).ID)
		}
	}
}

// Case 109: the second entry serves; the count moves to it, and the first is charged
// once. The stream ends last.
func TestSecondEntryServes(t *testing.T) {
	w := newWorld(t)
	d := w.decide()
	id, number := d.ID, d.Number
	w.ledger.AttemptEnded(on(id, 1, "b", ErrorStatus, 503))
	w.want("failed over", "b0 c1 a0")
	w.ledger.AttemptEnded(on(id, 2, "c", Complete, 200))
	w.want("served", "b0 c0 a0")
	if len(w.closed()) != 0 {
		t.Error("closed before the stream ended")
	}
	w.ledger.StreamEnded(number)
	w.wantAttempts("b 1 error_status 503 parked", "c 2 complete 200")
	w.wantClosed(200)
	if w.tracker.Target("c").Parked(time.Now()) {
		t.Error("the one that served is parked")
	}
}

// An entry that comes after the stream has ended still does everything but count.
func TestEntriesAfterTheStream(t *testing.T) {
	const prompt = "a prompt that is remembered wherever it was dispatched"
	w := newWorldWith(t, "cache_aware", targets...)
	d := w.prompt(prompt)
	id := d.ID
	w.ledger.StreamEnded(d.Number)
	w.want("stream ends", "b0 c0 a0")
	w.ledger.AttemptEnded(on(id, 1, "b", NoResponse, 0))
	w.want("b reset", "b0 c0 a0")
	w.ledger.AttemptEnded(on(id, 2, "c", ClientError, 400))
	w.want("c 400", "b0 c0 a0")
	w.wantAttempts("b 1 no_response parked", "c 2 client_error 400")
	w.wantClosed(400)
	w.tracker.SetReachable("b", false)
	w.tracker.SetReachable("a", false)
	if d := w.prompt(prompt); d.MatchedBytes != len(prompt) {
		t.Error("c was not observed")
	}
}

// What entries say that are none of ours, or were heard before.
func TestEntriesThatDoNotCount(t *testing.T) {
	w := newWorld(t)
	d := w.decide()
	id, number := d.ID, d.Number
	if want := "node-start-1"; id != want {
		t.Errorf("id %q, want %q", id, want)
	}
	for _, a := range []*Attempt{
		on("", 1, "b", NoResponse, 0),
		on("node-other-1", 1, "b", NoResponse, 0),
		on("node-start-", 1, "b", NoResponse, 0),
		on("node-start-0", 1, "b", NoResponse, 0),
		on("node-start-2", 1, "b", NoResponse, 0), // not given out yet
		on("node-start--1", 1, "b", NoResponse, 0),
		on("node-start-1x!", 1, "b", NoResponse, 0),
		on("node-start-zzzzzzzzzzzzzzzzzzzz", 1, "b", NoResponse, 0),
		on(id, 1, "elsewhere", NoResponse, 0), // a cluster that is not in the list
		on(id, 2, "", NoResponse, 0),
	} {
		w.ledger.AttemptEnded(a)
	}
	w.want("nothing happened", "b1 c0 a0")
	w.ledger.AttemptEnded(on(id, 1, "b", ErrorStatus, 503))
	w.ledger.AttemptEnded(on(id, 1, "b", ErrorStatus, 503))
	w.want("the same twice", "b0 c1 a0")
	w.ledger.AttemptEnded(on(id, 0, "c", ErrorStatus, 503)) // its number is not known
	w.want("by its cluster", "b0 c0 a1")
	w.ledger.AttemptEnded(on(id, 7, "c", ErrorStatus, 503))
	w.ledger.AttemptEnded(on(id, 1, "b", ErrorStatus, 503))
	w.want("earlier ones again", "b0 c0 a1")
	w.ledger.AttemptEnded(on(id, 3, "a", Complete, 200))
	w.ledger.AttemptEnded(on(id, 3, "a", Complete, 200))
	w.ledger.StreamEnded(number)
	w.ledger.StreamEnded(number)
	w.ledger.StreamEnded(12345)
	w.wantAttempts("b 1 error_status 503 parked", "c 2 error_status 503 parked", "a 3 complete 200")
	w.wantClosed(200)
	if w.late != 0 {
		t.Errorf("%d late before the end", w.late)
	}
	w.ledger.AttemptEnded(on(id, 3, "a", Complete, 200))
	if w.late != 1 {
		t.Errorf("%d late, want 1", w.late)
	}
	w.wantClosed(200)
}

// An entry is lost on the way: the one after it tells that it failed. It is not
// charged, and is unknown in the end.
func TestLostEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run()
		d := w.decide()
		w.ledger.AttemptEnded(on(d.ID, 2, "c", ErrorStatus, 503))
		w.want("b lost", "b0 c0 a1")
		w.ledger.AttemptEnded(on(d.ID, 3, "a", Complete, 200))
		w.ledger.StreamEnded(d.Number)
		time.Sleep(entryWait - time.Millisecond)
		synctest.Wait()
		if len(w.closed()) != 0 {
			t.Error("closed although an entry may still come")
		}
		time.Sleep(2 * sweepEvery)
		synctest.Wait()
		w.wantAttempts("c 2 error_status 503 parked", "a 3 complete 200", "b 1 unknown")
		w.wantClosed(200)
		if w.tracker.Target("b").Parked(time.Now()) {
			t.Error("charged without having been heard of")
		}
	})
}

// The attempt after a lost entry was dispatched all the same.
func TestAttemptAfterLostEntryIsObserved(t *testing.T) {
	const prompt = "a prompt that is remembered wherever it was dispatched"
	w := newWorldWith(t, "cache_aware", targets...)
	w.ledger.AttemptEnded(on(w.prompt(prompt).ID, 2, "c", Complete, 200))
	w.tracker.SetReachable("b", false)
	w.tracker.SetReachable("a", false)
	if d := w.prompt(prompt); d.MatchedBytes != len(prompt) {
		t.Errorf("%d bytes known on c", d.MatchedBytes)
	}
}

// Entries in the wrong order: all do what they do, and the count only goes forward.
func TestEntriesOutOfOrder(t *testing.T) {
	w := newWorld(t)
	d := w.decide()
	id := d.ID
	w.ledger.AttemptEnded(on(id, 3, "a", Complete, 200))
	w.want("the last first", "b0 c0 a0")
	w.ledger.StreamEnded(d.Number)
	w.ledger.AttemptEnded(on(id, 1, "b", ErrorStatus, 503))
	w.ledger.AttemptEnded(on(id, 1, "b", ErrorStatus, 503))
	w.ledger.AttemptEnded(on(id, 2, "c", NoResponse, 0))
	w.want("the others", "b0 c0 a0")
	w.wantAttempts("a 3 complete 200", "b 1 error_status 503 parked", "c 2 no_response parked")
	w.wantClosed(200)
}

// The proxy tries another one although the settings in force say that it does not: a
// reload changed them meanwhile. What it did is what counts.
func TestProxyGoesOnAgainstExpectation(t *testing.T) {
	w := newWorld(t)
	delete(w.retry, 503)
	d := w.decide()
	w.ledger.AttemptEnded(on(d.ID, 1, "b", ErrorStatus, 503))
	w.want("as it seems", "b0 c0 a0")
	w.ledger.AttemptEnded(on(d.ID, 2, "c", Complete, 200))
	w.ledger.StreamEnded(d.Number)
	w.wantAttempts("b 1 error_status 503 parked", "c 2 complete 200")
	w.wantClosed(200)
	if w.closed()[0].Attempts != 2 {
		t.Errorf("%d attempts", w.closed()[0].Attempts)
	}
}
