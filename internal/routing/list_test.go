package routing

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/picker"
)

// Cases 40-43: prefix, load and eligibility together, with loads as the tracker has them.
func TestCacheAwareLoads(t *testing.T) {
	const prompt = "a prompt of some length, known on one target"
	for _, test := range []struct {
		name  string
		warm  string // "" = nobody
		out   []string
		loads [3]int
		want  string
	}{
		{"case 40", "t1", nil, [3]int{10, 3, 0}, "t2"},
		{"case 41, warm one less loaded", "t1", []string{"t2"}, [3]int{10, 3, 0}, "t1"},
		{"case 41, warm one overloaded", "t1", []string{"t2"}, [3]int{1, 9, 0}, "t0"},
		{"case 42", "", []string{"t2"}, [3]int{4, 3, 0}, "t1"},
		{"case 43", "t1", []string{"t1"}, [3]int{0, 0, 0}, "t0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.install(route("m", "cache_aware", 2, names(3)...))
			w.reach()
			if test.warm != "" {
				w.warm(test.warm, prompt)
			}
			w.park(test.out...)
			for i, n := range test.loads {
				w.load(fmt.Sprintf("t%d", i), n)
			}
			d := w.decide(ask("m", prompt))
			if d.Entry(0).ID != test.want || d.FailOpen {
				t.Errorf("chosen %s (fail open %t), want %s", d.Entry(0).ID, d.FailOpen, test.want)
			}
			// The parked ones come last: only failing open lists them.
			for i, id := range ids(d) {
				if parked := slices.Contains(test.out, id); parked != (i >= 3-len(test.out)) {
					t.Errorf("list %v, parked %v", ids(d), test.out)
				}
			}
		})
	}
}

// Cases 44 and 45: the number of targets makes no difference, nor does the word of
// a set in which a target stands.
func TestManyTargets(t *testing.T) {
	for _, n := range []int{1, 63, 64, 65, 130} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			w := newWorld(t)
			all := names(n)
			last := all[n-1]
			w.install(route("m", "cache_aware", 2, all...))
			w.reach()
			for i, id := range all[:n-1] {
				load := 9
				if i == n-2 {
					load = 1
				}
				w.load(id, load)
			}
			if n > 1 {
				w.park(last)
				if got := w.choose(ask("m", "")); got[0] != all[n-2] {
					t.Errorf("case 44: %s, want %s", got[0], all[n-2])
				}
				w = newWorld(t)
				w.install(route("m", "cache_aware", 2, all...))
				w.reach()
			}
			w.park(all[:n-1]...)
			d := w.decide(ask("m", ""))
			if d.Entry(0).ID != last || d.FailOpen {
				t.Errorf("case 45, only the last eligible: %s (fail open %t)", d.Entry(0).ID, d.FailOpen)
			}
			w.router.Free(d)
			for _, id := range all[:n-1] {
				w.load(id, 2)
			}
			w.park(last)
			d = w.decide(ask("m", ""))
			if d.Entry(0).ID != last || !d.FailOpen {
				t.Errorf("case 45, none eligible: %s (fail open %t), want %s by failing open", d.Entry(0).ID, d.FailOpen, last)
			}
		})
	}
}

// Case 46: nobody eligible, nothing known.
func TestFailOpenUntrained(t *testing.T) {
	for _, strategy := range []string{"round_robin", "cache_aware"} {
		w := newWorld(t)
		w.install(route("m", strategy, 2, "a", "b"))
		w.reach()
		w.park("a", "b")
		d := w.decide(ask("m", "prompt"))
		if !d.FailOpen || d.Len() != 2 {
			t.Errorf("%s: list %v, fail open %t", strategy, ids(d), d.FailOpen)
		}
	}
}

