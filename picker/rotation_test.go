package picker

import (
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// turns makes first choices with everybody eligible but those out.
func turns(b Balancer, count int, out ...int) []int {
	var answers []int
	for range count {
		c := Call{Eligible: all(b.Len(), out...)}
		answers = append(answers, b.Pick(&c))
	}
	return answers
}

func TestRoundRobin(t *testing.T) {
	for _, test := range []struct {
		name    string
		targets int
		first   int // picks before anything is out
		out     []int
		want    []int // all picks
	}{
		{"case 10", 3, 4, nil, []int{0, 1, 2, 0}},
		{"case 11", 3, 0, []int{1}, []int{0, 2, 0, 2}},
		{"case 12", 4, 2, []int{2}, []int{0, 1, 3, 0, 1, 3}},
		{"first pick ever takes the first eligible", 3, 0, []int{0, 1}, []int{2, 2}},
		{"large pool, wrapping", 130, 129, []int{0, 1, 129}, append(count(129), 2, 3)},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := mustNew(t, newConfig("round_robin", test.targets), nil)
			got := turns(b, test.first)
			got = append(got, turns(b, len(test.want)-test.first, test.out...)...)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func count(n int) []int {
	var is []int
	for i := range n {
		is = append(is, i)
	}
	return is
}

// Case 13.
func TestRoundRobinLists(t *testing.T) {
	b := mustNew(t, newConfig("round_robin", 3), nil)
	want := [][]int{{0, 1, 2}, {1, 2, 0}, {2, 0, 1}, {0, 1, 2}}
	for k, want := range want {
		c := Call{Eligible: all(3)}
		var list []int
		for c.Attempt = range 3 {
			i := b.Pick(&c)
			c.Eligible.Remove(i)
			list = append(list, i)
		}
		if !slices.Equal(list, want) {
			t.Errorf("decision %d: %v, want %v", k, list, want)
		}
	}
}

// Report 050: the turns of one pool, whoever is asked for.
func TestRoundRobinIsFair(t *testing.T) {
	b := mustNew(t, newConfig("round_robin", 3), nil)
	if got := counts(3, turns(b, 399)); !slices.Equal(got, []int{133, 133, 133}) {
		t.Errorf("got %v", got)
	}
}

// Any m successive picks take each of m targets once, whoever makes them.
func TestRoundRobinConcurrent(t *testing.T) {
	for _, n := range []int{5, 100} {
		b := mustNew(t, newConfig("round_robin", n), nil)
		const workers, rounds = 8, 100
		counts := make([][]int, workers)
		var wg sync.WaitGroup
		for w := range workers {
			counts[w] = make([]int, n)
			wg.Go(func() {
				c := Call{Eligible: all(n)}
				for range n * rounds / workers * workers / workers {
					counts[w][b.Pick(&c)]++
				}
			})
		}
		wg.Wait()
		total := make([]int, n)
		picks := 0
		for _, count := range counts {
			for i, k := range count {
				total[i] += k
				picks += k
			}
		}
		if slices.Max(total)-slices.Min(total) > 1 {
			t.Errorf("n=%d: %d picks fell %v", n, picks, total)
		}
	}
}

func TestWhyRotation(t *testing.T) {
	for _, n := range []int{3, 100} {
		b := mustNew(t, newConfig("round_robin", n), nil)
		for _, test := range []struct {
			eligible Set
			want     Why
		}{{all(n), WhyRotation}, {only(n, n-1), WhyOnlyOne}, {all(n), WhyRotation}, {NewSet(n), WhyNone}} {
			c := Call{Eligible: test.eligible}
			b.Pick(&c)
			if c.Why != test.want {
				t.Errorf("n=%d, %v: %v, want %v", n, test.eligible, c.Why, test.want)
			}
		}
	}
}

// Reloads: what comes next, by id.
func TestRotationOverReload(t *testing.T) {
	for _, test := range []struct {
		name    string
		picks   int // of a, b, c, d
		reloads [][]string
		want    string
	}{
		{"nothing changed", 2, [][]string{{"a", "b", "c", "d"}}, "c"},
		{"reordered", 2, [][]string{{"d", "b", "a", "c"}}, "a"},
		{"inserted in front", 2, [][]string{{"x", "a", "b", "c", "d"}}, "c"},
		{"inserted behind the last one chosen", 2, [][]string{{"a", "b", "x", "c", "d"}}, "x"},
		{"another one removed", 2, [][]string{{"b", "c", "d"}}, "c"},
		{"last chosen removed", 2, [][]string{{"a", "c", "d"}}, "c"},
		{"last chosen and the next removed", 2, [][]string{{"a", "d"}}, "d"},
		{"last chosen and all following removed", 2, [][]string{{"x", "a"}}, "x"},
		{"last chosen removed, following one moved to the front", 2, [][]string{{"c", "a", "d"}}, "c"},
		{"last one of the list chosen and removed", 4, [][]string{{"a", "b", "c"}}, "a"},
		{"all replaced", 2, [][]string{{"x", "y"}}, "x"},
		{"before the first pick", 0, [][]string{{"x", "a", "b"}}, "x"},
		{"two reloads without a pick", 2, [][]string{{"a", "c", "d"}, {"d", "a", "c"}}, "c"},
		{"two reloads, the one to go on with removed too", 2, [][]string{{"a", "c", "d"}, {"a", "d"}}, "d"},
		{"two reloads, its place is the first", 2, [][]string{{"c", "d"}, {"x", "c", "d"}}, "c"},
		{"removed and back", 2, [][]string{{"a", "c", "d"}, {"a", "b", "c", "d"}}, "c"},
		{"emptied", 2, [][]string{{}, {"a", "b"}}, "a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, strategy := range []string{"round_robin", "cache_aware"} { // the latter without text and load
				b := mustNew(t, configOf(strategy, "a", "b", "c", "d"), nil)
				turns(b, test.picks)
				var ids []string
				for _, ids = range test.reloads {
					b = mustNew(t, configOf(strategy, ids...), b)
				}
				if got := ids[turns(b, 1)[0]]; got != test.want {
					t.Errorf("%s goes on with %q, want %q", strategy, got, test.want)
				}
			}
		})
	}
}

// A cursor belongs to its strategy.
func TestRotationStartsAfreshWithAnotherStrategy(t *testing.T) {
	b := mustNew(t, newConfig("round_robin", 3), nil)
	turns(b, 1)
	b = mustNew(t, newConfig("cache_aware", 3), b)
	if got := turns(b, 2); !slices.Equal(got, []int{0, 1}) {
		t.Errorf("cache_aware after round_robin: %v", got)
	}
	b = mustNew(t, newConfig("round_robin", 3), b)
	if got := turns(b, 2); !slices.Equal(got, []int{0, 1}) {
		t.Errorf("round_robin after cache_aware: %v", got)
	}
}

// A successor that never comes into force changes nothing, and takes nothing away.
func TestRotationOfRefusedSuccessor(t *testing.T) {
	b := mustNew(t, newConfig("round_robin", 3), nil)
	turns(b, 1)
	mustNew(t, configOf("round_robin", "t0"), b)
	if got := turns(b, 3); !slices.Equal(got, []int{1, 2, 0}) {
		t.Errorf("goes on with %v", got)
	}
}
