package ledger

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// run starts the ledger's background work; the test's end stops it.
func (w *world) run() {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.ledger.Run(ctx) }()
	w.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			w.Error(err)
		}
	})
}

// Case 397, the accounting: nothing is heard of any attempt. The counts are back to 0
// with the streams, and what is not heard within 5 s is unknown and charged to nobody.
func TestNothingHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run()
		for range 3 {
			d := w.decide()
			w.ledger.StreamEnded(d.Number)
		}
		w.want("streams ended", "b0 c0 a0")
		time.Sleep(entryWait - time.Millisecond)
		synctest.Wait()
		w.wantClosed()
		time.Sleep(sweepEvery + time.Millisecond)
		synctest.Wait()
		w.wantAttempts("b 1 unknown", "c 1 unknown", "a 1 unknown")
		w.wantClosed(0, 0, 0)
		for _, id := range targets {
			if _, known := w.tracker.Target(id).Latency(time.Now()); known || w.tracker.Target(id).Parked(time.Now()) {
				t.Errorf("%s has learned something", id)
			}
			if w.tracker.Listed(id) {
				t.Errorf("%s is still listed", id)
			}
		}
		w.ledger.AttemptEnded(on("node-start-2", 1, "c", NoResponse, 0))
		if w.late != 1 || w.tracker.Target("c").Parked(time.Now()) {
			t.Errorf("%d late, c parked %t", w.late, w.tracker.Target("c").Parked(time.Now()))
		}
	})
}

// A client that leaves while the decision is on its way to the proxy is told by an entry
// that names none, before or after the stream's end. The request counts once.
func TestLeftBeforeTheDecisionArrived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run()
		gone := Answer{Status: statusClientGone, Code: "client_gone"}
		first, second, third := w.decide(), w.decide(), w.decide()
		w.ledger.AnsweredByProxy(gone)
		w.ledger.StreamEnded(first.Number)
		w.ledger.StreamEnded(second.Number)
		w.ledger.AnsweredByProxy(gone)
		time.Sleep(2 * sameEnd)
		w.ledger.StreamEnded(third.Number) // of this one nothing is heard at all
		time.Sleep(entryWait + sweepEvery)
		synctest.Wait()
		if got := w.closed(); len(got) != 1 || got[0].Status != 0 || len(w.answers) != 2 || len(w.freed) != 3 {
			t.Errorf("%d closed, %d answers, %d freed", len(got), len(w.answers), len(w.freed))
		}
		w.want("all ended", "b0 c0 a0")
	})
}

// The list went on, and then nothing more was heard.
func TestLastEntryLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run()
		d := w.decide()
		w.ledger.AttemptEnded(on(d.ID, 1, "b", ErrorStatus, 503))
		w.ledger.StreamEnded(d.Number)
		w.want("released", "b0 c0 a0")
		time.Sleep(entryWait + sweepEvery)
		synctest.Wait()
		w.wantAttempts("b 1 error_status 503 parked", "c 2 unknown")
		w.wantClosed(0)
	})
}

// A stream that lasts is never given up, however long it takes.
func TestLongStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run()
		d := w.decide()
		time.Sleep(2 * time.Hour)
		w.want("two hours later", "b1 c0 a0")
		a := on(d.ID, 1, "b", Complete, 200)
		a.FirstBody, a.Total = time.Second, 2*time.Hour
		w.ledger.AttemptEnded(a)
		w.ledger.StreamEnded(d.Number)
		w.wantClosed(200)
		if r := w.closed()[0]; r.Duration != 2*time.Hour || r.TTFT != time.Second {
			t.Errorf("duration %v, ttft %v", r.Duration, r.TTFT)
		}
	})
}

