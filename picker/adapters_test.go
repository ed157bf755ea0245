package picker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
)

// holders tells who holds an adapter.
func holders(b Balancer, adapter string) []int {
	c := Call{Request: &Request{Adapter: adapter}}
	b.Prepare(&c)
	return c.scratch.holders.members(nil, b.Len())
}

func adapt(b Balancer, i int, adapter string) *Call {
	c := &Call{Request: &Request{Adapter: adapter}}
	b.Observe(i, c)
	return c
}

func loraOf(t *testing.T, capacity int, ids ...string) Balancer {
	cfg := configOf("lora_aware", ids...)
	cfg.Settings.LoRACapacity = capacity
	return mustNew(t, cfg, nil)
}

// Case 81.
func TestAdapterHolders(t *testing.T) {
	b := loraOf(t, 8, "a", "b", "c")
	adapt(b, 1, "summarizer")
	adapt(b, 2, "")
	for adapter, want := range map[string][]int{"summarizer": {1}, "translator": nil, "": nil} {
		if got := holders(b, adapter); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", adapter, got, want)
		}
	}
	if set := b.(*scored).adapters.sets[2]; set.names.Load() != nil {
		t.Error("an attempt without an adapter was recorded")
	}
}

// Case 82.
func TestAdapterCapacity(t *testing.T) {
	for _, test := range []struct {
		capacity int
		adapters string
		want     string
	}{
		{2, "abc", "bc"},
		{2, "abac", "ac"},
		{2, "aaa", "a"},
		{1, "ab", "b"},
		{0, "ab", "b"},
		{3, "abcabd", "abd"},
		{8, "abcdefgh", "abcdefgh"},
	} {
		b := loraOf(t, test.capacity, "t")
		for _, name := range test.adapters {
			adapt(b, 0, string(name))
		}
		got := ""
		for name := 'a'; name <= 'h'; name++ {
			if len(holders(b, string(name))) > 0 {
				got += string(name)
			}
		}
		if got != test.want {
			t.Errorf("capacity %d, %s: holds %s, want %s", test.capacity, test.adapters, got, test.want)
		}
	}
}

// Scoring does not change the order.
func TestAskingForAdaptersRefreshesNothing(t *testing.T) {
	b := loraOf(t, 2, "t")
	adapt(b, 0, "a")
	adapt(b, 0, "b")
	for range 5 {
		holders(b, "a")
	}
	adapt(b, 0, "c")
	if len(holders(b, "a")) != 0 || len(holders(b, "b")) != 1 {
		t.Error("a was kept instead of b")
	}
}

// Cases 98 and 99, report 114.
func TestWithdrawnAdapters(t *testing.T) {
	b := loraOf(t, 8, "a", "b")
	c := adapt(b, 0, "new") // case 98: connect error on a, b serves
	b.Withdraw(0, c)
	b.Observe(1, c)
	if got := holders(b, "new"); !slices.Equal(got, []int{1}) {
		t.Errorf("case 98: %v", got)
	}
	b.Withdraw(0, c)
	if got := holders(b, "new"); !slices.Equal(got, []int{1}) {
		t.Errorf("withdrawn twice: %v", got)
	}

	adapt(b, 0, "old")
	c = adapt(b, 0, "old")
	b.Withdraw(0, c)
	if got := holders(b, "old"); !slices.Equal(got, []int{0}) {
		t.Errorf("case 99: %v", got)
	}

	c = adapt(b, 0, "shared")
	adapt(b, 0, "shared")
	b.Withdraw(0, c)
	if got := holders(b, "shared"); !slices.Equal(got, []int{0}) {
		t.Errorf("recorded by another since: %v", got)
	}

	c = adapt(b, 0, "gone")
	for k := range 8 {
		adapt(b, 0, fmt.Sprint("other ", k))
	}
	adapt(b, 0, "gone")
	b.Withdraw(0, c)
	if got := holders(b, "gone"); !slices.Equal(got, []int{0}) {
		t.Errorf("pushed out and recorded again: %v", got)
	}
	b.Withdraw(1, &Call{})
}

// What was withdrawn leaves a free place, and pushes nobody out.
func TestWithdrawnAdapterLeavesRoom(t *testing.T) {
	b := loraOf(t, 2, "t")
	adapt(b, 0, "a")
	c := adapt(b, 0, "b")
	b.Withdraw(0, c)
	adapt(b, 0, "c")
	if len(holders(b, "a")) != 1 || len(holders(b, "b")) != 0 || len(holders(b, "c")) != 1 {
		t.Error("not a and c")
	}
}

