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
					d, err := r.Decide(t.Context(), r.Snapshot(), q)
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
