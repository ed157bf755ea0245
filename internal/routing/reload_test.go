package routing

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/tracker"
)

// Case 242: what does not concern a pool leaves it the same object, and its rotation
// goes on.
func TestUnchangedPoolIsKept(t *testing.T) {
	w := newWorld(t)
	before := w.install(route("m", "round_robin", 0, "a", "b", "c"), route("n", "cache_aware", 2, "a"))
	w.reach()
	w.choose(ask("m", ""))
	after := w.install(route("n", "cache_aware", 2, "a", "d"), route("m", "round_robin", 0, "a", "b", "c"))
	if after == before || after.Pool("m") != before.Pool("m") {
		t.Error("an unchanged pool is a new object")
	}
	if after.Pool("n") == before.Pool("n") || after.Pool("n").chooser == before.Pool("n").chooser {
		t.Error("a changed pool is the old object")
	}
	if got := w.choose(ask("m", "")); got[0] != "b" {
		t.Errorf("rotation goes on with %s, want b", got[0])
	}
	if len(before.Pool("n").Targets()) != 1 {
		t.Error("the old snapshot changed")
	}
}

// Settings that are not the balancer's leave it the same object in a new pool.
func TestUnchangedBalancerIsKept(t *testing.T) {
	w := newWorld(t)
	r := route("m", "round_robin", 0, "a", "b", "c")
	before := w.install(r)
	w.reach()
	w.choose(ask("m", ""))
	r.Retry.MaxRetries = 1
	r.Timeouts.Request.Unary = time.Second
	after := w.install(r)
	if after.Pool("m") == before.Pool("m") || after.Pool("m").chooser != before.Pool("m").chooser {
		t.Error("not a new pool with the old balancer")
	}
	if before.Pool("m").MaxRetries != 0 {
		t.Error("the old snapshot changed")
	}
	if limit, _ := after.Pool("m").TimeLimit(0); limit != time.Second {
		t.Errorf("limit %v", limit)
	}
	if got := w.choose(ask("m", "")); got[0] != "b" || len(got) != 2 {
		t.Errorf("list %v, want two beginning with b", got)
	}
	r.LoadGuard.Margin++
	if last := w.install(r); last.Pool("m").chooser == after.Pool("m").chooser {
		t.Error("changed settings of the balancer have no effect")
	}
}

// A renamed provider is another endpoint: the pool must lead there.
func TestChangedEndpoint(t *testing.T) {
	w := newWorld(t)
	r := route("m", "round_robin", 0, "a")
	w.install(r)
	r.Targets[0].Provider = "elsewhere"
	s := w.install(r)
	if name := s.Pool("m").Targets()[0].Endpoint.Name(); name != "elsewhere" {
		t.Errorf("endpoint %s", name)
	}
}

// Case 243: what was learned stays with the id, however the list changes.
func TestReloadKeepsWhatWasLearned(t *testing.T) {
	const prompt = "a prompt that target b knows"
	for _, list := range []string{"b c a", "new a b c", "a b", "new b", "c b a new"} {
		t.Run(list, func(t *testing.T) {
			w := newWorld(t)
			w.install(route("m", "cache_aware", 3, "a", "b", "c"))
			w.reach()
			w.warm("b", prompt)
			now := time.Now()
			w.tracker.Target("b").Sample(now, 123)
			w.load("b", 1)
			s := w.install(route("m", "cache_aware", 3, strings.Fields(list)...))
			w.reach()
			if d := w.decide(ask("m", prompt)); d.Entry(0).ID != "b" || d.MatchedBytes != len(prompt) {
				t.Errorf("chosen %s, %d bytes known there", d.Entry(0).ID, d.MatchedBytes)
			}
			w.park("b")
			for i := range s.Pool("m").Targets() {
				target := &s.Pool("m").Targets()[i]
				ms, known := target.State.Latency(now)
				if target.ID != "b" {
					if known || target.Endpoint.Load() != 0 || !target.Eligible(now) {
						t.Errorf("%s has what belongs to b", target.ID)
					}
					continue
				}
				if ms != 123 || target.Endpoint.Load() != 2 || target.Eligible(now) {
					t.Errorf("b: latency %g, load %d, eligible %t", ms, target.Endpoint.Load(), target.Eligible(now))
				}
			}
		})
	}
}

// Case 243, rotation: it goes on by id.
func TestReloadKeepsRotation(t *testing.T) {
	for _, test := range []struct{ list, want string }{
		{"c b a", "a"},       // after b comes what now stands behind it
		{"new a b c", "c"},   // inserted in front
		{"a c", "c"},         // b, chosen last, is gone: its nearest survivor
		{"a b new c", "new"}, // inserted behind
	} {
		w := newWorld(t)
		w.install(route("m", "round_robin", 0, "a", "b", "c"))
		w.reach()
		w.choose(ask("m", ""))
		w.choose(ask("m", ""))
		w.install(route("m", "round_robin", 0, strings.Fields(test.list)...))
		w.reach()
		if got := w.choose(ask("m", "")); got[0] != test.want {
			t.Errorf("a, b, then list %q: %s, want %s", test.list, got[0], test.want)
		}
	}
}

