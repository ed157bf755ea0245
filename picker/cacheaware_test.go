package picker

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

const prompt = "system: you are a helpful assistant of the harbour office\nuser: when is high tide\n"

func TestCacheAwarePick(t *testing.T) {
	for _, test := range []struct {
		name  string
		warm  int // -1 = nobody
		loads []int64
		out   []int
		n     int
		want  int
		why   Why
	}{
		{"case 37, idle", 0, []int64{0, 0, 0}, nil, 3, 0, WhyPrefix},
		{"case 37, at the margin", 0, []int64{2, 0, 0}, nil, 3, 0, WhyPrefix},
		{"case 37, above the margin", 0, []int64{3, 1, 0}, nil, 3, 2, WhyLeastLoad},
		{"case 37, below the ratio", 0, []int64{8, 6, 6}, nil, 3, 0, WhyPrefix},
		{"case 37, load unknown", 0, nil, nil, 3, 0, WhyPrefix},
		{"case 40", 1, []int64{10, 3, 0}, nil, 3, 2, WhyLeastLoad},
		{"case 41, the idle one is out", 1, []int64{10, 3, 0}, []int{2}, 3, 1, WhyPrefix},
		{"case 41, overloaded", 1, []int64{1, 9, 0}, []int{2}, 3, 0, WhyLeastLoad},
		{"case 42", -1, []int64{4, 3, 0}, []int{2}, 3, 1, WhyLeastLoad},
		{"case 43", 1, []int64{0, 0, 0}, []int{1}, 3, 0, WhyLeastLoad},
		{"report 053, 2 0", 0, []int64{2, 0}, nil, 2, 0, WhyPrefix},
		{"report 053, 3 0", 0, []int64{3, 0}, nil, 2, 1, WhyLeastLoad},
		{"report 053, 4 2", 0, []int64{4, 2}, nil, 2, 0, WhyPrefix},
		{"report 053, 5 3", 0, []int64{5, 3}, nil, 2, 0, WhyPrefix},
		{"report 053, 6 3", 0, []int64{6, 3}, nil, 2, 1, WhyLeastLoad},
		{"report 053, 9 6", 0, []int64{9, 6}, nil, 2, 0, WhyPrefix},
		{"report 053, 10 6", 0, []int64{10, 6}, nil, 2, 1, WhyLeastLoad},
		{"largest loads", 0, []int64{1<<63 - 1, 0}, nil, 2, 1, WhyLeastLoad},
		{"largest loads, all", 0, []int64{1<<63 - 1, 1<<63 - 1}, nil, 2, 0, WhyPrefix},
		{"only one left", -1, []int64{4, 3}, []int{1}, 2, 0, WhyOnlyOne},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := mustNew(t, newConfig("cache_aware", test.n), nil)
			if test.warm >= 0 {
				warm(b, test.warm, prompt)
			}
			c := Call{Request: &Request{Text: []byte(prompt)}, Loads: test.loads, Eligible: all(test.n, test.out...)}
			if got := b.Pick(&c); got != test.want || c.Why != test.why {
				t.Errorf("got %d (%v), want %d (%v)", got, c.Why, test.want, test.why)
			}
		})
	}
}

// Case 36.
func TestCacheAwareSamePrompt(t *testing.T) {
	b := mustNew(t, newConfig("cache_aware", 3), nil)
	first := serve(b, prompt, make([]int64, 3))
	if again := choose(b, prompt, make([]int64, 3), all(3)); again != first {
		t.Errorf("first %d, then %d", first, again)
	}
}

// Case 38.
func TestCacheAwareBurst(t *testing.T) {
	b := mustNew(t, newConfig("cache_aware", 3), nil)
	system := "system: " + strings.Repeat("you know every rule of the harbour. ", 200)
	loads := make([]int64, 3)
	for k := range 24 {
		loads[serve(b, fmt.Sprintf("%suser: question %d\n", system, k), loads)]++
	}
	for i, got := range loads {
		if got < 6 || got > 10 {
			t.Errorf("target %d got %d of 24", i, got)
		}
	}
}

