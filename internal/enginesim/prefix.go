package enginesim

import (
	"sync"

	"github.com/zeebo/xxh3"
)

// chain appends to dst the hash of every whole block of text. Each is seeded
// with the one before, so equal hashes mean equal text from the start up to there.
func chain(dst []uint64, seed uint64, text []byte, blockBytes int) []uint64 {
	for len(text) >= blockBytes {
		seed = xxh3.HashSeed(text[:blockBytes], seed)
		dst = append(dst, seed)
		text = text[blockBytes:]
	}
	return dst
}

// prefixCache remembers which blocks of prompts have been computed. When full
// it forgets the block that was used the longest time ago. Blocks of one prompt age from
// its end, as in vLLM, so that what is left of a prompt is always a prefix.
type prefixCache struct {
	mu struct {
		sync.Mutex
		index map[uint64]int32 // block hash -> place in nodes
		nodes []node           // nodes[0] is the ring's anchor
	}
	capacity int // blocks; 0 = remembers nothing
}

// node is one block in a ring ordered by use: anchor.next is the newest.
type node struct {
	hash       uint64
	prev, next int32
}

func newPrefixCache(blocks int) *prefixCache {
	c := &prefixCache{capacity: blocks}
	c.clear()
	return c
}

// match gives how many of the leading blocks are remembered. It counts as a
// use of each.
func (c *prefixCache) match(blocks []uint64) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for n < len(blocks) {
		if _, ok := c.mu.index[blocks[n]]; !ok {
			break
		}
		n++
	}
	c.use(blocks[:n])
	return n
}

// add remembers the blocks. Of a prompt larger than the cache the beginning stays.
func (c *prefixCache) add(blocks []uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.use(blocks[:min(len(blocks), c.capacity)])
}

// clear forgets everything.
func (c *prefixCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.index = make(map[uint64]int32)
	c.mu.nodes = append(c.mu.nodes[:0], node{})
}

// use makes the blocks the newest, the first of them the very newest.
func (c *prefixCache) use(blocks []uint64) {
	for i := len(blocks) - 1; i >= 0; i-- {
		hash := blocks[i]
		at, known := c.mu.index[hash]
		switch {
		case known:
			c.unlink(at)
		case len(c.mu.nodes) <= c.capacity:
			at = int32(len(c.mu.nodes))
			c.mu.nodes = append(c.mu.nodes, node{hash: hash})
			c.mu.index[hash] = at
		default:
			at = c.mu.nodes[0].prev
			c.unlink(at)
			delete(c.mu.index, c.mu.nodes[at].hash)
			c.mu.nodes[at].hash = hash
			c.mu.index[hash] = at
		}
		c.linkNewest(at)
	}
}

func (c *prefixCache) unlink(at int32) {
	n := c.mu.nodes[at]
	c.mu.nodes[n.prev].next = n.next
	c.mu.nodes[n.next].prev = n.prev
}

func (c *prefixCache) linkNewest(at int32) {
	first := c.mu.nodes[0].next
	c.mu.nodes[at].prev, c.mu.nodes[at].next = 0, first
	c.mu.nodes[first].prev = at
	c.mu.nodes[0].next = at
}