// Case 244: the pool's state of a target that was out starts empty.
func TestRemovedAndAddedAgain(t *testing.T) {
	const prompt = "a prompt that target b knows"
	w := newWorld(t)
	w.install(route("m", "cache_aware", 3, "a", "b"))
	w.warm("b", prompt)
	w.install(route("m", "cache_aware", 3, "a"))
	w.install(route("m", "cache_aware", 3, "a", "b"))
	w.park("a")
	d := w.decide(ask("m", prompt))
	if d.Entry(0).ID != "b" || d.MatchedBytes != 0 {
		t.Errorf("%d bytes known on %s, want 0 on b", d.MatchedBytes, d.Entry(0).ID)
	}
	// So does a route that was out.
	w.install(route("other", "cache_aware", 3, "a"))
	w.install(route("m", "cache_aware", 3, "a", "b"))
	if d := w.decide(ask("m", prompt)); d.MatchedBytes != 0 {
		t.Errorf("%d bytes known in a pool that was out", d.MatchedBytes)
	}
}

// Requests that were decided keep their snapshot: they are moved, observed and
// ended as if nothing had happened.
func TestDecisionOutlivesItsSnapshot(t *testing.T) {
	const prompt = "a prompt of some length"
	w := newWorld(t)
	w.install(route("m", "cache_aware", 2, "a", "b", "c"))
	w.reach()
	d := w.decide(ask("m", prompt))
	list := ids(d)
	w.install(route("m", "round_robin", 0, "x", list[1]))
	w.install(route("n", "round_robin", 0, "x"))
	if got := ids(d); !slices.Equal(got, list) {
		t.Fatalf("list %v became %v", list, got)
	}
	d.Withdraw(0)
	d.Move(1)
	d.Observe(1)
	if w.inFlight(list[0]) != 0 || w.inFlight(list[1]) != 1 {
		t.Errorf("%d in flight on the first, %d on the second", w.inFlight(list[0]), w.inFlight(list[1]))
	}
	w.tracker.Sweep(time.Now().Add(24 * time.Hour))
	if !w.tracker.Listed(list[2]) {
		t.Error("a listed target is forgotten")
	}
	w.router.Free(d)
	for _, id := range list {
		if w.inFlight(id) != 0 || w.tracker.Listed(id) {
			t.Errorf("%s: %d in flight, listed %t", id, w.inFlight(id), w.tracker.Listed(id))
		}
	}
}

// Report 060: the same list again and again while requests run.
func TestRepeatedReloads(t *testing.T) {
	w := newWorld(t)
	r := route("m", "cache_aware", 2, "a", "b", "c")
	w.install(r)
	w.reach()
	total := func() (n int64) { return w.inFlight("a") + w.inFlight("b") + w.inFlight("c") }
	for i := range 60 {
		w.decide(ask("m", ""))
		r.LoadGuard.Margin = int64(2 + i%2)
		w.install(r)
		if i == 29 && total() != 30 {
			t.Errorf("%d in flight, want 30", total())
		}
	}
	for _, e := range []string{"a", "b", "c"} {
		if n := w.inFlight(e); n != 20 {
			t.Errorf("%s: %d in flight, want 20", e, n)
		}
	}
}

// Report 182, as far as it goes: open calls, learned state and rotation live on
// through reloads, and a newcomer is used.
func TestReloadsUnderOpenCalls(t *testing.T) {
	w := newWorld(t)
	r := route("m", "round_robin", 0, "a", "b", "c")
	w.install(r)
	w.reach()
	var open []*Decision
	for range 30 {
		open = append(open, w.decide(ask("m", "")))
	}
	w.park("b")
	for i := range 20 {
		w.install(r, route("other", "round_robin", i, "z"))
	}
	for _, e := range []string{"a", "b", "c"} {
		if n := w.inFlight(e); n != 10 {
			t.Errorf("%s: %d in flight, want 10", e, n)
		}
	}
	w.install(route("m", "round_robin", 0, "a", "b", "c", "e"))
	w.reach("e")
	served := map[string]int{}
	for range 30 {
		served[w.choose(ask("m", ""))[0]]++
	}
	if served["b"] != 0 || served["e"] != 10 {
		t.Errorf("served %v, want none by b (parked) and 10 by e", served)
	}
	for _, d := range open {
		w.router.Free(d)
	}
	for _, e := range []string{"a", "b", "c", "e"} {
		if n := w.inFlight(e); n != 0 {
			t.Errorf("%s: %d in flight at the end", e, n)
		}
	}
}

