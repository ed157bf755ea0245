package ledger

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/routing"
)

// script is what the proxy does with one request, as the ledger hears it.
type script struct {
	id     string
	number uint64
	list   []string // targets
	events []func(*script, *world)

	model model
}

// model says what must come of the events heard so far, by the rules of targets §8.1,
// in the simplest way.
type model struct {
	ended    bool
	endedAt  time.Time
	released bool
	heard    map[int]*Attempt // by index in the list
	answered int
	idle     bool
}

// goesOn tells whether the proxy tries another entry after this one.
func (m *model) goesOn(k int, entries int) bool {
	a := m.heard[k]
	return k+1 < entries && (a.Outcome == NoResponse || a.Outcome == Timeout || a.Outcome == ErrorStatus)
}

// at gives the index that the request has come to, and whether it is over there.
func (m *model) at(entries int) (k int, over bool) {
	highest := -1
	for i := range m.heard {
		highest = max(highest, i)
	}
	switch {
	case highest < 0:
		return 0, false
	case m.goesOn(highest, entries):
		return highest + 1, false
	}
	return highest, true
}

// place gives the target on which the request is in flight, or "".
func (s *script) place() string {
	if s.model.released {
		return ""
	}
	k, _ := s.model.at(len(s.list))
	return s.list[k]
}

// complete tells whether nothing more is to be heard.
func (s *script) complete() bool {
	k, over := s.model.at(len(s.list))
	if !s.model.ended || !over || len(s.model.heard) != k+1 {
		return false
	}
	last := s.model.heard[k].Outcome
	return last != ClientGone && last != ClientLeft || s.model.answered != 0
}

// lines gives what the sink must be told of the attempts in the end.
func (s *script) lines() []string {
	var lines []string
	k, _ := s.model.at(len(s.list))
	for i := range k + 1 {
		a := Attempt{Number: i + 1}
		if heard := s.model.heard[i]; heard != nil {
			a.Outcome, a.Status = heard.Outcome, heard.Status
		}
		if a.Outcome == ClientLeft && s.model.idle {
			a.Outcome = Cut
		}
		lines = append(lines, a.line(s.list[i]))
	}
	return lines
}

// code gives the status with which the request counts.
func (s *script) code() int {
	if s.model.answered != 0 {
		return s.model.answered
	}
	if k, over := s.model.at(len(s.list)); over {
		return s.model.heard[k].status()
	}
	return 0
}

// closes tells whether the decision is closed when time has come to now.
func (s *script) closes(now time.Time) bool {
	return s.complete() || s.model.ended && now.Sub(s.model.endedAt) >= entryWait
}

// newScript opens a decision and thinks of what becomes of it: a few attempts, of
// which entries may be lost, doubled and in disorder, or such that nobody would go on, the
// end of the stream somewhere among them, and an entry of the request log.
func newScript(w *world, rnd *rand.Rand) *script {
	d := w.decide()
	s := &script{id: d.ID, number: d.Number, model: model{heard: map[int]*Attempt{}}}
	for k := range d.Len() {
		s.list = append(s.list, d.Entry(k).ID)
	}
	failures := []func(k int) *Attempt{
		func(k int) *Attempt { return on(s.id, k+1, s.list[k], ErrorStatus, 503) },
		func(k int) *Attempt { return on(s.id, k+1, s.list[k], ErrorStatus, 500) },
		func(k int) *Attempt { return on(s.id, k+1, s.list[k], NoResponse, 0) },
		func(k int) *Attempt { return on(s.id, k+1, s.list[k], Timeout, 0) },
	}
	ends := []func(k int) *Attempt{
		func(k int) *Attempt { return on(s.id, k+1, s.list[k], Complete, 200) },
		func(k int) *Attempt { return on(s.id, k+1, s.list[k], Cut, 200) },
		func(k int) *Attempt { return on(s.id, k+1, s.list[k], ClientLeft, 200) },
		func(k int) *Attempt { return on(s.id, k+1, s.list[k], ClientGone, 0) },
		func(k int) *Attempt { return on(s.id, k+1, s.list[k], ClientError, 404) },
		func(k int) *Attempt { return on(s.id, k+1, s.list[k], AuthError, 401) },
		func(k int) *Attempt { return on(s.id, k+1, s.list[k], Refused, 0) },
	}
	last := rnd.IntN(len(s.list))
	for k := range last + 1 {
		made := failures[rnd.IntN(len(failures))](k)
		if k == last && (k+1 < len(s.list) || rnd.IntN(2) == 0) || rnd.IntN(20) == 0 {
			made = ends[rnd.IntN(len(ends))](k)
		}
		hear := func(s *script, w *world) { s.hear(w, k, made) }
		switch rnd.IntN(10) {
		case 0: // lost
		case 1:
			s.events = append(s.events, hear, hear)
		default:
			s.events = append(s.events, hear)
		}
		var answer Answer
		switch made.Outcome {
		case ClientGone:
			answer.Status = []int{0, 504}[rnd.IntN(2)]
		case ClientLeft, Cut, Complete:
			answer.Status, answer.Idle = 200, rnd.IntN(2) == 0
		default:
			continue
		}
		if k == last && rnd.IntN(5) > 0 {
			s.insert(rnd, func(s *script, w *world) { s.answer(w, answer) })
		}
	}
	if n := len(s.events); n > 1 && rnd.IntN(8) == 0 {
		i := rnd.IntN(n - 1)
		s.events[i], s.events[i+1] = s.events[i+1], s.events[i]
	}
	s.insert(rnd, (*script).end)
	if rnd.IntN(10) == 0 {
		s.insert(rnd, (*script).end)
	}
	if rnd.IntN(10) == 0 {
		s.insert(rnd, func(s *script, w *world) {
			w.ledger.AttemptEnded(on(s.id, 1, "elsewhere", NoResponse, 0))
		})
	}
	return s
}