// Case 220, as far as parking goes: after the first target a sibling follows, and
// parked ones are skipped while another is eligible.
func TestParkedAreSkipped(t *testing.T) {
	for _, strategy := range []string{"round_robin", "cache_aware"} {
		t.Run(strategy, func(t *testing.T) {
			w := newWorld(t)
			w.install(route("m", strategy, 3, "a", "b", "c", "d"))
			w.reach()
			w.park("b", "d")
			for range 20 {
				got := w.choose(ask("m", ""))
				head, tail := slices.Sorted(slices.Values(got[:2])), slices.Sorted(slices.Values(got[2:]))
				if diff := cmp.Diff([][]string{{"a", "c"}, {"b", "d"}}, [][]string{head, tail}); diff != "" {
					t.Fatalf("list %v: %s", got, diff)
				}
			}
		})
	}
}

// Case 238: two targets, two retries.
func TestListHasNobodyTwice(t *testing.T) {
	w := newWorld(t)
	w.install(route("m", "round_robin", 2, "a", "b"))
	w.reach()
	if diff := cmp.Diff([]string{"a", "b"}, w.choose(ask("m", ""))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"b", "a"}, w.choose(ask("m", ""))); diff != "" {
		t.Error(diff)
	}
}

// Case 240: not even failing open chooses a target that the proxy has not accepted.
func TestUnreachableIsNeverChosen(t *testing.T) {
	w := newWorld(t)
	w.install(route("m", "round_robin", 2, "a", "b"))
	w.reach()
	w.install(route("m", "round_robin", 2, "a", "b", "new"))
	for range 10 {
		if got := w.choose(ask("m", "")); slices.Contains(got, "new") {
			t.Fatalf("list %v", got)
		}
	}
	w.park("a", "b")
	if got := w.choose(ask("m", "")); slices.Contains(got, "new") {
		t.Fatalf("failing open: list %v", got)
	}
	w.reach("new")
	if got := w.choose(ask("m", "")); got[0] != "new" {
		t.Fatalf("accepted now: list %v", got)
	}
}

// Case 413, the choice: a drained target is not a second entry, not even by failing
// open.
func TestDrainedIsNeverChosen(t *testing.T) {
	for _, strategy := range []string{"round_robin", "cache_aware"} {
		w := newWorld(t)
		w.install(route("m", strategy, 2, "a", "b*0"))
		w.reach()
		for range 10 {
			if diff := cmp.Diff([]string{"a"}, w.choose(ask("m", "p"))); diff != "" {
				t.Fatalf("%s: %s", strategy, diff)
			}
		}
		w.park("a")
		if diff := cmp.Diff([]string{"a"}, w.choose(ask("m", "p"))); diff != "" {
			t.Fatalf("%s, failing open: %s", strategy, diff)
		}
		w.tracker.SetReachable("a", false)
		if _, err := w.router.Decide(t.Context(), w.router.Snapshot(), ask("m", "p"), ""); err == nil {
			t.Fatalf("%s: decided with nothing but a drained target", strategy)
		}
	}
}

