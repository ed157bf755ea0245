package picker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The contract of the package comment, C1 to C7 of the specification, over every strategy
// that exists. A new strategy is held to it by being in Names.

// ordered are the strategies whose answer depends on the order of the list: the
// targets in turn. Those of all others depend on identities.
var ordered = []string{"round_robin"}

func eachStrategy(t *testing.T, f func(t *testing.T, name string)) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) { f(t, name) })
	}
}

// randomCall makes a call of which anything may be absent. Sessions, texts and adapters
// return now and then.
func randomCall(rng *rand.Rand, n int) *Call {
	c := &Call{Now: time.Unix(rng.Int64N(1e6), 0), Attempt: rng.IntN(3), Eligible: all(n)}
	if rng.IntN(8) == 0 {
		return c
	}
	c.Request = &Request{
		Session: pickOne(rng, "", "s1", "s2", strconv.Itoa(rng.IntN(1000))),
		Text:    []byte(pickOne(rng, "", "system: be brief\nuser: hello", "user: "+strconv.Itoa(rng.IntN(100)), wordy(rng, 100))),
		Length:  rng.Int64N(1 << 20), Digest: rng.Uint64(), HasDigest: rng.IntN(2) == 0,
		Adapter: pickOne(rng, "", "summarizer", "translator"), CacheSalt: pickOne(rng, "", "salt"),
		KVOff: rng.IntN(2) == 0, Kind: Kind(rng.IntN(2)),
	}
	if rng.IntN(2) == 0 {
		c.Request.TokenIDs = []uint32{1, 2, 3, rng.Uint32()}
	}
	return c
}

func randomLoads(rng *rand.Rand, n int) []int64 {
	if rng.IntN(4) == 0 {
		return nil
	}
	loads := make([]int64, n)
	for i := range loads {
		loads[i] = rng.Int64N([]int64{1, 3, 50, 1<<63 - 1}[rng.IntN(4)])
		if rng.IntN(16) == 0 {
			loads[i] = 1<<63 - 1
		}
	}
	return loads
}

func pickOne(rng *rand.Rand, from ...string) string { return from[rng.IntN(len(from))] }

func TestConformanceName(t *testing.T) {
	eachStrategy(t, func(t *testing.T, name string) {
		b := mustNew(t, newConfig(name, 3), nil)
		if b.Name() != name || b.Len() != 3 {
			t.Errorf("got %q with %d targets", b.Name(), b.Len())
		}
	})
}

// Case 1, and what an empty pool does with everything else.
func TestConformanceEmptyPool(t *testing.T) {
	eachStrategy(t, func(t *testing.T, name string) {
		b := mustNew(t, newConfig(name, 0), nil)
		for _, eligible := range []Set{nil, all(3)} {
			c := &Call{Request: &Request{Text: []byte("text")}, Eligible: eligible}
			b.Prepare(c)
			b.Observe(0, c)
			b.Withdraw(0, c)
			if got := b.Pick(c); got != -1 || c.Why != WhyNone {
				t.Errorf("got %d, %v", got, c.Why)
			}
		}
	})
}

// Case 2.
func TestConformanceNobodyEligible(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	eachStrategy(t, func(t *testing.T, name string) {
		b := mustNew(t, newConfig(name, 3), nil)
		for range 100 {
			c := randomCall(rng, 3)
			c.Loads = randomLoads(rng, 3)
			for _, eligible := range []Set{nil, {}, NewSet(3), {1 << 3}} { // the last one names nobody of the pool
				c.Eligible, c.Why = eligible, WhyPin
				if got := b.Pick(c); got != -1 || c.Why != WhyNone {
					t.Fatalf("eligible %v: got %d, %v", eligible, got, c.Why)
				}
			}
			b.Observe(rng.IntN(3), c)
		}
	})
}

// Case 3.
func TestConformanceOneEligible(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	eachStrategy(t, func(t *testing.T, name string) {
		b := mustNew(t, newConfig(name, 3), nil)
		for range 1000 {
			c := randomCall(rng, 3)
			c.Loads, c.Eligible = randomLoads(rng, 3), only(3, 1)
			if got := b.Pick(c); got != 1 || c.Why != WhyOnlyOne {
				t.Fatalf("got %d, %v", got, c.Why)
			}
			b.Observe(rng.IntN(3), c)
		}
	})
}

// Case 4, also in pools whose sets take several words, and with sets of other
// widths than the pool's.
func TestConformanceNeverOneThatIsOut(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	eachStrategy(t, func(t *testing.T, name string) {
		for _, n := range []int{5, 63, 64, 65, 130} {
			b := mustNew(t, newConfig(name, n), nil)
			for range 1000 {
				c := randomCall(rng, n)
				c.Loads = randomLoads(rng, n)
				c.Eligible = all(n+rng.IntN(200), rng.IntN(n), rng.IntN(n))
				if rng.IntN(4) == 0 {
					c.Eligible = all(rng.IntN(n)+1, rng.IntN(n))
				}
				if rng.IntN(2) == 0 {
					b.Prepare(c)
				}
				got := b.Pick(c)
				if !(got >= 0 && got < n && c.Eligible.Has(got)) && c.Eligible.Next(0) >= 0 && c.Eligible.Next(0) < n {
					t.Fatalf("n=%d: got %d of %v", n, got, c.Eligible)
				}
				b.Observe(got, c)
				if rng.IntN(3) == 0 {
					b.Withdraw(got, c)
				}
			}
		}
	})
}

