package picker

import "slices"

// staticWeight prefers targets of large weight: weight / largest weight of a candidate.
type staticWeight struct {
	stateless
	weights []float64 // by index
}

func newStaticWeight(cfg Config) *staticWeight {
	s := &staticWeight{weights: make([]float64, len(cfg.Targets))}
	for i, t := range cfg.Targets {
		s.weights[i] = float64(max(t.Weight, 0))
	}
	return s
}

func (s *staticWeight) add(_ *Call, _ []int64, cands []int, weight float64, to []float64) {
	largest := 0.0
	for _, i := range cands {
		if s.weights[i] > largest {
			largest = s.weights[i]
		}
	}
	if largest == 0 {
		return
	}
	to = to[:len(cands)]
	for k, i := range cands {
		to[k] += weight * (s.weights[i] / largest)
	}
}

// leastLoad prefers idle targets: 1 - load / largest load of a candidate. It is flat
// when all loads are equal.
type leastLoad struct{ stateless }

func (leastLoad) add(_ *Call, loads []int64, cands []int, weight float64, to []float64) {
	to = to[:len(cands)]
	if loads == nil {
		for k := range to {
			to[k] += weight
		}
		return
	}
	largest := int64(1)
	for _, i := range cands {
		largest = max(largest, loads[i])
	}
	for k, i := range cands {
		to[k] += weight * (1 - float64(loads[i])/float64(largest))
	}
}

// minMatch is the length in bytes from which a known beginning of a text is a reason
// to prefer a target. What all texts of a kind begin with, such as "user: ", is none.
const minMatch = 64

// prefixCache prefers targets on which much of the text is known: match / length.
type prefixCache struct{ prefixes *prefixes }

func (s *prefixCache) prepare(c *Call) { s.prefixes.measure(c) }

func (s *prefixCache) add(c *Call, _ []int64, cands []int, weight float64, to []float64) {
	if !c.scratch.measured {
		return
	}
	to = to[:len(cands)]
	length := len(c.text())
	for k, i := range cands {
		if m := c.scratch.matched[i]; m >= minMatch || m == length {
			to[k] += weight * (float64(m) / float64(length))
		}
	}
}

func (s *prefixCache) observe(i int, c *Call) { s.prefixes.observe(i, c.text()) }
func (*prefixCache) withdraw(int, *Call)      {}

// cheapest ranks by cost.
type cheapest struct {
	stateless
	costs []float64 // by index, or unknown
	floor float64
}

func newCheapestScorer(cfg Config) *cheapest {
	s := &cheapest{costs: make([]float64, len(cfg.Targets)), floor: cfg.Settings.RankFloor}
	for i, t := range cfg.Targets {
		s.costs[i] = orUnknown(t.Cost, t.Cost > 0)
	}
	return s
}

func (s *cheapest) read(_ *Call, _ []int64, cands []int, into []float64) {
	into = into[:len(cands)]
	for k, i := range cands {
		into[k] = s.costs[i]
	}
}

func (s *cheapest) add(c *Call, loads []int64, cands []int, weight float64, to []float64) {
	c.ranking(s, loads, cands).add(s.floor, weight, to)
}

// fastest ranks by the latency of earlier answers.
type fastest struct {
	stateless
	source LatencySource
	n      int
	floor  float64
}

func (s *fastest) prepare(c *Call) { c.readLatencies(s.source, s.n) }

// readLatencies notes down the latency of n targets.
func (c *Call) readLatencies(source LatencySource, n int) {
	into := slices.Grow(c.scratch.latencies[:0], n)[:n]
	for i := range into {
		into[i] = unknown
		if source != nil {
			into[i] = orUnknown(source.Latency(i, c.Now))
		}
	}
	c.scratch.latencies = into
}

func (s *fastest) read(c *Call, _ []int64, cands []int, into []float64) {
	into = into[:len(cands)]
	for k, i := range cands {
		into[k] = c.scratch.latencies[i]
	}
}

func (s *fastest) add(c *Call, loads []int64, cands []int, weight float64, to []float64) {
	c.ranking(s, loads, cands).add(s.floor, weight, to)
}