// Case 39, wherever the load put the first turn.
func TestCacheAwareConversation(t *testing.T) {
	b := mustNew(t, newConfig("cache_aware", 3), nil)
	text := prompt
	first := serve(b, text, []int64{1, 1, 0})
	for range 5 {
		text += "assistant: hello\nuser: go on\n"
		if got := serve(b, text, []int64{0, 0, 0}); got != first {
			t.Errorf("turn of %d bytes on %d, the first was on %d", len(text), got, first)
		}
	}
}

// Cases 44 and 45, around the words of a set.
func TestCacheAwareWordLimits(t *testing.T) {
	for _, n := range []int{63, 64, 65, 130} {
		loads := make([]int64, n)
		for i := range loads {
			loads[i] = 9
		}
		loads[n-2], loads[n-1] = 1, 0
		b := mustNew(t, newConfig("cache_aware", n), nil)
		if got := choose(b, prompt, loads, all(n, n-1)); got != n-2 {
			t.Errorf("case 44, n=%d: got %d", n, got)
		}
	}
	for _, n := range []int{1, 63, 64, 65, 130} {
		loads := make([]int64, n)
		for i := range n - 1 {
			loads[i] = 9
		}
		b := mustNew(t, newConfig("cache_aware", n), nil)
		if got := choose(b, prompt, loads, only(n, n-1)); got != n-1 {
			t.Errorf("case 45, n=%d, only the last: got %d", n, got)
		}
		c := Call{Request: &Request{Text: []byte(prompt)}, Loads: loads, Eligible: NewSet(n)}
		if got := b.Pick(&c); got != -1 {
			t.Errorf("case 45, n=%d, none: got %d", n, got)
		}
		c.Eligible = all(n) // failing open
		if got := b.Pick(&c); got != n-1 {
			t.Errorf("case 45, n=%d, failing open: got %d", n, got)
		}
	}
}

// Case 46, for every strategy.
func TestFailOpenUntrained(t *testing.T) {
	eachStrategy(t, func(t *testing.T, p pools) {
		b := mustNew(t, p.config(3), nil)
		c := Call{Eligible: NewSet(3)}
		if got := b.Pick(&c); got != -1 {
			t.Errorf("none eligible: %d", got)
		}
		c.Eligible = all(3)
		if got := b.Pick(&c); got < 0 || got > 2 {
			t.Errorf("failing open: %d", got)
		}
	})
}

func TestCacheAwareThreshold(t *testing.T) {
	for _, test := range []struct {
		name      string
		threshold float64
		known     int // bytes of 100
		want      Why
	}{
		{"case 48, half", 0.5, 50, WhyPrefix},
		{"case 48, one byte less", 0.5, 49, WhyLeastLoad},
		{"a threshold that is no binary fraction", 0.7, 70, WhyPrefix},
		{"and one byte less", 0.7, 69, WhyLeastLoad},
		{"whole text asked for", 1, 100, WhyPrefix},
		{"whole text asked for, one byte unknown", 1, 99, WhyLeastLoad},
		{"any part asked for", 0, 1, WhyPrefix},
		{"any part asked for, none known", 0, 0, WhyLeastLoad},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := newConfig("cache_aware", 2)
			cfg.Settings.PrefixThreshold = test.threshold
			b := mustNew(t, cfg, nil)
			warm(b, 1, strings.Repeat("a", test.known)+"b")
			c := Call{Request: &Request{Text: []byte(strings.Repeat("a", 100))}, Loads: []int64{0, 1}, Eligible: all(2)}
			want := 0
			if test.want == WhyPrefix {
				want = 1
			}
			if got := b.Pick(&c); got != want || c.Why != test.want {
				t.Errorf("got %d (%v)", got, c.Why)
			}
			if got, ok := c.PrefixMatch(1); got != test.known || !ok {
				t.Errorf("match %d, %v", got, ok)
			}
		})
	}
}

