package picker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// matches tells by id what a balancer knows of a text.
func matches(b Balancer, ids []string, text string) map[string]int {
	c := Call{Request: &Request{Text: []byte(text)}}
	b.Prepare(&c)
	known := map[string]int{}
	for i, id := range ids {
		if m, _ := c.PrefixMatch(i); m > 0 {
			known[id] = m
		}
	}
	return known
}

// Case 243 as far as the picker goes: what was learned stays with its id.
func TestPrefixesOverReload(t *testing.T) {
	ids := []string{"a", "b", "c"}
	for _, next := range [][]string{
		{"a", "b", "c"},
		{"c", "a", "b"},
		{"x", "a", "b", "c"},
		{"a", "c"},
		{"y", "c", "x", "b"},
		{"x"},
		{},
	} {
		t.Run(fmt.Sprint(next), func(t *testing.T) {
			b := mustNew(t, configOf("cache_aware", ids...), nil)
			for i, id := range ids {
				warm(b, i, "text of "+id)
			}
			b = mustNew(t, configOf("cache_aware", next...), b)
			for range 2 { // before the new one is first used, and after
				for _, id := range ids {
					known := matches(b, next, "text of "+id)
					for _, other := range next {
						want := len("text of ")
						if other == id {
							want++
						}
						if !slices.Contains(ids, other) {
							want = 0
						}
						if known[other] != want {
							t.Errorf("text of %s: %d bytes known on %s, want %d", id, known[other], other, want)
						}
					}
				}
				if len(next) > 0 {
					warm(b, 0, "-")
				}
			}
		})
	}
}

// Counters of observed prompts go with the ids as well.
func TestPromptCountsOverReload(t *testing.T) {
	b := mustNew(t, configOf("cache_aware", "a", "b", "c"), nil)
	for range 3 {
		warm(b, 0, "x")
	}
	warm(b, 1, "x")
	for range 2 {
		warm(b, 2, "x")
	}
	b = mustNew(t, configOf("cache_aware", "c", "b", "a"), b)
	if got := choose(b, "cold", []int64{0, 0, 0}, all(3)); got != 1 {
		t.Errorf("got %d, want b with the fewest prompts", got)
	}
	if got := choose(b, "cold", []int64{0, 0, 0}, all(3, 1)); got != 0 {
		t.Errorf("got %d, want c", got)
	}
}

// A target taken out starts afresh when it returns, whether or not the balancer
// without it was ever used.
func TestPrefixesDoNotComeBack(t *testing.T) {
	for _, used := range []bool{false, true} {
		b := mustNew(t, configOf("cache_aware", "a", "b"), nil)
		warm(b, 0, "text")
		warm(b, 1, "text")
		b = mustNew(t, configOf("cache_aware", "a"), b)
		if used {
			warm(b, 0, "other")
		}
		b = mustNew(t, configOf("cache_aware", "a", "b"), b)
		for range 2 {
			if known := matches(b, []string{"a", "b"}, "text"); known["a"] != 4 || known["b"] != 0 {
				t.Errorf("used %v: %v", used, known)
			}
			warm(b, 0, "more")
		}
		warm(b, 1, "te")
		if known := matches(b, []string{"a", "b"}, "text"); known["b"] != 2 {
			t.Errorf("used %v: the new b knows %d", used, known["b"])
		}
	}
}

// The history belongs to the pool, so it stays while strategies that use it follow
// each other; one that has no use for it lets it go.
func TestPrefixesOverChangeOfStrategy(t *testing.T) {
	ids := []string{"a", "b"}
	b := mustNew(t, configOf("round_robin", ids...), nil)
	turns(b, 1)
	b = mustNew(t, configOf("cache_aware", ids...), b)
	if known := matches(b, ids, "text"); len(known) != 0 {
		t.Errorf("a new history knows %v", known)
	}
	warm(b, 1, "text")
	settings := configOf("cache_aware", ids...)
	settings.Settings.PrefixThreshold = 0.9
	b = mustNew(t, settings, b)
	if known := matches(b, ids, "text"); known["b"] != 4 {
		t.Errorf("after other settings: %v", known)
	}
	b = mustNew(t, configOf("round_robin", ids...), b)
	b = mustNew(t, configOf("cache_aware", ids...), b)
	if known := matches(b, ids, "text"); len(known) != 0 {
		t.Errorf("after a strategy without history: %v", known)
	}
}