// Case 396, the accounting: the client leaves before headers, in the stream; the
// engine cuts the stream. In flight is 0 at once, and nobody is charged.
func TestCutShort(t *testing.T) {
	for _, test := range []struct {
		outcome Outcome
		status  int // of the entry
		counted int
	}{
		{ClientGone, 0, 499},
		{ClientLeft, 200, 200},
		{Cut, 200, 200},
	} {
		for _, streamFirst := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/stream first %t", test.outcome, streamFirst), func(t *testing.T) {
				w := newWorld(t)
				d := w.decide()
				id, number := d.ID, d.Number
				if streamFirst {
					w.ledger.StreamEnded(number)
				} else {
					w.ledger.AttemptEnded(on(id, 1, "b", test.outcome, test.status))
				}
				w.want("whichever comes first", "b0 c0 a0")
				if streamFirst {
					w.ledger.AttemptEnded(on(id, 1, "b", test.outcome, test.status))
				} else {
					w.ledger.StreamEnded(number)
				}
				w.ledger.AnsweredByProxy(Answer{Decision: id, Status: test.status})
				w.wantAttempts(on("", 1, "b", test.outcome, test.status).line("b"))
				w.wantClosed(test.counted)
				if w.tracker.Target("b").Parked(time.Now()) {
					t.Error("parked")
				}
			})
		}
	}
}

func (a *Attempt) line(target string) string {
	s := fmt.Sprintf("%s %d %s", target, a.Number, a.Outcome)
	if a.Status != 0 {
		s += fmt.Sprintf(" %d", a.Status)
	}
	return s
}

// What the entry of an attempt leaves open, the request log tells, before or after the rest.
// Without a response: the client left, or the time of all attempts was over (case 410, the
// accounting). With one: the client left, or the upstream was silent for so long that the
// proxy cut the answer (case 384, the accounting).
func TestRequestLogDecides(t *testing.T) {
	type event int
	const (
		attempt event = iota
		stream
		answer
	)
	orders := [][]event{{attempt, stream, answer}, {attempt, answer, stream}, {stream, attempt, answer},
		{stream, answer, attempt}, {answer, attempt, stream}, {answer, stream, attempt}}
	for _, test := range []struct {
		name    string
		outcome Outcome
		status  int // of the attempt
		answer  Answer
		want    string
		counted int
	}{
		{"client gone", ClientGone, 0, Answer{Code: "client_gone"}, "c 2 client_gone", 499},
		{"time over", ClientGone, 0, Answer{Status: 504, Code: "upstream_timeout"}, "c 2 client_gone", 504},
		{"silent before a response", ClientGone, 0, Answer{Status: 504, Code: "upstream_timeout", Idle: true}, "c 2 client_gone", 504},
		{"client left", ClientLeft, 200, Answer{Status: 200}, "c 2 client_left 200", 200},
		{"silent", ClientLeft, 200, Answer{Status: 200, Idle: true}, "c 2 cut 200", 200},
		{"silent, as the attempt says too", Cut, 200, Answer{Status: 200, Idle: true}, "c 2 cut 200", 200},
		{"client too slow for the end", Complete, 200, Answer{Status: 200, Idle: true}, "c 2 complete 200", 200},
		{"silent in an error", ClientError, 400, Answer{Status: 400, Idle: true}, "c 2 client_error 400", 400},
	} {
		for _, order := range orders {
			t.Run(fmt.Sprintf("%s/%v", test.name, order), func(t *testing.T) {
				w := newWorld(t)
				d := w.decide()
				id, number := d.ID, d.Number
				w.ledger.AttemptEnded(on(id, 1, "b", NoResponse, 0))
				for _, e := range order {
					switch e {
					case attempt:
						w.ledger.AttemptEnded(on(id, 2, "c", test.outcome, test.status))
					case stream:
						w.ledger.StreamEnded(number)
					case answer:
						test.answer.Decision = id
						w.ledger.AnsweredByProxy(test.answer)
					}
				}
				w.wantAttempts("b 1 no_response parked", test.want)
				w.wantClosed(test.counted)
				if w.closed()[0].Attempts != 2 || w.tracker.Target("c").Parked(time.Now()) {
					t.Errorf("%d attempts, c parked %t", w.closed()[0].Attempts, w.tracker.Target("c").Parked(time.Now()))
				}
			})
		}
	}
}

// Without the request log the client is taken for gone, after 5 s.
func TestRequestLogSilent(t *testing.T) {
	for _, test := range []struct {
		outcome         Outcome
		status, counted int
	}{{ClientGone, 0, 499}, {ClientLeft, 200, 200}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.run()
			d := w.decide()
			id := d.ID
			w.ledger.AttemptEnded(on(id, 1, "b", test.outcome, test.status))
			w.want("released at once", "b0 c0 a0")
			time.Sleep(time.Hour)
			w.ledger.StreamEnded(d.Number)
			time.Sleep(entryWait - time.Millisecond)
			synctest.Wait()
			w.wantClosed()
			time.Sleep(sweepEvery + time.Millisecond)
			synctest.Wait()
			w.wantAttempts(on("", 1, "b", test.outcome, test.status).line("b"))
			w.wantClosed(test.counted)
			w.ledger.AnsweredByProxy(Answer{Decision: id, Status: 200, Idle: true})
			w.wantAttempts(on("", 1, "b", test.outcome, test.status).line("b"))
			w.wantClosed(test.counted)
		})
	}
}

