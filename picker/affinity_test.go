package picker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"
)

// What the strategies come to over many requests.

// Case 241.
func TestShareOfDeadTargetIsSpread(t *testing.T) {
	const n, dead, requests = 4, 2, 400
	for name, most := range map[string]float64{
		"round_robin": 1.3, "weighted": 1.3, "random": 1.3, "power_of_two": 1.3, "consistent_hash": 1.6, "pipeline": 1.3,
	} {
		t.Run(name, func(t *testing.T) {
			b := mustNew(t, configOf(name, "gpu-a/m", "gpu-b/m", "gpu-c/m", "gpu-d/m"), nil)
			count := make([]int, n)
			for k := range requests {
				c := Call{
					Request: &Request{Session: "session " + strconv.Itoa(k), Text: []byte("user: " + strconv.Itoa(k))},
					Loads:   make([]int64, n), Eligible: all(n, dead),
				}
				i := b.Pick(&c)
				b.Observe(i, &c)
				count[i]++
			}
			for i, got := range count {
				if float64(got) > most*requests/3 || i == dead && got > 0 {
					t.Errorf("target %d got %d of %d", i, got, requests)
				}
			}
		})
	}
}

// Report 047: a prefix that everybody holds, and a burst that holds its slots.
func TestBurstOnKnownPrefix(t *testing.T) {
	system := "system: " + strings.Repeat("rule ", 800)
	for _, name := range []string{"cache_aware", "pipeline", "power_of_two", "precise_cache_aware"} {
		cfg := newConfig(name, 4)
		d := newTold(4)
		for i := range 4 {
			d.hits[i] = KVHit{true, .9, .9}
		}
		cfg.Sources = d.sources()
		b := mustNew(t, cfg, nil)
		for i := range 4 {
			warm(b, i, system)
		}
		loads := make([]int64, 4)
		for k := range 64 {
			c := Call{
				Request: &Request{Text: fmt.Append(nil, system, "user: ", k), TokenIDs: []uint32{1}},
				Loads:   loads, Eligible: all(4),
			}
			i := b.Pick(&c)
			b.Observe(i, &c)
			loads[i]++
		}
		for i, got := range loads {
			if got < 10 || got > 22 {
				t.Errorf("%s: target %d got %d of 64", name, i, got)
			}
		}
	}
}

// Report 063: the target of a session goes and comes back.
func TestSessionWhoseTargetGoes(t *testing.T) {
	for _, name := range []string{"consistent_hash", "pipeline"} {
		ids := []string{"A", "B", "C"}
		b := mustNew(t, configOf(name, ids...), nil)
		now := 0
		turns := func(n int) string {
			home := ""
			for k := range n {
				now++
				c := Call{Request: &Request{Session: "S"}, Now: clock(now), Loads: make([]int64, len(ids)), Eligible: all(len(ids))}
				i := b.Pick(&c)
				b.Observe(i, &c)
				if k > 0 && ids[i] != home {
					t.Errorf("%s: turn %d on %s, the one before on %s", name, k, ids[i], home)
				}
				home = ids[i]
			}
			return home
		}
		first := turns(5)
		all := ids
		ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id == first })
		b = mustNew(t, configOf(name, ids...), b)
		if second := turns(5); second == first {
			t.Errorf("%s: still on %s", name, first)
		}
		ids = all
		b = mustNew(t, configOf(name, ids...), b)
		turns(5)
	}
}

// Report 065: whatever else changes from turn to turn.
func TestSessionStays(t *testing.T) {
	for _, name := range []string{"consistent_hash", "pipeline"} {
		b := mustNew(t, newConfig(name, 5), nil)
		home := -1
		text := "system: hello\n"
		for k := range 20 {
			text += fmt.Sprintf("user: turn %d\n", k)
			q := Request{Session: "s1", Text: []byte(text), Digest: xxh3.HashString(text), HasDigest: true, Kind: Kind(k % 2)}
			c := Call{Request: &q, Now: clock(k), Loads: make([]int64, 5), Eligible: all(5)}
			i := b.Pick(&c)
			b.Observe(i, &c)
			if home >= 0 && i != home {
				t.Errorf("%s: turn %d on %d, before on %d", name, k, i, home)
			}
			home = i
		}
	}
}