// Case 5. The answer is kept for the call.
func TestConformanceAsksOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	eachStrategy(t, func(t *testing.T, name string) {
		for _, n := range []int{0, 1, 3, 70} {
			b := mustNew(t, newConfig(name, n), nil)
			for range 200 {
				c := randomCall(rng, n)
				c.Loads = randomLoads(rng, n)
				asked := make([]int, n)
				answers := make([]bool, n)
				got := PickEligible(b, c, func(i int) bool {
					asked[i]++
					answers[i] = rng.IntN(2) == 0
					return answers[i]
				})
				if n > 0 && slices.Max(asked) > 1 {
					t.Fatalf("n=%d: asked %v times", n, asked)
				}
				if got < 0 && slices.Contains(answers, true) || got >= 0 && !answers[got] {
					t.Fatalf("n=%d: got %d for %v", n, got, answers)
				}
				b.Observe(got, c)
			}
		}
	})
}

// Case 6.
func TestConformanceIndexOutOfRange(t *testing.T) {
	eachStrategy(t, func(t *testing.T, name string) {
		b := mustNew(t, newConfig(name, 3), nil)
		c := &Call{Request: &Request{Text: []byte("user: hello"), Session: "s", Adapter: "a"}, Eligible: all(3)}
		b.Prepare(c)
		for _, i := range []int{-1, 3, 1 << 40, -1 << 40} {
			b.Observe(i, c)
			b.Withdraw(i, c)
		}
		if got := b.Pick(c); got < 0 || got > 2 {
			t.Errorf("got %d afterwards", got)
		}
	})
}

// Case 7: two balancers get the same calls, one with nil and one with loads of a wrong
// length.
func TestConformanceLoadsOfWrongLength(t *testing.T) {
	eachStrategy(t, func(t *testing.T, name string) {
		rng := rand.New(rand.NewPCG(7, 1))
		a, b := mustNew(t, newConfig(name, 3), nil), mustNew(t, newConfig(name, 3), nil)
		for k := range 1000 {
			c := randomCall(rng, 3)
			d := *c
			d.Loads = [][]int64{{}, {1}, {9, 0}, {0, 1, 2, 3}}[rng.IntN(4)]
			i, j := a.Pick(c), b.Pick(&d)
			if i != j || c.Why != d.Why {
				t.Fatalf("pick %d: %d (%v) without loads, %d (%v) with %v", k, i, c.Why, j, d.Why, d.Loads)
			}
			a.Observe(i, c)
			b.Observe(j, &d)
		}
	})
}

// Case 8.
func TestConformanceConcurrent(t *testing.T) {
	const workers, picks, n = 16, 100_000, 5
	eachStrategy(t, func(t *testing.T, name string) {
		b := mustNew(t, newConfig(name, n), nil)
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(8, uint64(w)))
				for range picks / workers {
					c := randomCall(rng, n)
					c.Loads, c.Eligible = randomLoads(rng, n), all(n, rng.IntN(n))
					b.Prepare(c)
					i := b.Pick(c)
					if i < 0 || i >= n || !c.Eligible.Has(i) {
						t.Errorf("got %d of %v", i, c.Eligible)
						return
					}
					b.Observe(i, c)
					if rng.IntN(4) == 0 {
						b.Withdraw(i, c)
					}
				}
			})
		}
		wg.Wait()
	})
}

// C3: what is said about a target that is out changes no answer.
func TestConformanceOutHasNoInfluence(t *testing.T) {
	eachStrategy(t, func(t *testing.T, name string) {
		const n, out = 6, 2
		rng := rand.New(rand.NewPCG(9, 1))
		a, b := mustNew(t, newConfig(name, n), nil), mustNew(t, newConfig(name, n), nil)
		for k := range 2000 {
			c := randomCall(rng, n)
			c.Loads, c.Eligible = randomLoads(rng, n), all(n, out)
			d := *c
			if c.Loads != nil {
				d.Loads = slices.Clone(c.Loads)
				d.Loads[out] = rng.Int64N(10)
			}
			b.Observe(out, randomCall(rng, n)) // only b learns of it
			i, j := a.Pick(c), b.Pick(&d)
			if i != j {
				t.Fatalf("pick %d: %d, but %d with other things known of the target that is out", k, i, j)
			}
			a.Observe(i, c)
			b.Observe(j, &d)
		}
	})
}