// Report 111: learned from traffic, and not forgotten in silence.
func TestAdapterAfterSilence(t *testing.T) {
	b := loraOf(t, 8, "A", "B", "C")
	first := Call{Request: &lora, Now: clock(0), Loads: []int64{1, 0, 1}, Eligible: all(3)}
	home := b.Pick(&first)
	b.Observe(home, &first)
	for k := range 10 {
		c := Call{Request: &lora, Now: clock(60 + k), Loads: []int64{0, 0, 0}, Eligible: all(3)}
		if got := b.Pick(&c); got != home {
			t.Errorf("call %d on %d", k, got)
		}
		b.Observe(home, &c)
	}
}

// Report 118: names are opaque.
func TestAdapterNames(t *testing.T) {
	b := loraOf(t, 8, "t", "u")
	names := []string{"a,b", "org/base:v2", "ü-lora", strings.Repeat("n", 500), "..", "a", " "}
	for k, name := range names {
		adapt(b, k%2, name)
	}
	for k, name := range names {
		if got := holders(b, name); !slices.Equal(got, []int{k % 2}) {
			t.Errorf("%q: %v", name, got)
		}
	}
	if got := holders(b, "b"); got != nil {
		t.Errorf("a part of a name: %v", got)
	}
}

// A member with a model of its own never holds one: case 149 as far as the picker goes.
func TestAdapterOfOwnModel(t *testing.T) {
	cfg := configOf("lora_aware", "own", "passthrough")
	cfg.Targets[0].OwnModel = true
	b := mustNew(t, cfg, nil)
	adapt(b, 0, "x")
	adapt(b, 1, "x")
	if got := holders(b, "x"); !slices.Equal(got, []int{1}) {
		t.Errorf("got %v", got)
	}
	before := loraOf(t, 8, "own", "passthrough")
	adapt(before, 0, "x")
	if got := holders(mustNew(t, cfg, before), "x"); got != nil {
		t.Errorf("one that got its own model: %v", got)
	}
}

// Case 243 for adapters, and a capacity that changes with the latest balancer in use.
func TestAdaptersOverReload(t *testing.T) {
	config := func(capacity int, ids ...string) Config {
		cfg := configOf("lora_aware", ids...)
		cfg.Settings.LoRACapacity = capacity
		return cfg
	}
	b := mustNew(t, config(4, "a", "b", "c"), nil)
	for i := range 3 {
		for _, name := range []string{"1", "2", "3", "4"} {
			adapt(b, i, fmt.Sprint("abc"[i:i+1], name))
		}
	}
	former := b
	b = mustNew(t, config(2, "c", "new", "a"), b)
	for adapter, want := range map[string][]int{"a1": {2}, "a4": {2}, "b4": nil, "c1": {0}} {
		if got := holders(b, adapter); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", adapter, got, want)
		}
	}
	adapt(b, 2, "a5") // room for two
	for adapter, want := range map[string][]int{"a1": nil, "a3": nil, "a4": {2}, "a5": {2}, "c1": {0}} {
		if got := holders(b, adapter); !slices.Equal(got, want) {
			t.Errorf("after the first use, %s: %v, want %v", adapter, got, want)
		}
	}
	adapt(former, 0, "late") // the former one does not make room again
	for adapter, want := range map[string][]int{"a4": nil, "a5": {2}, "late": {2}} {
		if got := holders(b, adapter); !slices.Equal(got, want) {
			t.Errorf("after a late attempt, %s: %v, want %v", adapter, got, want)
		}
	}
	b = mustNew(t, config(3, "a", "b"), b)
	adapt(b, 0, "a6")
	for adapter, want := range map[string][]int{"a5": {0}, "late": {0}, "a6": {0}, "b4": nil} {
		if got := holders(b, adapter); !slices.Equal(got, want) {
			t.Errorf("with room for three, %s: %v, want %v", adapter, got, want)
		}
	}
	b = mustNew(t, configOf("pipeline", "a", "b"), b)
	b = mustNew(t, config(3, "a", "b"), b)
	if got := holders(b, "a6"); got != nil {
		t.Errorf("after a strategy without use for them: %v", got)
	}
}

// Readers never see a name that was not there, nor miss one that stays.
func TestAdaptersConcurrent(t *testing.T) {
	b := loraOf(t, 4, "t")
	adapt(b, 0, "stays")
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(81, uint64(w)))
			for range 5000 {
				adapt(b, 0, "stays")
				c := adapt(b, 0, "other "+string(rune('a'+rng.IntN(3))))
				if rng.IntN(2) == 0 {
					b.Withdraw(0, c)
				}
				if len(holders(b, "stays")) != 1 {
					t.Error("missed")
					return
				}
				if len(holders(b, "never")) != 0 {
					t.Error("seen")
					return
				}
			}
		})
	}
	wg.Wait()
}
