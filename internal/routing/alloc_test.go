//go:build !race

package routing

import (
	"fmt"
	"strings"
	"testing"
)

// A warm decision allocates nothing: not the list, not the sets, not the copy of
// a text that is known already.
func TestDecideAllocations(t *testing.T) {
	for _, strategy := range []string{"round_robin", "cache_aware"} {
		for _, n := range benchTargets {
			t.Run(fmt.Sprintf("%s/%d", strategy, n), func(t *testing.T) {
				r := benchRouter(t, strategy, n)
				q := ask("m", strings.Repeat("x", 4096))
				decide := func() {
					d, err := r.Decide(t.Context(), r.Snapshot(), q, "")
					if err != nil {
						t.Fatal(err)
					}
					d.Move(d.Len() - 1)
					d.Observe(d.Len() - 1)
					r.Free(d)
				}
				for range 2 * n {
					decide()
				}
				if got := testing.AllocsPerRun(1000, decide); got != 0 {
					t.Errorf("%g allocations, want 0", got)
				}
			})
		}
	}
}

// Case 209: asking who is eligible allocates nothing.
func TestEligibleAllocations(t *testing.T) {
	r := benchRouter(t, "round_robin", 100)
	targets := r.Snapshot().Pool("m").Targets()
	now := r.start
	if got := testing.AllocsPerRun(100, func() {
		for i := range targets {
			targets[i].Eligible(now)
		}
	}); got != 0 {
		t.Errorf("%g allocations, want 0", got)
	}
}

// A warm decision over variants, of a limited caller, or of a pin allocates nothing either.
func TestDecideAllocationsOfAllKinds(t *testing.T) {
	w := newWorld(t)
	w.file(strings.Replace(limited, "routes:", "routes:\n  - {model: v, variants: [{name: x, targets: [{provider: a}]}, {name: y, targets: [{provider: b}, {provider: a, model: z}]}]}", 1))
	for _, model := range []string{"v", "m", "a/some", "g/y"} {
		q := ask(model, strings.Repeat("x", 4096))
		decide := func() {
			d, err := w.router.Decide(t.Context(), w.router.Snapshot(), q, "alice")
			if err != nil {
				t.Fatal(err)
			}
			w.router.Free(d)
		}
		for range 20 {
			decide()
		}
		if got := testing.AllocsPerRun(1000, decide); got != 0 {
			t.Errorf("%s: %g allocations, want 0", model, got)
		}
	}
}