// Report 079: a target flaps while requests are open.
func TestFlappingTarget(t *testing.T) {
	w := newWorld(t)
	with, without := route("m", "cache_aware", 0, "a", "b", "c", "d"), route("m", "cache_aware", 0, "b", "c", "d")
	w.install(with)
	w.reach()
	var open []*Decision
	for i := range 200 {
		if i%4 == 0 {
			w.install(without)
			w.tracker.Sweep(time.Now().Add(24 * time.Hour))
			w.install(with)
			w.reach()
		}
		open = append(open, w.decide(ask("m", "")))
	}
	for _, d := range open {
		w.router.Free(d)
		for _, e := range []string{"a", "b", "c", "d"} {
			if n := w.inFlight(e); n < 0 {
				t.Fatalf("%s: %d in flight", e, n)
			}
		}
	}
	served := map[string]int{}
	open = open[:0]
	for range 400 {
		d := w.decide(ask("m", ""))
		served[d.Entry(0).ID]++
		open = append(open, d)
	}
	if n := served["a"]; n < 68 || n > 132 {
		t.Errorf("a served %d of 400", n)
	}
	for _, d := range open {
		w.router.Free(d)
	}
	for _, e := range []string{"a", "b", "c", "d"} {
		if n := w.inFlight(e); n != 0 {
			t.Errorf("%s: %d in flight at the end", e, n)
		}
	}
}

// A target that was taken out and that no decision lists is not chosen any more, so its
// cluster may go: not by a request either that was read with the snapshot before.
func TestRemovedTargetUnderTraffic(t *testing.T) {
	w := newWorld(t)
	with, without := route("m", "round_robin", 2, "a", "b", "c"), route("m", "round_robin", 2, "a", "b")
	w.install(with)
	w.reach()
	var withdrawn, stop atomic.Bool
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for !stop.Load() {
				stale := w.router.Snapshot()
				for range 3 {
					d, err := w.router.Decide(t.Context(), stale, ask("m", ""), "")
					if err != nil {
						t.Errorf("refused: %v", err)
						return
					}
					if withdrawn.Load() && slices.Contains(ids(d), "c") {
						t.Error("chosen after its cluster is gone")
						stop.Store(true)
					}
					w.router.Free(d)
				}
			}
		})
	}
	for range 300 {
		w.install(without)
		for w.tracker.Listed("c") && !stop.Load() {
			runtime.Gosched()
		}
		withdrawn.Store(true)
		for range 20 {
			w.choose(ask("m", ""))
		}
		withdrawn.Store(false)
		w.install(with)
		w.choose(ask("m", ""))
	}
	stop.Store(true)
	wg.Wait()
	for _, e := range []string{"a", "b", "c"} {
		if n := w.inFlight(e); n != 0 || w.tracker.Listed(e) {
			t.Errorf("%s: %d in flight, listed %t", e, n, w.tracker.Listed(e))
		}
	}
}

// Strategies §2.4: the bounds of all prefix histories together stay within the total,
// and each is at least 1 MiB.
func TestPrefixBounds(t *testing.T) {
	for _, test := range []struct {
		name          string
		pools         int // of ten targets each
		maxBytes, all int64
		want          int64
	}{
		{"the bound of one", 1, 16 << 20, 1 << 30, 16 << 20},
		{"just within the total", 6, 16 << 20, 1 << 30, 16 << 20},
		{"lowered", 10, 16 << 20, 1 << 30, 1 << 30 / 100},
		{"no less than 1 MiB", 200, 16 << 20, 1 << 30, 1 << 20},
		{"unless asked for", 200, 64 << 10, 1 << 30, 64 << 10},
		{"no bound of its own", 1, 0, 1 << 30, 1 << 30 / 10},
		{"one total for all", 2, 0, 100 << 20, 5 << 20},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := cfg()
			for i := range test.pools {
				r := route(fmt.Sprintf("m%d", i), "cache_aware", 2, names(10)...)
				r.Prefix.MaxBytes = test.maxBytes
				c.Routes = append(c.Routes, r, route(fmt.Sprintf("n%d", i), "round_robin", 2, names(10)...))
			}
			c.Providers = cfg(c.Routes...).Providers
			c.Prefix.MaxTotalBytes = test.all
			s, err := NewSnapshot(c, tracker.New(tracker.Settings{}), nil)
			if err != nil {
				t.Fatal(err)
			}
			sum := int64(0)
			for _, p := range s.Pools() {
				if p.Strategy != "cache_aware" {
					continue
				}
				if got := p.chooser.inputs.Settings.PrefixMaxBytes; got != test.want {
					t.Fatalf("bound %d, want %d", got, test.want)
				}
				sum += 10 * test.want
			}
			if test.want > 1<<20 && sum > test.all {
				t.Errorf("all together %d, more than %d", sum, test.all)
			}
			if sum <= 0 || sum == math.MaxInt64 {
				t.Error("no bound")
			}
		})
	}
}
