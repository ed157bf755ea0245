package picker

import (
	"math"
	"slices"
)

// Scorer names a part of a scored strategy, which gives each candidate a number in
// [0, 1], higher is better.
type Scorer uint8

// The scorers.
const (
	ScorerSession Scorer = iota
	ScorerWeight
	ScorerLoad
	ScorerPrefix
	ScorerCost
	ScorerLatency
	ScorerPrediction
	ScorerKV
	ScorerLMCache
	ScorerLoRA
)

var scorerNames = [...]string{"session_affinity", "static_weight", "least_load", "prefix_cache", "cheapest", "fastest",
	"predicted_latency", "precise_kv_cache", "lmcache", "lora"}

// String gives the word used in configuration, explanations and the API.
func (s Scorer) String() string { return scorerNames[s] }

// scorer is what a Scorer does.
type scorer interface {
	// prepare puts into the call what depends only on the request.
	prepare(c *Call)
	// add adds weight times the score of target cands[k] to to[k], taking no other
	// target into account. loads are those of all targets by index, or nil.
	add(c *Call, loads []int64, cands []int, weight float64, to []float64)
	// observe and withdraw do what Balancer.Observe and Withdraw say. i is in range.
	observe(i int, c *Call)
	withdraw(i int, c *Call)
}

// stateless is a scorer that learns nothing and needs nothing prepared.
type stateless struct{}

func (stateless) prepare(*Call)       {}
func (stateless) observe(int, *Call)  {}
func (stateless) withdraw(int, *Call) {}

// tie is how far a total may be below the best one and count as equal.
const tie = 1.2e-7

// stack is scorers with their weights.
type stack struct {
	all     []scorer // learn of everything
	active  []scorer // have a weight and are asked
	names   []Scorer // of the active ones
	weights []float64
	dice    dice
}

// put puts a scorer into the stack. One without a weight learns but is not asked.
func (s *stack) put(name Scorer, weight float64, part scorer) {
	s.all = append(s.all, part)
	if weight > 0 {
		s.active, s.names, s.weights = append(s.active, part), append(s.names, name), append(s.weights, weight)
	}
}

func (s *stack) prepare(c *Call) {
	for _, part := range s.active {
		part.prepare(c)
	}
}

// choice is the scratch of a scored choice. What is by candidate is in the order of cands.
type choice struct {
	cands   []int     // the candidates, by index of the target
	totals  []float64 // by candidate
	ranking ranking   // of a scorer that ranks
	columns []float64 // for a trace: scores of each scorer and then the totals, by index; NaN = no candidate
}

// choose gives the candidate with the highest total, any of those that are equal. n is
// the number of targets.
func (s *stack) choose(c *Call, loads []int64, cands []int, n int) int {
	switch len(cands) {
	case 0:
		c.Why = WhyNone
		return -1
	case 1:
		c.Why = WhyOnlyOne
		return cands[0]
	}
	totals := s.total(c, loads, cands, n)
	most := totals[0]
	for _, v := range totals {
		if v > most {
			most = v
		}
	}
	first, ties := -1, 0
	for k, v := range totals {
		if v >= most-tie {
			if ties++; first < 0 {
				first = k
			}
		}
	}
	c.Why = WhyScore
	if ties > 1 {
		c.Why = WhyTie
		for skip := s.dice.below(ties); skip > 0; skip-- {
			for first++; totals[first] < most-tie; first++ {
			}
		}
	}
	return cands[first]
}

// total gives the weighted sum of the scores of each candidate.
func (s *stack) total(c *Call, loads []int64, cands []int, n int) []float64 {
	h := &c.scratch.choice
	h.totals = slices.Grow(h.totals[:0], len(cands))[:len(cands)]
	clear(h.totals)
	for p, part := range s.active {
		part.add(c, loads, cands, s.weights[p], h.totals)
	}
	if c.Trace != nil && c.Attempt == 0 {
		s.note(c, loads, cands, n)
	}
	return h.totals
}

// note notes down for a trace the single scores and the totals.
func (s *stack) note(c *Call, loads []int64, cands []int, n int) {
	h := &c.scratch.choice
	size := (len(s.active) + 1) * n
	h.columns = slices.Grow(h.columns[:0], size+len(cands))[:size+len(cands)]
	score := h.columns[size:]
	h.columns = h.columns[:size]
	for k := range h.columns {
		h.columns[k] = math.NaN()
	}
	for p, part := range s.active {
		clear(score)
		part.add(c, loads, cands, 1, score)
		for k, i := range cands {
			h.columns[p*n+i] = score[k]
		}
	}
	for k, i := range cands {
		h.columns[len(s.active)*n+i] = h.totals[k]
	}
}

// scored is every strategy that adds up scores.
type scored struct {
	base
	stack   stack
	guard   guard
	guarded bool // overloaded targets are no candidates

	ranked ranked  // the scorer by whose values targets are tried, nil = none
	trials *trials // valid if ranked is not nil

	prefixes *prefixes // nil if no scorer needs them, as the others
	pins     *pins
	adapters *adapters
}

func (b *scored) estate() estate {
	e := estate{strategy: b.name, ids: b.ids, prefixes: b.prefixes, pins: b.pins, adapters: b.adapters}
	if b.trials != nil {
		e.trials = b.trials.of
	}
	return e
}

// Prepare implements Balancer.
func (b *scored) Prepare(c *Call) {
	c.scratch.begin(b)
	b.stack.prepare(c)
	if b.ranked != nil {
		b.trials.watch(c.scratch.latencies)
	}
}

// Pick implements Balancer.
func (b *scored) Pick(c *Call) int {
	if c.scratch.by != b {
		b.Prepare(c)
	}
	c.Informed = false
	c.beginTrace()
	n := len(b.ids)
	loads := c.known(n)
	h := &c.scratch.choice
	h.ranking.of = nil
	h.cands = c.Eligible.members(h.cands[:0], n)
	var m int64
	if loads != nil && (b.guarded || b.ranked != nil) {
		m, _ = least(loads, c.Eligible)
		c.traceGuard(b.guard, m)
	}
	if b.guarded && loads != nil {
		h.cands = b.guard.spare(loads, h.cands, m)
	}
	if b.ranked != nil && c.Attempt == 0 {
		if i := b.try(c, loads, h.cands, m); i >= 0 {
			return c.traced(b, i)
		}
	}
	return c.traced(b, b.stack.choose(c, loads, h.cands, n))
}

func (b *scored) scorers() []Scorer { return b.stack.names }

// Observe implements Balancer.
func (b *scored) Observe(i int, c *Call) {
	if i < 0 || i >= len(b.ids) {
		return
	}
	for _, part := range b.stack.all {
		part.observe(i, c)
	}
}

// Withdraw implements Balancer.
func (b *scored) Withdraw(i int, c *Call) {
	if i < 0 || i >= len(b.ids) {
		return
	}
	for _, part := range b.stack.all {
		part.withdraw(i, c)
	}
}
