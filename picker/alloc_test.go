//go:build !race

package picker

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
)

func TestPrepareAndPickAllocateNothing(t *testing.T) {
	eachStrategy(t, func(t *testing.T, p pools) {
		for _, n := range []int{1, 8, 100} {
			b := mustNew(t, p.config(n), nil)
			rng := rand.New(rand.NewPCG(1, 1))
			texts := conversations(rng, 50, 4096)
			for i, text := range texts {
				warm(b, i%n, string(text))
			}
			q := &Request{Session: "s", Adapter: "a", TokenIDs: []uint32{1, 2, 3}}
			c, trace := &Call{}, &Trace{}
			k := 0
			eligible, loads := all(n), make([]int64, n)
			pass := func() {
				c.Reset()
				c.Request, c.Loads, c.Eligible = q, loads, eligible
				if k%2 == 0 {
					c.Trace = trace
				}
				q.Text = texts[k%len(texts)]
				k++
				b.Prepare(c)
				for c.Attempt = range 3 {
					b.Pick(c)
				}
			}
			pass() // the scratch grows
			if got := testing.AllocsPerRun(200, pass); got != 0 {
				t.Errorf("%d targets: %v allocations", n, got)
			}
			predicate := func(i int) bool { return i != 3 }
			PickEligible(b, c, predicate)
			if got := testing.AllocsPerRun(200, func() { PickEligible(b, c, predicate) }); got != 0 {
				t.Errorf("PickEligible, %d targets: %v allocations", n, got)
			}
		}
	})
}

// A request of which text, session and adapter are known already costs no memory.
func TestObserveOfKnownAllocatesNothing(t *testing.T) {
	eachStrategy(t, func(t *testing.T, p pools) {
		b := mustNew(t, p.config(8), nil)
		c := &Call{Request: &Request{Text: []byte(prompt), Session: "s", Adapter: "a"}}
		pass := func() {
			b.Observe(3, c)
			b.Observe(5, c)
			b.Withdraw(5, c)
		}
		pass()
		if got := testing.AllocsPerRun(200, pass); got != 0 {
			t.Errorf("%v allocations", got)
		}
	})
}

// What long texts cost: about a byte for a byte, also after most of what came was
// forgotten, and in a tree full of branches. (Several targets would share some.)
func TestHistoryMemory(t *testing.T) {
	rng := rand.New(rand.NewPCG(420, 1))
	cfg := newConfig("cache_aware", 1)
	cfg.Settings.PrefixMaxBytes = 8 << 20
	before := heapInUse()
	b := mustNew(t, cfg, nil)
	c := &Call{Request: &Request{}}
	roots := make([][]byte, 20)
	for range 4000 { // some 64 MiB of new bytes, of which an eighth stays
		root := &roots[rng.IntN(len(roots))]
		if len(*root) == 0 || rng.IntN(20) == 0 {
			*root = randomBytes(rng, 32<<10)
		}
		shared := rng.IntN(32 << 10)
		c.Request.Text = slices.Concat((*root)[:shared], randomBytes(rng, 32<<10-shared))
		b.Observe(0, c)
	}
	clear(roots)
	c.Request.Text = nil
	used := heapInUse() - before
	held := b.(*cacheAware).prefixes.members[0].size
	if held < 7<<20 || float64(used) > 1.15*float64(held) {
		t.Errorf("%d bytes of memory for %d bytes remembered", used, held)
	}
	t.Logf("%.3f bytes of memory for each byte remembered", float64(used)/float64(held))
	runtime.KeepAlive(b)
}

// Case 420 as far as the picker goes, a twentieth of its size: all memories full.
func TestMemoryOfManyPools(t *testing.T) {
	const pools, targets, total = 10, 30, 48 << 20
	rng := rand.New(rand.NewPCG(420, 2))
	before := heapInUse()
	var all []Balancer
	for range pools {
		cfg := newConfig("cache_aware", targets)
		cfg.Settings.PrefixMaxBytes = total / (pools * targets)
		b := mustNew(t, cfg, nil)
		c := &Call{Request: &Request{}}
		system := randomBytes(rng, 4<<10)
		for i := range targets {
			for b.(*cacheAware).prefixes.members[i].forgotten < 10 {
				c.Request.Text = randomBytes(rng, 500+rng.IntN(8<<10))
				if rng.IntN(2) == 0 {
					c.Request.Text = append(system[:len(system):len(system)], c.Request.Text...)
				}
				b.Observe(i, c)
			}
		}
		all = append(all, b)
	}
	used := heapInUse() - before
	if float64(used) > 1.3*total {
		t.Errorf("%d bytes of memory, %d allowed for", used, total)
	}
	t.Logf("%.2f of what is allowed", float64(used)/total)
	runtime.KeepAlive(all)
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}
