package picker

import "sync/atomic"

// trials are the picks by which a strategy that prefers the fast learns of targets of
// which it knows nothing: while it knows two others it would never take them.
type trials struct {
	of    []*trial // by index; shared by the balancers of a pool
	limit int32    // of each target
}

func newTrials(cfg Config, old estate) *trials {
	return &trials{
		of:    carried(cfg.Targets, old.ids, old.trials, func(string) *trial { return new(trial) }),
		limit: int32(min(max(cfg.Settings.TrialPicks, 0), maxTrials)),
	}
}

// maxTrials bounds the budget of a target, for arithmetic only.
const maxTrials = 1 << 30

// trial is one target's budget.
type trial struct {
	spent       atomic.Int32
	outstanding atomic.Bool // a trial has been picked and has not ended
	known       atomic.Bool // the latency was known when last looked at
}

// begin spends a trial, unless one is outstanding.
func (t *trial) begin() bool {
	if !t.outstanding.CompareAndSwap(false, true) {
		return false
	}
	t.spent.Add(1)
	return true
}

// giveBack takes a trial back as not spent.
func (t *trial) giveBack() {
	for {
		spent := t.spent.Load()
		if spent <= 0 || t.spent.CompareAndSwap(spent, spent-1) {
			return
		}
	}
}

// watch fills the budget of every target whose latency has lapsed since it was
// last looked at. latencies are by index, or none.
func (t *trials) watch(latencies []float64) {
	for i, ms := range latencies {
		known := ms >= 0
		if one := t.of[i]; one.known.Load() != known && one.known.Swap(known) && !known {
			one.spent.Store(0)
		}
	}
}

// due gives the candidate of unknown value that is not overloaded, has no trial
// outstanding, and has spent the fewest of those left to it; the first of several, or -1.
func (t *trials) due(values []float64, cands []int, loads []int64, least int64, g guard) int {
	best, fewest := -1, t.limit
	for k, i := range cands {
		if values[k] >= 0 {
			continue
		}
		one := t.of[i]
		if spent := one.spent.Load(); spent < fewest && !one.outstanding.Load() &&
			(loads == nil || !g.overloaded(loads[i], least)) {
			best, fewest = i, spent
		}
	}
	return best
}

// try gives the target to try, or -1.
func (b *scored) try(c *Call, loads []int64, cands []int, least int64) int {
	c.scratch.endTrial()
	r := c.ranking(b.ranked, loads, cands)
	if r.flat() || r.missing == 0 {
		return -1
	}
	for {
		i := b.trials.due(r.values, cands, loads, least, b.guard)
		if i < 0 {
			return -1
		}
		if t := b.trials.of[i]; t.begin() {
			c.Why, c.scratch.tried, c.scratch.triedAt = WhyTrial, t, i
			return i
		}
	}
}

// Sampled says that the attempt on target i yielded a latency sample, and has
// ended. If it was a trial pick it is given back.
func (c *Call) Sampled(i int) {
	if t := c.scratch.tried; t != nil && c.scratch.triedAt == i {
		t.giveBack()
		c.scratch.endTrial()
	}
}

// Ended says that the attempt on target i has ended without a latency sample. If it was
// a trial pick, the next one may follow. Reset says the same.
func (c *Call) Ended(i int) {
	if c.scratch.triedAt == i {
		c.scratch.endTrial()
	}
}

// endTrial lets the next trial follow the one that this call is, if it is one.
func (s *scratch) endTrial() {
	if s.tried != nil {
		s.tried.outstanding.Store(false)
		s.tried = nil
	}
}
