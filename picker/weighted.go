package picker

import (
	"math/bits"
	"sync"
)

const (
	// maxWeight is the largest weight of a target.
	maxWeight = 1_000_000
	// maxRunning bounds a running value in either direction. In a pool whose eligible
	// targets stay the same none is larger than the sum of the weights. This only
	// keeps one from growing without end over changes of the pool, and is so far from
	// overflow that no sum of weights bridges it.
	maxRunning = 1 << 60
)

// weighted takes the eligible targets in proportion to their weights, smoothly: with
// weights 3 and 1 the first, first, second, first, and so on.
//
// Every eligible target's running value grows by its weight, the target with the highest
// is chosen, and the sum of the eligible weights is subtracted from it. So the sum of all
// running values stays as it is.
type weighted struct {
	base
	weights []int64

	mu struct {
		sync.Mutex
		running []int64
	}
}

func newWeighted(cfg Config, old estate) Balancer {
	b := &weighted{base: newBase(cfg), weights: make([]int64, len(cfg.Targets))}
	b.mu.running = make([]int64, len(cfg.Targets))
	before := make(map[string]int64, len(old.running))
	for i, v := range old.running {
		before[old.ids[i]] = v
	}
	for i, t := range cfg.Targets {
		b.weights[i] = int64(min(max(t.Weight, 0), maxWeight))
		b.mu.running[i] = before[t.ID]
	}
	return b
}

func (b *weighted) estate() estate {
	b.mu.Lock()
	defer b.mu.Unlock()
	return estate{strategy: b.name, ids: b.ids, running: append([]int64(nil), b.mu.running...)}
}

// Pick implements Balancer.
func (b *weighted) Pick(c *Call) int {
	return c.traced(b, b.pick(c, len(b.ids)))
}

func (b *weighted) pick(c *Call, n int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	best, most, sum, write := -1, int64(0), int64(0), c.Attempt == 0
	for w := range c.Eligible {
		for word := c.Eligible.within(w, n); word != 0; word &= word - 1 {
			i := w<<6 | bits.TrailingZeros64(word)
			v := min(b.mu.running[i]+b.weights[i], maxRunning)
			if write {
				b.mu.running[i] = v
			}
			if best < 0 || v > most {
				best, most = i, v
			}
			sum += b.weights[i]
		}
	}
	if write && best >= 0 {
		b.mu.running[best] = max(most-sum, -maxRunning)
	}
	c.Why = c.Eligible.why(WhyWeight, best, n)
	return best
}
