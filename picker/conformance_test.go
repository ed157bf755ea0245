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
// targets in turn or by lot. Those of all others depend on identities.
var ordered = []string{"round_robin", "random", "power_of_two", "weighted"}

// eachStrategy runs a test for every strategy, of targets of which nothing is known, and of
// others.
func eachStrategy(t *testing.T, f func(t *testing.T, p pools)) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) { f(t, pools{name: name}) })
		t.Run(name+"/told", func(t *testing.T) { f(t, pools{name: name, told: true}) })
	}
}

// pools makes configurations of one strategy.
type pools struct {
	name string
	told bool // all that a source can say is known of most targets
}

func (p pools) config(n int) Config { return p.of(ids(n)...) }

func (p pools) of(ids ...string) Config {
	cfg := configOf(p.name, ids...)
	if p.told {
		tell(&cfg)
	}
	return cfg
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
		KVOff: rng.IntN(4) == 0, Kind: Kind(rng.IntN(2)),
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
	eachStrategy(t, func(t *testing.T, p pools) {
		b := mustNew(t, p.config(3), nil)
		if b.Name() != p.name || b.Len() != 3 {
			t.Errorf("got %q with %d targets", b.Name(), b.Len())
		}
	})
}

// Case 1, and what an empty pool does with everything else.
func TestConformanceEmptyPool(t *testing.T) {
	eachStrategy(t, func(t *testing.T, p pools) {
		b := mustNew(t, p.config(0), nil)
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
	eachStrategy(t, func(t *testing.T, p pools) {
		b := mustNew(t, p.config(3), nil)
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
	eachStrategy(t, func(t *testing.T, p pools) {
		b := mustNew(t, p.config(3), nil)
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
	eachStrategy(t, func(t *testing.T, p pools) {
		for _, n := range []int{5, 63, 64, 65, 130} {
			b := mustNew(t, p.config(n), nil)
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
	eachStrategy(t, func(t *testing.T, p pools) {
		for _, n := range []int{0, 1, 3, 70} {
			b := mustNew(t, p.config(n), nil)
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
	eachStrategy(t, func(t *testing.T, p pools) {
		b := mustNew(t, p.config(3), nil)
		c := &Call{Request: &Request{Text: []byte("user: hello"), Session: "s", Adapter: "a"}, Eligible: all(3)}
		b.Prepare(c)
		for _, i := range []int{-1, 3, 1 << 40, -1 << 40} {
			b.Observe(i, c)
			b.Withdraw(i, c)
			b.Refill(i)
			c.Sampled(i)
			c.Ended(i)
		}
		if got := b.Pick(c); got < 0 || got > 2 {
			t.Errorf("got %d afterwards", got)
		}
	})
}

// Case 7: two balancers get the same calls, one with nil and one with loads of a wrong
// length.
func TestConformanceLoadsOfWrongLength(t *testing.T) {
	eachStrategy(t, func(t *testing.T, p pools) {
		rng := rand.New(rand.NewPCG(7, 1))
		a, b := mustNew(t, p.config(3), nil), mustNew(t, p.config(3), nil)
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
	const workers, n = 16, 5
	eachStrategy(t, func(t *testing.T, p pools) {
		picks := 100_000
		if p.told {
			picks = 10_000
		}
		b := mustNew(t, p.config(n), nil)
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
					switch rng.IntN(8) {
					case 0, 1:
						b.Withdraw(i, c)
					case 2, 3:
						c.Sampled(i)
					case 4:
						b.Refill(i)
					}
					if rng.IntN(1000) == 0 {
						b.Sweep(c.Now)
					}
					c.Reset()
				}
			})
		}
		wg.Wait()
	})
}

// C3: what is said about a target that is out changes no answer.
func TestConformanceOutHasNoInfluence(t *testing.T) {
	eachStrategy(t, func(t *testing.T, p pools) {
		const n, out = 6, 2
		rng := rand.New(rand.NewPCG(9, 1))
		other := p.config(n)
		other.Targets[out].Weight, other.Targets[out].Cost = 77, 0.001
		if p.told {
			other.Sources.Latency.(*told).set(out, 0.001, LatencyModel{}, KVHit{true, 1, 1}, 1)
		}
		a, b := mustNew(t, p.config(n), nil), mustNew(t, other, nil)
		for k := range 2000 {
			c := randomCall(rng, n)
			c.Loads, c.Eligible = randomLoads(rng, n), all(n, out)
			d := *c
			if c.Loads != nil {
				d.Loads = slices.Clone(c.Loads)
				d.Loads[out] = rng.Int64N(10)
			}
			more := randomCall(rng, n) // only b learns of it
			if more.Request != nil {
				more.Request.Session = "" // a session that moves there has left where it was
			}
			b.Observe(out, more)
			b.Refill(out)
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
	eachStrategy(t, func(t *testing.T, p pools) {
		const n = 4
		rng := rand.New(rand.NewPCG(10, 1))
		cfg := p.config(n)
		draws := cfg.Rand.(*seeded)
		a, b := mustNew(t, p.config(n), nil), mustNew(t, cfg, nil)
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
				before := draws.pcg // a draw is no state of the balancer
				later := b.Pick(&d)
				draws.pcg = before
				if again := b.Pick(&d); again != later {
					t.Fatalf("pick %d: later entry %d, asked again %d", k, later, again)
				}
				draws.pcg = before
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
	eachStrategy(t, func(t *testing.T, p pools) {
		run := func(prepare bool) []int {
			rng := rand.New(rand.NewPCG(11, 1))
			b := mustNew(t, p.config(7), nil)
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
	eachStrategy(t, func(t *testing.T, p pools) {
		if slices.Contains(ordered, p.name) {
			return // it answers by list order or by lot
		}
		const n = 8
		rng := rand.New(rand.NewPCG(12, 1))
		a := mustNew(t, p.config(n), nil)
		perm := rng.Perm(n) // index in a -> index in b
		permuted := func() Config {
			order := make([]string, n)
			for i, k := range perm {
				order[k] = ids(n)[i]
			}
			return p.of(order...)
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
				c.Loads[i], d.Loads[perm[i]] = int64(load)+1, int64(load)+1
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

// Cases 243 and 244 for all that a strategy learns: two pools get the same
// requests and the same changes of members; one is put into another order with each
// change. Nobody can tell them apart by the ids that they answer with.
func TestConformanceReloads(t *testing.T) {
	eachStrategy(t, func(t *testing.T, p pools) {
		if slices.Contains(ordered, p.name) {
			return // it answers by list order or by lot
		}
		rng := rand.New(rand.NewPCG(243, 2))
		names := ids(6)
		type pool struct {
			Balancer
			ids []string
		}
		a := pool{mustNew(t, p.of(names...), nil), names}
		b := a
		b.Balancer = mustNew(t, p.of(names...), nil)
		for k := range 3000 {
			if k%30 == 29 { // about one in six of those possible leaves or comes
				members := slices.DeleteFunc(slices.Clone(a.ids), func(string) bool { return rng.IntN(6) == 0 })
				for i := range 9 {
					if id := "t" + strconv.Itoa(i); !slices.Contains(members, id) && rng.IntN(6) == 0 {
						members = append(members, id)
					}
				}
				a = pool{mustNew(t, p.of(members...), a.Balancer), members}
				members = slices.Clone(members)
				rng.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
				b = pool{mustNew(t, p.of(members...), b.Balancer), members}
			}
			n := len(a.ids)
			if n == 0 {
				continue
			}
			conversation := rng.IntN(40)
			q := Request{
				Text:    []byte("user: " + strconv.Itoa(conversation) + strings.Repeat(" word", 20)),
				Session: strconv.Itoa(conversation), Adapter: "adapter " + strconv.Itoa(conversation), TokenIDs: []uint32{1},
			}
			c := Call{Request: &q, Now: time.Unix(int64(k), 0), Attempt: 1, Loads: make([]int64, n), Eligible: all(n)} // no turns
			d := c
			d.Loads = make([]int64, n)
			other := func(i int) int { return slices.Index(b.ids, a.ids[i]) }
			for i, place := range rng.Perm(n) {
				load := []int64{3, 11, 29, 67, 173, 331, 541, 773, 1009}[place] // no ties, with anything
				c.Loads[i], d.Loads[other(i)] = load, load
			}
			i, j := a.Pick(&c), b.Pick(&d)
			if a.ids[i] != b.ids[j] {
				t.Fatalf("pick %d: %s, in the other order %s", k, a.ids[i], b.ids[j])
			}
			home := slices.Index(a.ids, "t"+strconv.Itoa(conversation%9))
			if home < 0 { // what several know would be a tie, and ties go by order
				continue
			}
			a.Observe(home, &c)
			b.Observe(other(home), &d)
			if rng.IntN(4) == 0 {
				a.Withdraw(home, &c)
				b.Withdraw(other(home), &d)
			}
		}
	})
}

// Report 046: idle targets, one request at a time, prompts that have nothing in
// common.
func TestConformanceIdlePoolIsSpread(t *testing.T) {
	eachStrategy(t, func(t *testing.T, p pools) {
		if p.told {
			return // the targets differ
		}
		rng := rand.New(rand.NewPCG(46, 1))
		b := mustNew(t, p.config(4), nil)
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
