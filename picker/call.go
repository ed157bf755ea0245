package picker

// scratch is what a balancer notes down in a call between Prepare and Withdraw.
// Its storage is kept over Reset, so a call that is reused costs no allocation.
// What is "by index" holds a value of each target, or nothing if the balancer has no use
// for it.
type scratch struct {
	stripe   uint8    // of a stripedLock, 0 = none yet
	by       Balancer // who prepared the call; nil = nobody
	measured bool     // matched is valid
	matched  []int    // by index: leading bytes of the text known there
	byNumber []int    // the same by the numbers of the prefix history
	eligible Set      // of PickEligible

	point     int           // on the ring, -1 = no key
	pinned    int           // the target that has the session, -1 = none
	holders   Set           // of the adapter
	latencies []float64     // by index
	forecasts []forecast    // by index
	hits      []KVHit       // by index
	free      []float64     // by index
	choice    choice        // of a scored strategy
	verdict   verdict       // of the load guard, for a trace
	tried     *trial        // the trial pick that this call is, or nil
	triedAt   int           // its target
	pins      []pinNote     // what Observe did to the session's pin
	adapters  []adapterNote // what Observe did to the adapter's residency
}

// begin makes the scratch ready to be filled by a balancer.
func (s *scratch) begin(b Balancer) {
	s.by, s.measured = b, false
	s.latencies, s.forecasts, s.hits, s.free = s.latencies[:0], s.forecasts[:0], s.hits[:0], s.free[:0]
	s.choice.ranking.of, s.choice.columns = nil, s.choice.columns[:0]
}

// Reset makes the call ready for another request. It forgets everything but its
// storage. A trial pick that has not ended, ends.
func (c *Call) Reset() {
	s := &c.scratch
	s.endTrial()
	s.begin(nil)
	clear(s.pins)
	clear(s.adapters)
	*c = Call{scratch: scratch{
		stripe: s.stripe, matched: s.matched[:0], byNumber: s.byNumber[:0], eligible: s.eligible[:0], holders: s.holders[:0],
		latencies: s.latencies, forecasts: s.forecasts, hits: s.hits, free: s.free, choice: s.choice,
		pins: s.pins[:0], adapters: s.adapters[:0],
	}}
}

// PrefixMatch tells how many leading bytes of the request's text were known on
// target i when the call was prepared; that is what the pick went by. It is
// not ok when the strategy remembers no texts, the request has none, the call
// was not prepared, or i is out of range.
func (c *Call) PrefixMatch(i int) (bytes int, ok bool) {
	if !c.scratch.measured || i < 0 || i >= len(c.scratch.matched) {
		return 0, false
	}
	return c.scratch.matched[i], true
}

// PickEligible is Pick for callers that have a predicate instead of a set. It asks
// at most once per index, in list order, and keeps the answers in c.Eligible.
func PickEligible(b Balancer, c *Call, eligible func(i int) bool) int {
	n := b.Len()
	set := c.scratch.eligible.Grow(n)
	for i := range n {
		if eligible(i) {
			set.Add(i)
		}
	}
	c.scratch.eligible, c.Eligible = set, set
	return b.Pick(c)
}

// text gives the affinity text, empty if nothing is known of the request.
func (c *Call) text() []byte {
	if c.Request == nil {
		return nil
	}
	return c.Request.Text
}

// first gives the first eligible target of n, or -1, and sets c.Why: to w if there are
// others.
func (c *Call) first(w Why, n int) int {
	i := c.Eligible.following(0, n)
	c.Why = c.Eligible.why(w, i, n)
	return i
}

// known gives the loads of n targets, or nil if they are unknown.
func (c *Call) known(n int) []int64 {
	if len(c.Loads) != n {
		return nil
	}
	return c.Loads
}

// within gives word w of the set as far as it lies in [0, n): what a set holds beyond
// the pool does not count. A loop over a set that is fast enough for a pick:
//
//	for w := range s {
//		for word := s.within(w, n); word != 0; word &= word - 1 {
//			i := w<<6 | bits.TrailingZeros64(word)
//		}
//	}
func (s Set) within(w, n int) uint64 {
	n -= w << 6
	if n >= 64 {
		return s[w]
	}
	return s[w] & (1<<max(n, 0) - 1)
}

// following gives the smallest member in [from, n), else the smallest in [0, n), or -1.
func (s Set) following(from, n int) int {
	for _, from := range [...]int{from, 0} {
		if i := s.Next(from); i >= 0 && i < n {
			return i
		}
	}
	return -1
}

// why gives the reason for choosing i out of n: w, unless it was the only one
// or there was none.
func (s Set) why(w Why, i, n int) Why {
	switch {
	case i < 0:
		return WhyNone
	case s.following(i+1, n) == i:
		return WhyOnlyOne
	}
	return w
}
