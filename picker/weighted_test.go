package picker

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
)

func weightedConfig(weights ...int) Config {
	cfg := newConfig("weighted", len(weights))
	for i, w := range weights {
		cfg.Targets[i].Weight = w
	}
	return cfg
}

func counts(n int, picks []int) []int {
	count := make([]int, n)
	for _, i := range picks {
		count[i]++
	}
	return count
}

func TestWeighted(t *testing.T) {
	for _, test := range []struct {
		name    string
		weights []int
		out     []int
		picks   int
		count   []int
		starts  []int
	}{
		{"case 14", []int{3, 1}, nil, 40, []int{30, 10}, []int{0, 0, 1, 0}},
		{"case 16", []int{0, 1}, nil, 40, []int{0, 40}, nil},
		{"case 322", []int{1, 1, 4}, nil, 60, []int{10, 10, 40}, nil},
		{"report 050", []int{1, 1, 2}, nil, 400, []int{100, 100, 200}, nil},
		{"report 056, zero", []int{0, 3, 1}, nil, 40, []int{0, 30, 10}, nil},
		{"report 056, negative", []int{-1, 2}, nil, 40, []int{0, 40}, nil},
		{"report 056, all zero", []int{0, 0, 0}, nil, 3, []int{3, 0, 0}, nil},
		{"report 056, beyond the largest", []int{1_000_000_000, 1}, nil, 100, []int{100, 0}, nil},
		{"one out", []int{3, 1, 2}, []int{0}, 30, []int{0, 10, 20}, []int{2, 1, 2}},
		{"large pool", append(slices.Repeat([]int{1}, 99), 101), nil, 200, append(slices.Repeat([]int{1}, 99), 101), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := mustNew(t, weightedConfig(test.weights...), nil)
			got := turns(b, test.picks, test.out...)
			if count := counts(b.Len(), got); !slices.Equal(count, test.count) {
				t.Errorf("got %v, want %v", count, test.count)
			}
			if starts := got[:len(test.starts)]; !slices.Equal(starts, test.starts) {
				t.Errorf("starts %v, want %v", starts, test.starts)
			}
		})
	}
}

// Case 15.
func TestWeightedLists(t *testing.T) {
	b := mustNew(t, weightedConfig(3, 1), nil)
	var first []int
	for range 8 {
		c := Call{Eligible: all(2)}
		i := b.Pick(&c)
		c.Eligible.Remove(i)
		c.Attempt = 1
		if later := b.Pick(&c); later != 1-i {
			t.Errorf("%d after %d", later, i)
		}
		first = append(first, i)
	}
	if want := []int{0, 0, 1, 0, 0, 0, 1, 0}; !slices.Equal(first, want) {
		t.Errorf("first choices %v, want %v", first, want)
	}
	c := Call{Attempt: 1, Eligible: all(2)} // the highest running value + weight
	if got := b.Pick(&c); got != 0 || c.Why != WhyWeight {
		t.Errorf("a later entry of both: %d (%v)", got, c.Why)
	}
}

// Case 17.
func TestWeightedOneComesBack(t *testing.T) {
	b := mustNew(t, weightedConfig(4, 2, 1), nil)
	got := append(turns(b, 6, 0), turns(b, 1)...)
	if want := []int{1, 2, 1, 1, 2, 1, 0}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Case 232, for requests of any kind, through one balancer.
func TestWeightedOverModels(t *testing.T) {
	rng := rand.New(rand.NewPCG(232, 1))
	for name, want := range map[string][]int{"weighted": {30, 10}, "round_robin": {20, 20}} {
		cfg := weightedConfig(3, 1)
		cfg.Strategy = name
		b := mustNew(t, cfg, nil)
		count := make([]int, 2)
		for k := range 40 {
			c := randomCall(rng, 2)
			c.Attempt, c.Request = 0, &Request{Adapter: "model " + strconv.Itoa(k%3)}
			count[b.Pick(c)]++
		}
		if !slices.Equal(count, want) {
			t.Errorf("%s: %v, want %v", name, count, want)
		}
	}
}

// The shares stay exact over reloads that change the order, and a changed weight counts
// from the next pick.
func TestWeightedOverReload(t *testing.T) {
	rng := rand.New(rand.NewPCG(243, 1))
	weights := map[string]int{"a": 5, "b": 3, "c": 1}
	config := func(ids ...string) Config {
		cfg := configOf("weighted", ids...)
		for i := range cfg.Targets {
			cfg.Targets[i].Weight = weights[cfg.Targets[i].ID]
		}
		return cfg
	}
	ids := []string{"a", "b", "c"}
	b := mustNew(t, config(ids...), nil)
	count := map[string]int{}
	pick := func(picks int) {
		for _, i := range turns(b, picks) {
			count[ids[i]]++
		}
	}
	for k := range 900 {
		if k%7 == 0 {
			rng.Shuffle(3, func(i, k int) { ids[i], ids[k] = ids[k], ids[i] })
			b = mustNew(t, config(ids...), b)
		}
		pick(1)
	}
	if count["a"] != 500 || count["b"] != 300 || count["c"] != 100 {
		t.Errorf("got %v", count)
	}

	clear(count)
	weights["c"] = 8
	b = mustNew(t, config(ids...), b)
	pick(16)
	if count["a"] != 5 || count["b"] != 3 || count["c"] != 8 {
		t.Errorf("after the change: %v", count)
	}

	clear(count)
	pick(3) // none of the running values is 0 now
	ids = []string{"new", "a", "b", "c"}
	weights["new"] = 1
	b = mustNew(t, config(ids...), b)
	if got := b.(*weighted).mu.running[0]; got != 0 {
		t.Errorf("a new target starts at %d", got)
	}
	pick(14)
	if count["c"] != 8 || count["a"] != 5 || count["b"] != 3 || count["new"] != 1 {
		t.Errorf("with a new target: %v", count)
	}

	b = mustNew(t, newConfig("round_robin", 3), b)
	b = mustNew(t, config("a", "b", "c"), b)
	if got := b.(*weighted).mu.running; !slices.Equal(got, []int64{0, 0, 0}) {
		t.Errorf("after another strategy: %v", got)
	}
}

// Whatever goes on, the values stay far from overflow.
func TestWeightedStaysBounded(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 1))
	b := mustNew(t, weightedConfig(1_000_000, 1, 999_999, 500_000, math.MaxInt, math.MinInt), nil).(*weighted)
	c := Call{}
	for range 200_000 {
		c.Eligible = Set{rng.Uint64()}
		b.Pick(&c)
	}
	for i, v := range b.mu.running {
		if v < -1e8 || v > 1e8 {
			t.Errorf("target %d is at %d", i, v)
		}
	}
	b.mu.running[0], b.mu.running[1] = maxRunning, -maxRunning
	for range 1000 {
		c.Eligible = only(6, rng.IntN(2))
		c.Eligible.Add(2)
		b.Pick(&c)
	}
	for i, v := range b.mu.running {
		if v < -maxRunning || v > maxRunning {
			t.Errorf("target %d is at %d", i, v)
		}
	}
}

// Picks from many goroutines fall as those from one.
func TestWeightedConcurrent(t *testing.T) {
	b := mustNew(t, weightedConfig(5, 1, 2), nil)
	var mu sync.Mutex
	total := make([]int, 3)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			count := counts(3, turns(b, 1000))
			mu.Lock()
			defer mu.Unlock()
			for i, k := range count {
				total[i] += k
			}
		})
	}
	wg.Wait()
	if !slices.Equal(total, []int{5000, 1000, 2000}) {
		t.Errorf("got %v", total)
	}
}