// Case 245, and every other way from one strategy that remembers texts to another.
func TestPrefixesGoFromStrategyToStrategy(t *testing.T) {
	names := slices.DeleteFunc(Names(), func(name string) bool { return !RemembersTexts(name) })
	if !slices.Equal(names, []string{"cache_aware", "pipeline", "lora_aware"}) {
		t.Fatalf("texts are remembered by %v", names)
	}
	for _, from := range names {
		for _, to := range names {
			b := mustNew(t, configOf(from, "a", "b", "c"), nil)
			warm(b, 1, prompt)
			next := mustNew(t, configOf(to, "c", "b"), b)
			if known := matches(next, []string{"c", "b"}, prompt); known["b"] != len(prompt) || len(known) != 1 {
				t.Errorf("%s to %s: %v", from, to, known)
			}
			if got := choose(next, prompt, []int64{0, 0}, all(2)); got != 1 {
				t.Errorf("%s to %s: chosen is %d", from, to, got)
			}
		}
	}
	if RemembersTexts("no strategy") {
		t.Error("texts are remembered by no strategy")
	}
}

// Requests decided before a reload are dispatched after it.
func TestFormerBalancerStillLearns(t *testing.T) {
	former := mustNew(t, configOf("cache_aware", "a", "b"), nil)
	warm(former, 0, "early")
	b := mustNew(t, configOf("cache_aware", "c", "b"), former)
	warm(b, 0, "new")
	warm(former, 1, "late")
	warm(former, 0, "late")
	if known := matches(b, []string{"c", "b"}, "late"); known["b"] != 4 || len(known) != 1 {
		t.Errorf("known of the late text: %v", known)
	}
	if got := matches(former, []string{"a", "b"}, "early"); got["a"] != 0 {
		t.Errorf("a left and still knows %d bytes", got["a"])
	}
}

// A configuration that is refused after its balancers were built changed nothing.
func TestSuccessorThatIsNeverUsed(t *testing.T) {
	b := mustNew(t, configOf("cache_aware", "a", "b"), nil)
	warm(b, 0, "text")
	small := configOf("cache_aware", "b")
	small.Settings.PrefixMaxBytes = 1
	refused := mustNew(t, small, b)
	refused.Prepare(&Call{Request: &Request{Text: []byte("text")}})
	warm(b, 1, "another text")
	known := matches(b, []string{"a", "b"}, "text")
	if known["a"] != 4 || matches(b, []string{"a", "b"}, "another")["b"] != 7 {
		t.Errorf("known %v", known)
	}
	next := mustNew(t, configOf("cache_aware", "b", "a"), b)
	warm(next, 0, "x")
	if known := matches(next, []string{"b", "a"}, "text"); known["a"] != 4 {
		t.Errorf("the next one knows %v", known)
	}
}

// Reloads while requests run, for the race detector, and at the end everything that
// was learned stands under its id.
func TestReloadUnderLoad(t *testing.T) {
	eachStrategy(t, func(t *testing.T, p pools) {
		ids := []string{"a", "b", "c", "d", "e", "f"}
		type pool struct {
			Balancer
			ids []string
		}
		var mu sync.Mutex
		current := pool{mustNew(t, p.of(ids...), nil), ids}
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(77, uint64(w)))
				for range 2000 {
					mu.Lock()
					b := current
					mu.Unlock()
					i := rng.IntN(len(b.ids))
					c := Call{
						Request: &Request{
							Text:    fmt.Appendf(nil, "text of %s %d", b.ids[i], rng.IntN(1000)),
							Session: "session of " + b.ids[i], Adapter: "adapter of " + b.ids[i],
						},
						Eligible: all(len(b.ids)),
					}
					if got := b.Pick(&c); got < 0 || got >= len(b.ids) {
						t.Errorf("got %d", got)
					}
					b.Observe(i, &c)
					if rng.IntN(4) == 0 {
						b.Withdraw(i, &c)
					}
				}
			})
		}
		rng := rand.New(rand.NewPCG(77, 77))
		for range 200 {
			next := slices.Clone(ids)
			rng.Shuffle(len(next), func(i, k int) { next[i], next[k] = next[k], next[i] })
			next = next[:2+rng.IntN(5)]
			b := mustNew(t, p.of(next...), current.Balancer)
			mu.Lock()
			current = pool{b, next}
			mu.Unlock()
		}
		wg.Wait()
		for i, id := range current.ids {
			for _, other := range ids {
				c := Call{Request: &Request{
					Text: []byte("text of " + other + " 1"), Session: "session of " + other, Adapter: "adapter of " + other,
				}}
				current.Prepare(&c)
				if m, _ := c.PrefixMatch(i); m > len("text of ") && other != id {
					t.Errorf("%s knows %d bytes of a text of %s", id, m, other)
				}
				if p.name == "pipeline" && c.scratch.pinned == i && other != id {
					t.Errorf("%s has the session of %s", id, other)
				}
				if c.scratch.holders.Has(i) && other != id {
					t.Errorf("%s has the adapter of %s", id, other)
				}
			}
		}
		if left := current.Balancer.(testator).estate(); left.prefixes != nil {
			checkTree(t, left.prefixes.history.(*tree))
		}
	})
}