// Report 071: a long beginning that all conversations share. Half of the 40 requests in
// flight end before each that comes.
func TestLongSharedBeginning(t *testing.T) {
	beginning := []byte("system: " + strings.Repeat("you know every rule of the harbour. ", 1200))[:32<<10]
	b := mustNew(t, configOf("consistent_hash", "A", "B", "C", "D"), nil)
	var count [4]int
	for k := range 200 {
		q := Request{Text: beginning, Digest: xxh3.HashString("conversation " + strconv.Itoa(k)), HasDigest: true}
		i := owner(b, q)
		if owner(b, q) != i {
			t.Errorf("conversation %d moves", k)
		}
		count[i]++
	}
	for i, got := range count {
		if got < 30 || got > 70 {
			t.Errorf("consistent_hash: target %d got %d of 200", i, got)
		}
	}

	b = mustNew(t, newConfig("cache_aware", 4), nil)
	loads := make([]int64, 4)
	var running []int
	rng := rand.New(rand.NewPCG(71, 1))
	for k := range 400 {
		if k >= 40 {
			at := rng.IntN(len(running))
			loads[running[at]]--
			running = slices.Delete(running, at, at+1)
		}
		i := serve(b, string(beginning), loads)
		loads[i]++
		running = append(running, i)
		if least := slices.Min(loads); float64(loads[i]) > 1.5*float64(least)+2+1 {
			t.Fatalf("request %d: one more on target %d, %v", k, i, loads)
		}
	}
}

// Report 072: one beginning for all traffic, under pipeline with default weights.
func TestSharedBeginningLeavesNobodyIdle(t *testing.T) {
	b := mustNew(t, newConfig("pipeline", 4), nil)
	system := "system: " + strings.Repeat("rule ", 1600)
	loads := make([]int64, 4)
	var running []int
	k := 0
	for concurrent := 1; concurrent <= 40; concurrent++ {
		for range 20 {
			for len(running) >= concurrent {
				loads[running[0]]--
				running = running[1:]
			}
			k++
			i := serve(b, fmt.Sprint(system, "user: ", k), loads)
			loads[i]++
			running = append(running, i)
		}
		if concurrent >= 8 && slices.Min(loads) == 0 {
			t.Errorf("%d concurrent: %v", concurrent, loads)
		}
	}
}

// Report 073: what is sent somewhere for another reason than its prefix is known there
// afterwards.
func TestPrefixIsLearnedOnEveryPath(t *testing.T) {
	for _, name := range []string{"cache_aware", "pipeline", "lora_aware"} {
		b := mustNew(t, newConfig(name, 4), nil)
		text := strings.Repeat("short prompt of three blocks ", 5)
		home := serve(b, text, []int64{2, 1, 0, 2})
		for k := range 30 {
			if k >= 20 {
				text += strings.Repeat("and then some more ", 6)
			}
			if got := serve(b, text, make([]int64, 4)); got != home {
				t.Errorf("%s: turn %d on %d, the first was on %d", name, k, got, home)
			}
		}
	}
}

// Report 177: the work of a pick is linear at worst, also where hardly anybody is
// eligible. Counted in time it would be a benchmark; here it only has to end.
func TestLargePools(t *testing.T) {
	eachStrategy(t, func(t *testing.T, p pools) {
		const n = 1000
		b := mustNew(t, p.config(n), nil)
		for _, i := range []int{0, 63, 64, 500, n - 1} {
			c := Call{Request: &Request{Session: "s"}, Loads: make([]int64, n), Eligible: only(n, i)}
			c.Eligible.Add((i + 1) % n)
			if got := b.Pick(&c); got != i && got != (i+1)%n {
				t.Errorf("got %d", got)
			}
		}
	})
}
