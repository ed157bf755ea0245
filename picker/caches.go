package picker

import "slices"

// kvResidency prefers targets in whose KV cache much of the prompt is resident.
type kvResidency struct {
	stateless
	source ResidencySource
	n      int
}

func (s *kvResidency) prepare(c *Call) { c.readHits(s.source, s.n) }

// readHits notes down what n targets hold of the prompt, nothing if the request has
// no KV score.
func (c *Call) readHits(source ResidencySource, n int) {
	q := c.Request
	if source == nil || q == nil || len(q.TokenIDs) == 0 || q.KVOff {
		return
	}
	c.scratch.hits = slices.Grow(c.scratch.hits[:0], n)[:n]
	source.Resident(q, c.Now, c.scratch.hits)
}

// cached gives the share of the prompt that is resident on target i, as far as known.
func (c *Call) cached(i int) float64 {
	if i >= len(c.scratch.hits) || !c.scratch.hits[i].Usable {
		return 0
	}
	return share(c.scratch.hits[i].Resident)
}

func (s *kvResidency) add(c *Call, _ []int64, cands []int, weight float64, to []float64) {
	if len(c.scratch.hits) == 0 {
		return
	}
	to = to[:len(cands)]
	for k, i := range cands {
		if h := &c.scratch.hits[i]; h.Usable {
			to[k] += weight * share(h.Score)
			c.Informed = true
		}
	}
}

// lmCache prefers targets whose external cache has room.
type lmCache struct {
	stateless
	source LMCacheSource
	n      int
}

func (s *lmCache) prepare(c *Call) {
	into := slices.Grow(c.scratch.free[:0], s.n)[:s.n]
	for i := range into {
		into[i] = unknown
		if v, fresh := s.source.Free(i, c.Now); fresh {
			into[i] = share(v)
		}
	}
	c.scratch.free = into
}

func (s *lmCache) add(c *Call, _ []int64, cands []int, weight float64, to []float64) {
	to = to[:len(cands)]
	for k, i := range cands {
		if v := c.scratch.free[i]; v >= 0 {
			to[k] += weight * v
			c.Informed = true
		}
	}
}

// share clamps a share to [0, 1]. What is no number is 0.
func share(v float64) float64 {
	if v > 0 {
		return min(v, 1)
	}
	return 0
}
