package picker

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// shares makes first choices and tells which part of them each target got.
func shares(b Balancer, picks int, loads []int64, out ...int) []float64 {
	count := make([]float64, b.Len())
	c := Call{Loads: loads, Eligible: all(b.Len(), out...)}
	for range picks {
		count[b.Pick(&c)] += 1 / float64(picks)
	}
	return count
}

// near tells whether all values are within a distance.
func near(got, want []float64, distance float64) bool {
	return slices.EqualFunc(got, want, func(a, b float64) bool { return a >= b-distance && a <= b+distance })
}

func TestDistribution(t *testing.T) {
	const third, quarter = 1. / 3, 1. / 4
	for _, test := range []struct {
		name     string
		strategy string
		picks    int
		n        int
		loads    []int64
		out      []int
		want     []float64
		within   float64
	}{
		{"case 18", "random", 30_000, 4, nil, []int{1, 3}, []float64{.5, 0, .5, 0}, .02},
		{"case 18, one out", "random", 30_000, 4, nil, []int{3}, []float64{third, third, third, 0}, .02},
		{"case 20", "power_of_two", 60_000, 4, []int64{0, 1, 2, 3}, nil, []float64{1. / 2, third, 1. / 6, 0}, .01},
		{"case 21", "power_of_two", 40_000, 4, nil, nil, []float64{quarter, quarter, quarter, quarter}, .01},
		{"case 22", "power_of_two", 10_000, 3, []int64{0, 9, 9}, []int{0}, []float64{0, .5, .5}, .02},
		{"equal loads", "power_of_two", 40_000, 4, []int64{5, 5, 5, 5}, nil, []float64{quarter, quarter, quarter, quarter}, .01},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := shares(mustNew(t, newConfig(test.strategy, test.n), nil), test.picks, test.loads, test.out...)
			if !near(got, test.want, test.within) {
				t.Errorf("got %.3f, want %.3f", got, test.want)
			}
		})
	}
}

// Case 19.
func TestPowerOfTwoIdle(t *testing.T) {
	for i, got := range shares(mustNew(t, newConfig("power_of_two", 3), nil), 200, []int64{0, 0, 0}) {
		if got == 0 {
			t.Errorf("target %d got nothing", i)
		}
	}
}

// Both answers of a draw are different, and all ordered pairs come up, in pools whose
// sets take several words too.
func TestPowerOfTwoPairs(t *testing.T) {
	for _, n := range []int{2, 5, 70} {
		b := mustNew(t, newConfig("power_of_two", n), nil)
		c := Call{Eligible: all(n), Loads: make([]int64, n)}
		c.Loads[n-1] = 1 // taken only if it were drawn twice
		for range 20_000 {
			if got := b.Pick(&c); got == n-1 {
				t.Fatalf("n=%d: the busier of two", n)
			}
		}
	}
}

// Case 111 as far as the picker goes: each decision sees the ones before.
func TestPowerOfTwoBurst(t *testing.T) {
	for seed := range uint64(200) {
		cfg := newConfig("power_of_two", 3)
		cfg.Rand = newSeeded(seed)
		b := mustNew(t, cfg, nil)
		loads := make([]int64, 3)
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 24 {
			wg.Go(func() {
				mu.Lock()
				defer mu.Unlock()
				loads[b.Pick(&Call{Loads: loads, Eligible: all(3)})]++
			})
		}
		wg.Wait()
		if slices.Min(loads) < 5 || slices.Max(loads) > 11 {
			t.Errorf("seed %d: %v", seed, loads)
		}
	}
}

// Report 049: with the generator of the process, from many clients at once.
func TestRandomFromManyClients(t *testing.T) {
	cfg := newConfig("random", 4)
	cfg.Rand = nil
	b := mustNew(t, cfg, nil)
	const clients, picks = 16, 10_000
	var mu sync.Mutex
	var answers []int
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			c := Call{Eligible: all(4)}
			for range picks / clients {
				i := b.Pick(&c)
				mu.Lock()
				answers = append(answers, i)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	var count [4]int
	longest, run := 0, 0
	for k, i := range answers {
		count[i]++
		if run++; k == 0 || answers[k-1] != i {
			run = 1
		}
		longest = max(longest, run)
	}
	for i, got := range count {
		if got < 2500-220 || got > 2500+220 {
			t.Errorf("target %d got %d of %d", i, got, picks)
		}
	}
	if longest >= 14 {
		t.Errorf("%d in a row", longest)
	}
}

func TestSetNth(t *testing.T) {
	rng := rand.New(rand.NewPCG(18, 1))
	for range 500 {
		n := 1 + rng.IntN(200)
		s := all(n + rng.IntN(70))
		for range rng.IntN(n + 1) {
			s.Remove(rng.IntN(n))
		}
		var want []int
		for i := s.Next(0); i >= 0 && i < n; i = s.Next(i + 1) {
			want = append(want, i)
		}
		if got := s.members(nil, n); !slices.Equal(got, want) {
			t.Fatalf("members %v, want %v", got, want)
		}
		if got := s.count(n); got != len(want) {
			t.Fatalf("%d members, want %d", got, len(want))
		}
		for k, i := range want {
			if got := s.nth(k, n); got != i {
				t.Fatalf("member %d of %v: %d", k, want, got)
			}
		}
	}
}

func TestDice(t *testing.T) {
	d := dice{newSeeded(3)}
	var count [3]int
	for range 30_000 {
		count[d.below(3)]++
	}
	for i, got := range count {
		if got < 9_700 || got > 10_300 {
			t.Errorf("%d came up %d times", i, got)
		}
	}
	if got := d.below(1); got != 0 {
		t.Errorf("below 1: %d", got)
	}
}