// The proxy goes on although the client seemed to have left: all attempts are told, each
// with its own target.
func TestGoesOnAfterTheClientLeft(t *testing.T) {
	for idle, word := range map[bool]string{false: "client_left", true: "cut"} {
		w := newWorld(t)
		d := w.decide()
		id := d.ID
		w.ledger.AttemptEnded(on(id, 1, "b", ClientLeft, 200))
		w.ledger.AttemptEnded(on(id, 2, "c", ClientLeft, 200))
		w.ledger.AttemptEnded(on(id, 3, "a", Complete, 200))
		w.ledger.AnsweredByProxy(Answer{Decision: id, Status: 200, Idle: idle})
		w.ledger.StreamEnded(d.Number)
		w.wantAttempts("a 3 complete 200", "b 1 "+word+" 200", "c 2 "+word+" 200")
		w.wantClosed(200)
	}
}

// A request counts with the status that the client saw.
func TestCountedStatus(t *testing.T) {
	for _, test := range []struct {
		name     string
		outcomes []Outcome // of b, c, a; status by the outcome
		answered int       // by the request log, 0 = it says nothing
		want     int
	}{
		{"served", []Outcome{Complete}, 0, 200},
		{"an error of the engine", []Outcome{ClientError}, 0, 404},
		{"the last answer of three", []Outcome{NoResponse, Timeout, ErrorStatus}, 0, 503},
		{"no response at last", []Outcome{ErrorStatus, Timeout, NoResponse}, 0, 502},
		{"timeout at last", []Outcome{ErrorStatus, NoResponse, Timeout}, 0, 504},
		{"refused", []Outcome{Refused}, 0, 503},
		{"refused, and the log agrees", []Outcome{Refused}, 503, 503},
		{"the log knows better", []Outcome{ErrorStatus, NoResponse}, 504, 504},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.run()
				d := w.decide()
				status := map[Outcome]int{Complete: 200, ClientError: 404, ErrorStatus: 503}
				for k, o := range test.outcomes {
					w.ledger.AttemptEnded(on(d.ID, k+1, targets[k], o, status[o]))
				}
				if test.answered != 0 {
					w.ledger.AnsweredByProxy(Answer{Decision: d.ID, Status: test.answered})
				}
				w.ledger.StreamEnded(d.Number)
				time.Sleep(entryWait + sweepEvery)
				synctest.Wait()
				w.wantClosed(test.want)
			})
		})
	}
}

// Answers that no upstream made are told as they come; one that names a decision gets
// its pool.
func TestAnswers(t *testing.T) {
	w := newWorld(t)
	d := w.decide()
	id := d.ID
	w.ledger.Refused(Answer{Pool: "m", Status: 503, Code: "no_target"})
	w.ledger.AnsweredByProxy(Answer{Status: 413, Code: "body_too_large"})
	w.ledger.AnsweredByProxy(Answer{Decision: "other-start-1", Status: 502})
	w.ledger.AnsweredByProxy(Answer{Decision: id, Status: 502, Code: "upstream_connection_failed"})
	want := []Answer{
		{Pool: "m", Status: 503, Code: "no_target"},
		{Status: 413, Code: "body_too_large"},
		{Decision: "other-start-1", Status: 502},
		{Decision: id, Pool: "m", Status: 502, Code: "upstream_connection_failed"},
	}
	if diff := cmp.Diff(want, w.answers); diff != "" {
		t.Error(diff)
	}
	w.wantClosed()
}

// A decision that pointsman itself had to answer, because it failed after choosing,
// counts with that status.
func TestRefusedAfterDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run()
		d := w.decide()
		w.ledger.Refused(Answer{Decision: d.ID, Status: 500, Code: "internal"})
		w.ledger.StreamEnded(d.Number)
		w.want("released", "b0 c0 a0")
		time.Sleep(entryWait + sweepEvery)
		synctest.Wait()
		w.wantClosed(500)
	})
}