func (s *script) insert(rnd *rand.Rand, event func(*script, *world)) {
	s.events = slices.Insert(s.events, rnd.IntN(len(s.events)+1), event)
}

func (s *script) hear(w *world, k int, made *Attempt) {
	a := *made
	w.ledger.AttemptEnded(&a)
	if s.model.heard[k] == nil {
		s.model.heard[k] = made
	}
	if _, over := s.model.at(len(s.list)); over {
		s.model.released = true // for good, whatever the proxy does after all
	}
}

func (s *script) end(w *world) {
	w.ledger.StreamEnded(s.number)
	if !s.model.ended {
		s.model.ended, s.model.endedAt, s.model.released = true, time.Now(), true
	}
}

func (s *script) answer(w *world, a Answer) {
	a.Decision = s.id
	w.ledger.AnsweredByProxy(a)
	s.model.idle = s.model.idle || a.Idle
	if s.model.answered = a.Status; a.Status == 0 {
		s.model.answered = statusClientGone
	}
}

// Everything that may be heard of a request, in any order, interleaved with everything
// of others: after every step the counts are what the rules say, and in the end they
// are 0, every decision was closed once and counted once with the right status, and every
// attempt was told once with the right outcome.
func TestInterleavings(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { interleave(t, seed, time.Sleep) })
		})
	}
}

