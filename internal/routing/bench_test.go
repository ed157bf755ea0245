package routing

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/tracker"
)

// benchRouter is a router with one reachable pool of n targets.
func benchRouter(tb testing.TB, strategy string, n int) *Router {
	tr := tracker.New(tracker.Settings{CooldownBase: 5 * time.Second, CooldownMax: 300 * time.Second})
	r := NewRouter(tr, time.Now().Add(-time.Hour))
	s, err := NewSnapshot(cfg(route("m", strategy, 2, names(n)...)), tr, nil)
	if err != nil {
		tb.Fatal(err)
	}
	r.Swap(s)
	for _, id := range names(n) {
		tr.SetReachable(id, true)
	}
	return r
}

var benchTargets = []int{2, 8, 100}

// A whole decision with a list of up to three, and its end.
func BenchmarkDecide(b *testing.B) {
	for _, strategy := range []string{"round_robin", "cache_aware"} {
		for _, n := range benchTargets {
			b.Run(fmt.Sprintf("%s/%d", strategy, n), func(b *testing.B) {
				r := benchRouter(b, strategy, n)
				q := ask("m", strings.Repeat("x", 4096))
				b.ReportAllocs()
				for b.Loop() {
					d, err := r.Decide(b.Context(), r.Snapshot(), q, "")
					if err != nil {
						b.Fatal(err)
					}
					r.Free(d)
				}
			})
		}
	}
}

func BenchmarkDecideParallel(b *testing.B) {
	for _, n := range benchTargets {
		b.Run(fmt.Sprintf("round_robin/%d", n), func(b *testing.B) {
			r := benchRouter(b, "round_robin", n)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				q := ask("m", "")
				for pb.Next() {
					d, err := r.Decide(b.Context(), r.Snapshot(), q, "")
					if err != nil {
						b.Error(err)
						return
					}
					r.Free(d)
				}
			})
		})
	}
}