// Whatever is reachable, parked or drained: the list has min(max_retries + 1, number of
// open targets) entries, nobody twice, the eligible ones first, and fail open speaks of
// the first.
func TestListAlways(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for round := range 300 {
		w := newWorld(t)
		n, retries := 1+rnd.IntN(70), rnd.IntN(6)
		all := names(n)
		members := slices.Clone(all)
		open, eligible := map[string]bool{}, map[string]bool{}
		var reach, park []string
		for i, id := range all {
			drained, reachable, parked := rnd.IntN(5) == 0, rnd.IntN(5) > 0, rnd.IntN(3) == 0
			if drained {
				members[i] += "*0"
			}
			if reachable {
				reach = append(reach, id)
			}
			if parked {
				park = append(park, id)
			}
			open[id] = reachable && !drained
			eligible[id] = open[id] && !parked
		}
		strategy := []string{"round_robin", "cache_aware"}[round%2]
		s := w.install(route("m", strategy, retries, members...))
		for _, id := range reach {
			w.reach(id)
		}
		w.park(park...)
		count := func(set map[string]bool) (n int) {
			for _, in := range set {
				if in {
					n++
				}
			}
			return n
		}
		d, err := w.router.Decide(t.Context(), s, ask("m", "prompt"), "")
		if count(open) == 0 {
			if err == nil {
				t.Fatalf("round %d: list %v of nobody", round, ids(d))
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		list := ids(d)
		if want := min(retries+1, count(open)); len(list) != want {
			t.Fatalf("round %d: %d entries, want %d", round, len(list), want)
		}
		seen := map[string]bool{}
		for k, id := range list {
			if seen[id] || !open[id] {
				t.Fatalf("round %d: %s twice, or not open, in %v", round, id, list)
			}
			seen[id] = true
			if want := k < count(eligible); eligible[id] != want {
				t.Fatalf("round %d: entry %d of %v eligible %t, want %t", round, k, list, eligible[id], want)
			}
		}
		if d.FailOpen != !eligible[list[0]] {
			t.Fatalf("round %d: fail open %t, first %s", round, d.FailOpen, list[0])
		}
		w.router.Free(d)
	}
}

// together lets n requests be decided at once and gives how many were on each
// endpoint when none had ended.
func (w *world) together(n int, prompt func(i int) string) map[string]int64 {
	start := make(chan struct{})
	decisions := make([]*Decision, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			decisions[i], _ = w.router.Decide(w.Context(), w.router.Snapshot(), ask("m", prompt(i)), "")
		})
	}
	close(start)
	wg.Wait()
	counts := map[string]int64{}
	for _, t := range w.router.Snapshot().Pool("m").Targets() {
		counts[t.ID] = t.Endpoint.InFlight()
	}
	for _, d := range decisions {
		if d == nil {
			w.Fatal("no decision")
		}
		w.router.Free(d)
	}
	return counts
}

func (w *world) between(counts map[string]int64, low, high int64) {
	w.Helper()
	for id, n := range counts {
		if n < low || n > high {
			w.Errorf("%s: %d, want %d to %d; all: %v", id, n, low, high, counts)
		}
	}
}

// What targets §5 says of simultaneous arrivals: 24 on three idle targets land 5 to
// 11 on each.
func TestSimultaneousDecisions(t *testing.T) {
	for range 20 {
		w := newWorld(t)
		w.install(route("m", "cache_aware", 2, "a", "b", "c"))
		w.reach()
		w.between(w.together(24, func(int) string { return "" }), 5, 11)
	}
}

// hesitant lets others run between a choice and what follows it.
type hesitant struct{ picker.Balancer }

func (h hesitant) Pick(c *picker.Call) int {
	i := h.Balancer.Pick(c)
	runtime.Gosched()
	return i
}

// Choosing and counting are one step as seen by other decisions of the pool, however
// unluckily they are interrupted.
func TestChoosingAndCountingAreOneStep(t *testing.T) {
	w := newWorld(t)
	s := w.install(route("m", "cache_aware", 2, "a", "b", "c"))
	w.reach()
	c := s.Pool("m").chooser
	c.balancer = hesitant{c.balancer}
	w.between(w.together(24, func(int) string { return "" }), 8, 8)
}

const system = "You are a helpful assistant of a large company, with many rules to follow. "

// Case 38: a long common system prompt, different questions, every request holding
// its place.
func TestCommonSystemPrompt(t *testing.T) {
	long := ""
	for range 50 {
		long += system
	}
	for range 5 {
		w := newWorld(t)
		w.install(route("m", "cache_aware", 2, "a", "b", "c"))
		w.reach()
		w.between(w.together(24, func(i int) string { return fmt.Sprintf("%s question %d", long, i) }), 6, 10)
	}
}

// Report 047: a burst for a prefix that everybody holds.
func TestBurstOnWarmTargets(t *testing.T) {
	long := ""
	for len(long) < 4096 {
		long += system
	}
	w := newWorld(t)
	w.install(route("m", "cache_aware", 2, "a", "b", "c", "d"))
	for _, id := range []string{"a", "b", "c", "d"} {
		w.warm(id, long)
	}
	w.between(w.together(64, func(int) string { return long }), 10, 22)
}