// Only first choices advance selection state.
func TestConformanceLaterEntriesChangeNothing(t *testing.T) {
	eachStrategy(t, func(t *testing.T, name string) {
		const n = 4
		rng := rand.New(rand.NewPCG(10, 1))
		a, b := mustNew(t, newConfig(name, n), nil), mustNew(t, newConfig(name, n), nil)
		for k := range 2000 {
			c := randomCall(rng, n)
			c.Attempt, c.Loads = 0, randomLoads(rng, n)
			d := *c
			i, j := a.Pick(c), b.Pick(&d)
			if i != j {
				t.Fatalf("pick %d: %d, but %d when lists are asked for", k, i, j)
			}
			d.Eligible = all(n, j)
			for d.Attempt = 1; d.Attempt < n; d.Attempt++ {
				later := b.Pick(&d)
				if again := b.Pick(&d); again != later {
					t.Fatalf("pick %d: later entry %d, asked again %d", k, later, again)
				}
				d.Eligible.Remove(later)
			}
			d.Attempt = 0
			a.Observe(i, c)
			b.Observe(j, &d)
		}
	})
}

// The same calls give the same answers, prepared or not.
func TestConformanceDeterministic(t *testing.T) {
	eachStrategy(t, func(t *testing.T, name string) {
		run := func(prepare bool) []int {
			rng := rand.New(rand.NewPCG(11, 1))
			b := mustNew(t, newConfig(name, 7), nil)
			var answers []int
			for range 3000 {
				c := randomCall(rng, 7)
				c.Loads, c.Eligible = randomLoads(rng, 7), all(7, rng.IntN(7))
				if prepare {
					b.Prepare(c)
				}
				answers = append(answers, b.Pick(c))
				b.Observe(answers[len(answers)-1], c)
			}
			return answers
		}
		if !slices.Equal(run(true), run(false)) {
			t.Error("two runs of the same calls differ")
		}
	})
}

// C7: what is learned hangs on the identity, whether the order was another one from
// the start or a reload changed it.
func TestConformancePermutation(t *testing.T) {
	eachStrategy(t, func(t *testing.T, name string) {
		if slices.Contains(ordered, name) {
			t.Skip("answers by list order")
		}
		const n = 8
		rng := rand.New(rand.NewPCG(12, 1))
		a := mustNew(t, newConfig(name, n), nil)
		perm := rng.Perm(n) // index in a -> index in b
		permuted := func() Config {
			cfg := newConfig(name, n)
			for i, k := range perm {
				cfg.Targets[k] = newConfig(name, n).Targets[i]
			}
			return cfg
		}
		b := mustNew(t, permuted(), nil)
		for k := range 1000 {
			if k%100 == 99 {
				perm = rng.Perm(n)
				b = mustNew(t, permuted(), b)
			}
			c := randomCall(rng, n)
			c.Attempt = 1                // no turns
			conversation := rng.IntN(50) // each at home on one target: what several know is a tie, and ties go by order
			c.Request = &Request{
				Text: []byte("user: " + strconv.Itoa(conversation) + strings.Repeat(" word", 20)), Session: strconv.Itoa(conversation),
			}
			c.Loads = make([]int64, n)
			d := *c
			d.Loads = make([]int64, n)
			for i, load := range rng.Perm(n) { // no ties
				c.Loads[i], d.Loads[perm[i]] = int64(load), int64(load)
			}
			i, j := a.Pick(c), b.Pick(&d)
			if perm[i] != j {
				t.Fatalf("pick %d: t%d, in the other order t%d", k, i, slices.Index(perm, j))
			}
			a.Observe(conversation%n, c)
			b.Observe(perm[conversation%n], &d)
		}
	})
}

// Report 046: idle targets, one request at a time, prompts that have nothing in
// common.
func TestConformanceIdlePoolIsSpread(t *testing.T) {
	eachStrategy(t, func(t *testing.T, name string) {
		rng := rand.New(rand.NewPCG(46, 1))
		b := mustNew(t, newConfig(name, 4), nil)
		var count [4]int
		for k := range 400 {
			c := &Call{
				Request: &Request{Text: []byte(wordy(rng, 200)), Digest: rng.Uint64(), HasDigest: true, Session: fmt.Sprint("s", k)},
				Loads:   make([]int64, 4), Eligible: all(4),
			}
			i := b.Pick(c)
			b.Observe(i, c)
			count[i]++
		}
		for i, got := range count {
			if got < 70 || got > 130 {
				t.Errorf("target %d got %d of 400", i, got)
			}
		}
	})
}

func TestNewRefuses(t *testing.T) {
	// Case 9 as far as the picker can tell: the valid names.
	_, err := New(newConfig("fair", 2), nil)
	if err == nil || !strings.Contains(err.Error(), `"fair"`) || !strings.Contains(err.Error(), strings.Join(Names(), ", ")) {
		t.Errorf("unknown strategy: %v", err)
	}
	_, err = New(configOf("round_robin", "a", "b", "a"), nil)
	if err == nil || !strings.Contains(err.Error(), "targets 0 and 2") {
		t.Errorf("equal ids: %v", err)
	}
}