func interleave(t *testing.T, seed uint64, sleep func(time.Duration)) {
	rnd := rand.New(rand.NewPCG(seed, 3))
	w := newWorld(t)
	for _, id := range targets { // all are parked all the time, so that nothing depends on it
		w.tracker.Target(id).Park(time.Now(), 300*time.Second)
	}
	codes := map[string]int{} // by decision id, as counted
	w.ledger.opts.Free = func(d *routing.Decision) {
		if _, twice := codes[d.ID]; twice {
			t.Errorf("%s closed twice", d.ID)
		}
		codes[d.ID] = w.records[len(w.records)-1].Status
		w.router.Free(d)
	}
	var open, all []*script
	late := 0
	check := func() {
		t.Helper()
		want := map[string]int64{}
		for _, s := range all {
			if p := s.place(); p != "" {
				want[p]++
			}
		}
		for _, id := range targets {
			if n := w.tracker.Endpoint(id).InFlight(); n != want[id] {
				t.Fatalf("%s: %d in flight, want %d", id, n, want[id])
			}
		}
	}
	for len(all) < 150 || len(open) > 0 {
		if len(all) < 150 && rnd.IntN(3) == 0 {
			s := newScript(w, rnd)
			open, all = append(open, s), append(all, s)
			check()
			continue
		}
		if rnd.IntN(20) == 0 {
			sleep(time.Duration(rnd.IntN(3000)) * time.Millisecond)
			w.ledger.sweep(time.Now())
		}
		if len(open) == 0 {
			continue
		}
		i := rnd.IntN(len(open))
		s := open[i]
		_, closed := codes[s.id]
		if closed != s.closes(time.Now()) {
			t.Fatalf("%s closed %t, want %t: %+v", s.id, closed, !closed, s.model)
		}
		before := s.model
		before.heard = map[int]*Attempt{}
		for k, a := range s.model.heard {
			before.heard[k] = a
		}
		lateBefore := w.late
		s.events[0](s, w)
		if closed { // nothing can change any more
			s.model = before
			late += w.late - lateBefore
		} else if w.late != lateBefore {
			t.Fatalf("%s: late although open", s.id)
		}
		check()
		if s.events = s.events[1:]; len(s.events) == 0 {
			open = slices.Delete(open, i, i+1)
		}
	}
	sleep(entryWait)
	w.ledger.sweep(time.Now())
	check()
	if len(codes) != len(all) || len(w.records) != len(all) || w.decided != len(all) {
		t.Fatalf("%d decisions, %d told, %d closed, %d counted", len(all), w.decided, len(codes), len(w.records))
	}
	var attempts []string
	for _, s := range all {
		if got, want := codes[s.id], s.code(); got != want {
			t.Errorf("%s counted with %d, want %d: %+v", s.id, got, want, s.model)
		}
		attempts = append(attempts, s.lines()...)
	}
	for i, line := range w.attempts {
		w.attempts[i] = strings.TrimSuffix(line, " parked") // which no rule here speaks of
	}
	slices.Sort(w.attempts)
	slices.Sort(attempts)
	if diff := cmp.Diff(attempts, w.attempts); diff != "" {
		t.Errorf("attempts told (-want +got):\n%s", diff)
	}
	for _, id := range targets {
		if n := w.tracker.Endpoint(id).InFlight(); n != 0 || w.tracker.Listed(id) {
			t.Errorf("%s: %d in flight, listed %t", id, n, w.tracker.Listed(id))
		}
	}
	if len(w.ledger.mu.accounts) != 0 || w.ledger.mu.waiting.n != 0 {
		t.Errorf("%d accounts, %d waiting at the end", len(w.ledger.mu.accounts), w.ledger.mu.waiting.n)
	}
	if late != w.late {
		t.Errorf("%d late, want %d", w.late, late)
	}
}

// Case 108: streams are lost before the headers, after them, in the body and at the end,
// 100,000 times, while entries come from another connection.
func TestLostStreams(t *testing.T) {
	const requests, workers = 100_000, 8
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run()
		entries := make(chan *Attempt, 64)
		var proxy, log sync.WaitGroup
		for range 2 {
			log.Go(func() {
				for a := range entries {
					w.ledger.AttemptEnded(a)
				}
			})
		}
		for worker := range uint64(workers) {
			proxy.Go(func() {
				rnd := rand.New(rand.NewPCG(worker, 4))
				for range requests / workers {
					d := w.decide()
					// The stream's goroutine reads the decision until it ends the stream.
					id, number, list := d.ID, d.Number, [3]string{d.Entry(0).ID, d.Entry(1).ID, d.Entry(2).ID}
					switch rnd.IntN(4) {
					case 0: // before the headers: the client is gone
						w.ledger.StreamEnded(number)
						entries <- on(id, 1, list[0], ClientGone, 0)
						w.ledger.AnsweredByProxy(Answer{Decision: id})
					case 1: // after the headers
						entries <- on(id, 1, list[0], ClientLeft, 200)
						if d.Find("nobody") != -1 || d.Len() != 3 || d.ID != id {
							t.Error("the decision changed under its reader")
						}
						w.ledger.StreamEnded(number)
						w.ledger.AnsweredByProxy(Answer{Decision: id, Status: 200})
					case 2: // in the body of the second, cut by the engine
						entries <- on(id, 1, list[0], NoResponse, 0)
						w.ledger.StreamEnded(number)
						entries <- on(id, 2, list[1], Cut, 200)
					case 3: // at the end, and nothing is ever heard
						w.ledger.StreamEnded(number)
					}
				}
			})
		}
		proxy.Wait()
		close(entries)
		log.Wait()
		time.Sleep(entryWait + sweepEvery)
		synctest.Wait()
		w.want("at the end", "b0 c0 a0")
		if n := len(w.closed()); n != requests {
			t.Errorf("%d requests counted, want %d", n, requests)
		}
		w.Lock()
		defer w.Unlock()
		for id, n := range w.freed {
			if n != 1 {
				t.Errorf("%s closed %d times", id, n)
			}
		}
		if len(w.freed) != requests {
			t.Errorf("%d decisions closed, want %d", len(w.freed), requests)
		}
	})
}
