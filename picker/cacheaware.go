package picker

import "math/bits"

// cacheAware sends a text where the longest part of it is known, so that the engine
// finds it in its prefix cache, unless that target is overloaded; and everything
// else to the least loaded target.
type cacheAware struct {
	base
	guard     guard
	threshold float64
	turn      rotation // of requests for which neither text nor load says anything
	prefixes  *prefixes
}

func newCacheAware(cfg Config, old estate) Balancer {
	b := &cacheAware{
		base: newBase(cfg), guard: newGuard(cfg.Settings), threshold: cfg.Settings.PrefixThreshold,
		prefixes: newPrefixes(cfg, old),
	}
	b.turn.cursor.Store(int64(old.cursor))
	return b
}

func (b *cacheAware) estate() estate {
	return estate{strategy: b.name, ids: b.ids, cursor: cursor(b.turn.cursor.Load()), prefixes: b.prefixes}
}

// Prepare implements Balancer.
func (b *cacheAware) Prepare(c *Call) {
	c.scratch.begin(b)
	b.prefixes.measure(c)
}

// Pick implements Balancer.
func (b *cacheAware) Pick(c *Call) int {
	if c.scratch.by != b {
		b.Prepare(c)
	}
	return c.traced(b, b.pick(c, len(b.ids)))
}

func (b *cacheAware) pick(c *Call, n int) int {
	c.beginTrace()
	loads := c.known(n)
	if i := b.warmest(c, n); i >= 0 {
		m, known := least(loads, c.Eligible)
		if known {
			c.traceGuard(b.guard, m)
		}
		if !known || !b.guard.overloaded(loads[i], m) {
			c.Why = c.Eligible.why(WhyPrefix, i, n)
			return i
		}
	}
	i, prompts := b.idlest(c.Eligible, loads, n)
	if loads == nil && prompts == 0 {
		return b.turn.pick(c, n)
	}
	c.Why = c.Eligible.why(WhyLeastLoad, i, n)
	return i
}

// warmest gives the eligible target on which the largest part of the text is known,
// the first of several, or -1 if that is less than the threshold. A threshold of 0
// still asks for a part: nothing known is no reason to prefer a target.
func (b *cacheAware) warmest(c *Call, n int) int {
	if !c.scratch.measured {
		return -1
	}
	best, most := -1, 0
	for w := range c.Eligible {
		for word := c.Eligible.within(w, n); word != 0; word &= word - 1 {
			i := w<<6 | bits.TrailingZeros64(word)
			if m := c.scratch.matched[i]; m > most {
				best, most = i, m
			}
		}
	}
	// The quotient, not a product: only it is equal to a threshold such as 0.7 when
	// exactly that part is known.
	if best < 0 || float64(most)/float64(len(c.text())) < b.threshold {
		return -1
	}
	return best
}

// idlest gives the eligible target with the smallest load, all being equal if loads
// are unknown (nil); among equals the one with the fewest prompts, because list
// order alone would send every cold prompt of an idle pool to the first; then the
// first.
func (b *cacheAware) idlest(eligible Set, loads []int64, n int) (best int, prompts uint64) {
	best = -1
	var load int64
	for w := range eligible {
		for word := eligible.within(w, n); word != 0; word &= word - 1 {
			i := w<<6 | bits.TrailingZeros64(word)
			var l int64
			if loads != nil {
				l = loads[i]
			}
			if best >= 0 && l > load {
				continue
			}
			if p := b.prefixes.observed(i); best < 0 || l < load || p < prompts {
				best, load, prompts = i, l, p
			}
		}
	}
	return best, prompts
}

// Observe implements Balancer.
func (b *cacheAware) Observe(i int, c *Call) { b.prefixes.observe(i, c.text()) }