// The longest match wins, the first in list order among equal ones.
func TestCacheAwareLongest(t *testing.T) {
	b := mustNew(t, newConfig("cache_aware", 4), nil)
	warm(b, 1, prompt[:50])
	warm(b, 2, prompt[:60])
	warm(b, 3, prompt[:60])
	if got := choose(b, prompt, make([]int64, 4), all(4)); got != 2 {
		t.Errorf("got %d", got)
	}
	if got := choose(b, prompt, make([]int64, 4), all(4, 2)); got != 3 {
		t.Errorf("without 2: got %d", got)
	}
	if got := choose(b, prompt, []int64{0, 0, 3, 0}, all(4)); got != 0 {
		t.Errorf("2 overloaded: got %d, want the least loaded with the fewest prompts", got)
	}
}

// Case 49, and what follows once every target had a prompt.
func TestCacheAwareLoadUnknown(t *testing.T) {
	b := mustNew(t, newConfig("cache_aware", 3), nil)
	for k, text := range []string{"one", "two", "three", "four", "five", "six"} {
		if got := serve(b, text, nil); got != k%3 {
			t.Errorf("prompt %d: got %d", k, got)
		}
	}
	warm(b, 0, "seven")
	warm(b, 1, "eight")
	c := Call{Request: &Request{Text: []byte("nine")}, Eligible: all(3)}
	if got := b.Pick(&c); got != 2 || c.Why != WhyLeastLoad {
		t.Errorf("got %d (%v), want the one with the fewest prompts", got, c.Why)
	}
}

// Requests without a text turn, and count as nobody's prompts.
func TestCacheAwareWithoutText(t *testing.T) {
	b := mustNew(t, newConfig("cache_aware", 3), nil)
	for k := range 6 {
		c := Call{Request: &Request{}, Eligible: all(3)}
		if got := b.Pick(&c); got != k%3 || c.Why != WhyRotation {
			t.Errorf("pick %d: %d (%v)", k, got, c.Why)
		}
		b.Observe(k%3, &c)
		if _, ok := c.PrefixMatch(k % 3); ok {
			t.Error("a match without a text")
		}
	}
	if got := choose(b, "", []int64{3, 1, 2}, all(3)); got != 1 {
		t.Errorf("with loads: got %d", got)
	}
}

// Case 417.
func TestCacheAwareIdleColdPrompts(t *testing.T) {
	rng := rand.New(rand.NewPCG(417, 1))
	b := mustNew(t, newConfig("cache_aware", 3), nil)
	var count [3]int
	for range 30 {
		count[serve(b, "user: "+wordy(rng, 300), []int64{0, 0, 0})]++
	}
	if count != [3]int{10, 10, 10} {
		t.Errorf("got %v", count)
	}
}

// Report 047: a prefix that everybody knows, and a burst that holds its slots.
func TestCacheAwareBurstOnKnownPrefix(t *testing.T) {
	b := mustNew(t, newConfig("cache_aware", 4), nil)
	system := "system: " + strings.Repeat("rule ", 800)
	for i := range 4 {
		warm(b, i, system)
	}
	loads := make([]int64, 4)
	for k := range 64 {
		loads[serve(b, fmt.Sprint(system, "user: ", k), loads)]++
	}
	for i, got := range loads {
		if got < 10 || got > 22 {
			t.Errorf("target %d got %d of 64", i, got)
		}
	}
}

// Report 052: cold prompts follow the load, not the size of the memory.
func TestCacheAwareColdPromptsFollowLoad(t *testing.T) {
	rng := rand.New(rand.NewPCG(52, 1))
	b := mustNew(t, newConfig("cache_aware", 2), nil)
	loads := []int64{20, 0}
	for range 20 {
		warm(b, 0, wordy(rng, 500))
	}
	system := wordy(rng, 16<<10)
	for range 500 {
		warm(b, 1, system)
	}
	for k := range 40 {
		i := serve(b, wordy(rng, 500), loads)
		loads[i]++
		if k < 18 && i != 1 {
			t.Errorf("prompt %d went to the busy target", k)
		}
	}
	if d := loads[0] - loads[1]; d < -2 || d > 2 {
		t.Errorf("not balanced in the end: %v", loads)
	}
}
