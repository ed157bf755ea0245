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

// spread gives the smallest and the largest known value, lo > hi if there is none. The
// ranking of these values is flat unless lo < hi.
func spread(values []float64) (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, v := range values { // plain comparisons: min and max take care of NaN, for twice the time
		if v >= 0 && v < lo {
			lo = v
		}
		if v >= 0 && v > hi {
			hi = v
		}
	}
	return lo, hi
}

// addRank adds to each of to the weighted place of the value among all of them, from 1
// for the smallest down to 0. With d = max(hi - lo, floor * lo) a known value v gets
// 1 - (v - lo) / d and an unknown one 0.5. All get 1 if the known ones do not differ.
//
// Examples, floor 0.1: [2, ?, 4] gives [1, 0.5, 0] and [40, 41] gives [1, 0.75]: a
// difference of a fortieth is not a reason to take the first at any load.
func addRank(values []float64, floor, weight float64, to []float64) {
	to = to[:len(values)]
	lo, hi := spread(values)
	if lo >= hi {
		for k := range to {
			to[k] += weight
		}
		return
	}
	d := max(hi-lo, floor*lo)
	for k, v := range values {
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

// values gives the values by which r ranks the candidates. They stay valid until somebody
// else's are asked for.
func (c *Call) values(r ranked, loads []int64, cands []int) []float64 {
	h := &c.scratch.choice
	if h.of != r {
		h.values = slices.Grow(h.values[:0], len(cands))[:len(cands)]
		r.read(c, loads, cands, h.values)
		h.of = r
	}
	return h.values
}
