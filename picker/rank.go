package picker

import (
	"math"
	"slices"
)

// unknown is a value to be ranked that nobody knows. All others are at least 0.
const unknown = -1

// orUnknown gives v, or unknown if v is no number that can be ranked.
func orUnknown(v float64, ok bool) float64 {
	if ok && v >= 0 && v <= math.MaxFloat64 {
		return v
	}
	return unknown
}

// ranking is values of candidates, and what they come to.
type ranking struct {
	of      ranked    // whose they are, nil = nobody's
	values  []float64 // by candidate
	lo, hi  float64   // the smallest and the largest known one, lo > hi if there is none
	missing int       // number of those that are unknown
}

// flat tells whether the known values say nothing for or against anybody.
func (r *ranking) flat() bool { return r.lo >= r.hi }

// sum looks through the values.
func (r *ranking) sum() {
	r.lo, r.hi, r.missing = math.Inf(1), math.Inf(-1), 0
	for _, v := range r.values { // plain comparisons: min and max take care of NaN, for twice the time
		if v < 0 {
			r.missing++
			continue
		}
		if v < r.lo {
			r.lo = v
		}
		if v > r.hi {
			r.hi = v
		}
	}
}

// add adds to each of to the weighted place of the value among all of them, from 1 for
// the smallest down to 0. With d = max(hi - lo, floor * lo) a known value v gets
// 1 - (v - lo) / d and an unknown one 0.5. All get 1 if the ranking is flat.
//
// Examples, floor 0.1: [2, ?, 4] gives [1, 0.5, 0] and [40, 41] gives [1, 0.75]: a
// difference of a fortieth is not a reason to take the first at any load.
func (r *ranking) add(floor, weight float64, to []float64) {
	to = to[:len(r.values)]
	if r.flat() {
		for k := range to {
			to[k] += weight
		}
		return
	}
	lo, d := r.lo, max(r.hi-r.lo, floor*r.lo)
	for k, v := range r.values {
		score := 0.5
		if v >= 0 {
			score = 1 - (v-lo)/d
		}
		to[k] += weight * score
	}
}

// ranked is a scorer that ranks by values of which some may be unknown.
type ranked interface {
	// read sets into[k] to the value of target cands[k], or to unknown.
	read(c *Call, loads []int64, cands []int, into []float64)
}

// ranking gives the candidates' values by which r ranks. They stay valid until somebody
// else's are asked for.
func (c *Call) ranking(r ranked, loads []int64, cands []int) *ranking {
	h := &c.scratch.choice.ranking
	if h.of != r {
		h.of, h.values = r, slices.Grow(h.values[:0], len(cands))[:len(cands)]
		r.read(c, loads, cands, h.values)
		h.sum()
	}
	return h
}
