package picker

import (
	"math/bits"
	"sync/atomic"
)

// cursor is the position of a rotation:
//
//	0        nothing was chosen yet
//	2*k + 1  index k is next: a reload took the target chosen last out of the pool
//	2*i + 2  index i was chosen last
//
// The last two differ only for the next reload, which asks for a target's place.
type cursor int64

// start gives the index from which on the next eligible one is taken. It may be
// one past the end, which is the beginning.
func (c cursor) start() int { return int(c >> 1) }

// after is the cursor once index i was chosen.
func after(i int) cursor { return cursor(2*i + 2) }

// in translates the cursor of a pool with these ids to a pool with this index.
// Without the target chosen last, rotation goes on at its nearest following
// survivor, else at the start.
func (c cursor) in(index map[string]int, ids []string) cursor {
	if c == 0 {
		return 0
	}
	from := c.start()
	if c&1 == 0 {
		from--
		if i, remains := index[ids[from]]; remains {
			return after(i)
		}
	}
	for _, id := range ids[from:] {
		if k, remains := index[id]; remains {
			return cursor(2*k + 1)
		}
	}
	return 0
}

// rotation hands out the eligible targets in turn.
type rotation struct{ cursor atomic.Int64 }

// pick gives the next eligible target of n after the last first choice, and moves
// there if this is a first choice. It sets c.Why.
func (r *rotation) pick(c *Call, n int) int {
	if n > 64 || len(c.Eligible) == 0 {
		return r.pickMany(c, n)
	}
	set := c.Eligible.within(0, n)
	if set == 0 {
		c.Why = WhyNone
		return -1
	}
	c.Why = WhyRotation
	if set&(set-1) == 0 {
		c.Why = WhyOnlyOne
	}
	for {
		was := r.cursor.Load()
		next := set &^ (1<<cursor(was).start() - 1)
		if next == 0 {
			next = set
		}
		i := bits.TrailingZeros64(next)
		if c.Attempt > 0 || r.cursor.CompareAndSwap(was, int64(after(i))) {
			return i
		}
	}
}

// pickMany is pick for a pool whose sets take more than one word.
func (r *rotation) pickMany(c *Call, n int) int {
	for {
		was := r.cursor.Load()
		i := c.Eligible.following(cursor(was).start(), n)
		if i < 0 || c.Attempt > 0 || r.cursor.CompareAndSwap(was, int64(after(i))) {
			c.Why = c.Eligible.why(WhyRotation, i, n)
			return i
		}
	}
}

// roundRobin takes the eligible targets in turn.
type roundRobin struct {
	base
	turn rotation
}

func newRoundRobin(cfg Config, old estate) Balancer {
	b := &roundRobin{base: newBase(cfg)}
	b.turn.cursor.Store(int64(old.cursor))
	return b
}

func (b *roundRobin) estate() estate {
	return estate{strategy: b.name, ids: b.ids, cursor: cursor(b.turn.cursor.Load())}
}

// Pick implements Balancer.
func (b *roundRobin) Pick(c *Call) int { return c.traced(b, b.turn.pick(c, len(b.ids))) }
