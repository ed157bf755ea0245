package picker

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// conversations makes texts as chat traffic does: few system prompts, and behind
// each of them many conversations.
func conversations(rng *rand.Rand, count, size int) [][]byte {
	systems := make([][]byte, 50)
	for i := range systems {
		systems[i] = randomBytes(rng, size/2)
	}
	texts := make([][]byte, count)
	for i := range texts {
		texts[i] = append(append([]byte("system: "), systems[rng.IntN(len(systems))]...), randomBytes(rng, size/2)...)[:size]
	}
	return texts
}

// filled is a cache_aware pool that remembers about 100,000 texts, and 32 KiB texts some of
// which it knows.
func filled(tb testing.TB, n int) (Balancer, [][]byte) {
	rng := rand.New(rand.NewPCG(1, 2))
	cfg := newConfig("cache_aware", n)
	cfg.Settings.PrefixMaxBytes = 64 << 20
	b := mustNew(tb, cfg, nil)
	var c Call
	observe := func(i int, text []byte) {
		c.Reset()
		c.Request = &Request{Text: text}
		b.Observe(i, &c)
	}
	for _, text := range conversations(rng, 100_000, 1024) {
		observe(rng.IntN(n), text)
	}
	long := conversations(rng, 256, 32<<10)
	for _, text := range long {
		observe(rng.IntN(n), text)
		observe(rng.IntN(n), text)
	}
	return b, long
}

// How long one request's matching takes: 32 KiB, 100,000 remembered texts.
func BenchmarkPrepare(b *testing.B) {
	for _, n := range benchmarked {
		bal, texts := filled(b, n)
		b.Run(fmt.Sprintf("cache_aware/targets=%d", n), func(b *testing.B) {
			var c Call
			var q Request
			c.Request = &q
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				q.Text = texts[i%len(texts)]
				i++
				bal.Prepare(&c)
			}
		})
	}
}

// Run with -cpu 1,2: matching takes a read lock only.
func BenchmarkPrepareParallel(b *testing.B) {
	bal, texts := filled(b, 8)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		var c Call
		var q Request
		c.Request = &q
		i := 0
		for pb.Next() {
			q.Text = texts[i%len(texts)]
			i++
			bal.Prepare(&c)
		}
	})
}

// busy is a pool of which everything is known, with a request that finds some of
// it, prepared.
func busy(b *testing.B, name string, n int) (Balancer, *Call) {
	cfg := pools{name: name, told: true}.config(n)
	cfg.Rand = nil
	bal := mustNew(b, cfg, nil)
	c := &Call{
		Request: &Request{
			Session: "session", Text: []byte("user: hello"), Adapter: "adapter", TokenIDs: []uint32{1, 2, 3},
		},
		Loads: make([]int64, n), Eligible: all(n),
	}
	for i := range c.Loads {
		c.Loads[i] = int64(i % 7)
	}
	bal.Observe(n-1, c)
	bal.Prepare(c)
	return bal, c
}

var benchmarked = []int{2, 8, 100, 1000}

// What every strategy needs before the pool is locked, but for long texts.
func BenchmarkPrepareShort(b *testing.B) {
	for _, name := range Names() {
		for _, n := range benchmarked {
			bal, c := busy(b, name, n)
			b.Run(fmt.Sprintf("%s/targets=%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					bal.Prepare(c)
				}
			})
		}
	}
}

// What every strategy does with the pool locked.
func BenchmarkPick(b *testing.B) {
	for _, name := range Names() {
		for _, n := range benchmarked {
			bal, c := busy(b, name, n)
			b.Run(fmt.Sprintf("%s/targets=%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					bal.Pick(c)
				}
			})
		}
	}
}

// What explaining a choice costs besides.
func BenchmarkPickTraced(b *testing.B) {
	for _, n := range benchmarked {
		bal, c := busy(b, "pipeline", n)
		c.Trace = new(Trace)
		b.Run(fmt.Sprintf("pipeline/targets=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				bal.Pick(c)
			}
		})
	}
}

// Run with -cpu 1,2: whole decisions of requests that know nothing of each other.
func BenchmarkDecideParallel(b *testing.B) {
	for _, name := range Names() {
		bal, first := busy(b, name, 8)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				c := Call{Request: first.Request, Loads: first.Loads, Eligible: first.Eligible}
				for pb.Next() {
					bal.Prepare(&c)
					bal.Pick(&c)
				}
			})
		})
	}
}

// How long the pool is locked for a dispatched text of 32 KiB: known, a new end of a
// known one, new altogether (with as much forgotten).
func BenchmarkObserve(b *testing.B) {
	bal, texts := filled(b, 8)
	fresh := append([]byte("x"), texts[0]...)[:32<<10]
	number := func(text []byte, at, i int) {
		for k := range 4 {
			text[at+k] = byte(i >> (8 * k))
		}
	}
	for _, bench := range []struct {
		name string
		next func(i int) []byte
	}{
		{"known", func(i int) []byte { return texts[i%len(texts)] }},
		{"turn", func(i int) []byte {
			number(texts[0], 20<<10, i)
			return texts[0]
		}},
		{"new", func(i int) []byte {
			number(fresh, 0, i)
			return fresh
		}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			var c Call
			var q Request
			c.Request = &q
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				q.Text = bench.next(i)
				bal.Observe(i%8, &c)
				i++
			}
		})
	}
}
