package picker

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strconv"

	"github.com/zeebo/xxh3"
)

// consistentHash sends equal keys to equal targets: a session, or else a prompt. Every
// replica gives the same answer, and a target that comes or goes moves only the
// keys that it owns.
type consistentHash struct {
	base
	ring ring
	turn rotation // of requests without a key
}

func newConsistentHash(cfg Config, old estate) Balancer {
	b := &consistentHash{base: newBase(cfg)}
	b.ring = newRing(b.ids, max(cfg.Settings.RingPoints, 1))
	b.turn.cursor.Store(int64(old.cursor))
	return b
}

func (b *consistentHash) estate() estate {
	return estate{strategy: b.name, ids: b.ids, cursor: cursor(b.turn.cursor.Load())}
}

// Prepare implements Balancer.
func (b *consistentHash) Prepare(c *Call) {
	c.scratch.begin(b)
	c.scratch.point = -1
	if key, ok := c.key(); ok {
		c.scratch.point = b.ring.at(key)
	}
}

// Pick implements Balancer.
func (b *consistentHash) Pick(c *Call) int {
	if c.scratch.by != b {
		b.Prepare(c)
	}
	n := len(b.ids)
	if c.scratch.point < 0 {
		return c.traced(b, b.turn.pick(c, n))
	}
	i := c.first(WhyHash, n)
	if c.Why == WhyHash {
		i = b.ring.owner(c.scratch.point, c.Eligible)
	}
	return c.traced(b, i)
}

// key gives the hash of what must stay together: the session, else the identity of
// the prompt, else the affinity text.
func (c *Call) key() (hash uint64, ok bool) {
	q := c.Request
	switch {
	case q == nil:
		return 0, false
	case q.Session != "":
		return xxh3.HashString(q.Session), true
	case q.HasDigest:
		var digest [8]byte
		binary.BigEndian.PutUint64(digest[:], q.Digest)
		return xxh3.Hash(digest[:]), true
	case len(q.Text) > 0:
		return xxh3.Hash(q.Text), true
	}
	return 0, false
}

// ring is a circle of hashes on which each target has the same number of points. A
// key belongs to the target of the next point clockwise. Immutable.
type ring struct {
	hashes []uint64 // sorted
	owners []int32  // of the point at the same place, by index
}

// point is one hash of one target.
type point struct {
	hash  uint64
	owner int32
}

// newRing places the points 0, 1, ... of each target at the hashes of "<id>#<point>".
func newRing(ids []string, points int) ring {
	all := make([]point, 0, len(ids)*points)
	var text []byte
	for i, id := range ids {
		text = append(append(text[:0], id...), '#')
		for v := range points {
			all = append(all, point{xxh3.Hash(strconv.AppendInt(text, int64(v), 10)), int32(i)})
		}
	}
	return ringOf(all, ids)
}

// ringOf sorts points by hash, and where those are equal by the id of the target, so
// that the order of the list does not matter.
func ringOf(all []point, ids []string) ring {
	slices.SortFunc(all, func(a, b point) int {
		return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(ids[a.owner], ids[b.owner]))
	})
	r := ring{make([]uint64, len(all)), make([]int32, len(all))}
	for k, p := range all {
		r.hashes[k], r.owners[k] = p.hash, p.owner
	}
	return r
}

// at gives the first point at or after a key, clockwise: the number of points before
// it, or 0 at the end of the circle. It is -1 if there are no points.
func (r ring) at(key uint64) int {
	lo, hi := 0, len(r.hashes)
	for lo < hi {
		if mid := (lo + hi) / 2; r.hashes[mid] < key {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == len(r.hashes) {
		lo = 0
	}
	return min(lo, len(r.hashes)-1)
}

// owner gives the first eligible owner from a point on, clockwise. Some owner must
// be eligible.
func (r ring) owner(point int, eligible Set) int {
	for {
		if i := int(r.owners[point]); eligible.Has(i) {
			return i
		}
		if point++; point == len(r.owners) {
			point = 0
		}
	}
}
