package enginesim

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestChain(t *testing.T) {
	text := strings.Repeat("0123456789abcdef", 5) // 80 bytes
	a := chain(nil, 7, []byte(text), 32)
	if len(a) != 2 {
		t.Fatalf("%d blocks of 32 in 80 bytes, want 2", len(a))
	}
	if b := chain(nil, 7, []byte(text[:64]+"other"), 32); !slices.Equal(a, b) {
		t.Error("equal blocks with different hashes")
	}
	changed := []byte(text)
	changed[0] = 'x'
	if b := chain(nil, 7, changed, 32); a[0] == b[0] || a[1] == b[1] {
		t.Error("a change in the first block does not reach the second")
	}
	if b := chain(nil, 8, []byte(text), 32); a[0] == b[0] {
		t.Error("the seed has no effect")
	}
}

// The prompts of two models, and of two salts, share nothing.
func TestSeparatePrefixes(t *testing.T) {
	text := []byte(strings.Repeat("x", 640))
	seen := map[uint64]bool{}
	for _, c := range []call{{Model: "a"}, {Model: "b"}, {Model: "a", CacheSalt: "1"}, {Model: "a", CacheSalt: "2"}} {
		for _, block := range c.measure(text, 16).blocks {
			if seen[block] {
				t.Errorf("%+v shares a block", c)
			}
			seen[block] = true
		}
	}
}

// modelCache is the prefix cache written plainly: a list, newest first.
type modelCache struct {
	list     []uint64
	capacity int
}

func (m *modelCache) use(blocks []uint64) {
	for _, b := range slices.Backward(blocks) {
		m.list = slices.DeleteFunc(m.list, func(x uint64) bool { return x == b })
		m.list = slices.Insert(m.list, 0, b)
		if len(m.list) > m.capacity {
			m.list = m.list[:m.capacity]
		}
	}
}

func (m *modelCache) match(blocks []uint64) int {
	n := 0
	for n < len(blocks) && slices.Contains(m.list, blocks[n]) {
		n++
	}
	m.use(blocks[:n])
	return n
}

func (m *modelCache) add(blocks []uint64) { m.use(blocks[:min(len(blocks), m.capacity)]) }

func TestPrefixCacheAgainstModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, capacity := range []int{0, 1, 7, 40} {
		c, m := newPrefixCache(capacity), &modelCache{capacity: capacity}
		for step := range 3000 {
			blocks := make([]uint64, rng.IntN(12))
			start := uint64(rng.IntN(8)) * 100
			for i := range blocks {
				blocks[i] = start + uint64(i)
			}
			if got, want := c.match(blocks), m.match(blocks); got != want {
				t.Fatalf("capacity %d, step %d: %d blocks matched, want %d", capacity, step, got, want)
			}
			if rng.IntN(3) > 0 {
				c.add(blocks)
				m.add(blocks)
			}
			if rng.IntN(500) == 0 {
				c.clear()
				m.list = nil
			}
			if n := len(c.mu.index); n != len(m.list) || n > capacity || len(c.mu.nodes) > capacity+1 {
				t.Fatalf("capacity %d, step %d: %d blocks, want %d", capacity, step, n, len(m.list))
			}
		}
	}
}
