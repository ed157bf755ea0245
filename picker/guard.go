package picker

import "math/bits"

// guard tells overloaded targets from others: the load guard that strategies share.
// With m the smallest load among the eligible, a target is overloaded when its
// load is above m + margin and above ratio * m.
//
// Example, margin 2 and ratio 1.5: with m = 0 a load of 3 is overloaded, with
// m = 6 it takes 10.
type guard struct {
	margin uint64
	ratio  float64
}

func newGuard(s Settings) guard {
	return guard{margin: uint64(max(s.GuardMargin, 0)), ratio: s.GuardRatio}
}

// overloaded compares a load with the smallest one. No load is so large that
// this overflows: the difference is taken only of a larger and a smaller number.
func (g guard) overloaded(load, least int64) bool {
	return load > least && uint64(load)-uint64(least) > g.margin && float64(load) > g.ratio*float64(least)
}

// least gives the smallest load among the eligible targets; ok is false if
// there is none or the loads are unknown (nil).
func least(loads []int64, eligible Set) (load int64, ok bool) {
	for w := range eligible {
		for word := eligible.within(w, len(loads)); word != 0; word &= word - 1 {
			if l := loads[w<<6|bits.TrailingZeros64(word)]; !ok || l < load {
				load, ok = l, true
			}
		}
	}
	return load, ok
}

// spare takes the overloaded out of a list of candidates, of which the smallest load
// is given. Who has that remains.
func (g guard) spare(loads []int64, cands []int, least int64) []int {
	spared := cands[:0]
	for _, i := range cands {
		if !g.overloaded(loads[i], least) {
			spared = append(spared, i)
		}
	}
	return spared
}