// The time to the first byte of the answer counts from the decision, over all
// attempts.
func TestTTFT(t *testing.T) {
	for _, test := range []struct {
		name        string
		failed      time.Duration // after the decision the first entry failed; 0 = it serves
		wait        time.Duration // before the next attempt began
		served      time.Duration // length of the attempt that serves
		firstBody   time.Duration
		total       bool          // the entry tells its length
		streamFirst time.Duration // the stream ended so long before the entry came
		want        time.Duration
	}{
		{"first entry", 0, 0, 3 * time.Second, time.Second, true, 0, time.Second},
		{"it began later", 0, time.Second, 3 * time.Second, time.Second, true, 0, 2 * time.Second},
		{"second entry", time.Second, time.Second, 3 * time.Second, time.Second, true, 0, 3 * time.Second},
		{"the entry comes late", time.Second, time.Second, 3 * time.Second, time.Second, true, 2 * time.Second, 3 * time.Second},
		{"a cut answer", 0, 0, 3 * time.Second, time.Second, false, 0, time.Second},
		{"a cut answer of the second", time.Second, 0, 3 * time.Second, time.Second, false, 0, 2 * time.Second},
		{"no body", 0, 0, 3 * time.Second, 0, true, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				d := w.decide()
				id, number := d.ID, d.Number
				k := 0
				if test.failed > 0 {
					time.Sleep(test.failed)
					w.ledger.AttemptEnded(on(id, 1, "b", NoResponse, 0))
					k = 1
				}
				time.Sleep(test.wait + test.served)
				if test.streamFirst > 0 {
					w.ledger.StreamEnded(number)
					time.Sleep(test.streamFirst)
				}
				a := on(id, k+1, targets[k], Cut, 200)
				a.FirstBody = test.firstBody
				if test.total {
					a.Outcome, a.Total = Complete, test.served
				}
				w.ledger.AttemptEnded(a)
				w.ledger.StreamEnded(number)
				if got := w.closed()[0].TTFT; got != test.want {
					t.Errorf("ttft %v, want %v", got, test.want)
				}
				if got, want := w.closed()[0].Duration, test.failed+test.wait+test.served; got != want {
					t.Errorf("duration %v, want %v", got, want)
				}
			})
		})
	}
}

// At most 50,000 decisions wait for entries; more: the oldest close.
func TestWaitingBound(t *testing.T) {
	w := newWorld(t)
	const more = 10
	for range 5 { // these stay open and are not meant
		w.decide()
	}
	for i := range maxWaiting + more {
		d := w.decide()
		if i == 0 { // it waits for the request log alone, and no longer than the others
			w.ledger.AttemptEnded(on(d.ID, 1, d.Entry(0).ID, ClientLeft, 200))
		}
		w.ledger.StreamEnded(d.Number)
	}
	if n := len(w.closed()); n != more || w.closed()[0].Status != 200 || !strings.HasSuffix(w.attempts[0], " 1 client_left 200") {
		t.Fatalf("%d closed, want %d", n, more)
	}
	for i := range more { // the first five numbers belong to the open ones
		if id := fmt.Sprintf("node-start-%s", base36(6+i)); w.freed[id] != 1 {
			t.Errorf("%s was not closed", id)
		}
	}
	if n := len(w.ledger.mu.accounts); n != maxWaiting+5 {
		t.Errorf("%d accounts, want %d", n, maxWaiting+5)
	}
	// Those that wait can still be heard of.
	w.ledger.AttemptEnded(on("node-start-"+base36(6+more), 1, targets[(5+more)%3], Complete, 200))
	if all := w.closed(); len(all) != more+1 || all[more].Status != 200 {
		t.Errorf("%d closed, the last with %d", len(all), all[len(all)-1].Status)
	}
}

func base36(n int) string { return string("0123456789abcdefghijklmnopqrstuvwxyz"[n]) }

func TestOutcomeWords(t *testing.T) {
	var words []string
	for _, o := range Outcomes() {
		words = append(words, o.String())
	}
	want := []string{"unknown", "complete", "cut", "client_left", "client_gone", "client_error", "auth_error",
		"error_status", "no_response", "timeout", "refused"}
	if diff := cmp.Diff(want, words); diff != "" {
		t.Error(diff)
	}
}
