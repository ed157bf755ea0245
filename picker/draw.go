package picker

import (
	"math/bits"
	"math/rand/v2"
)

// dice is where a balancer's random draws come from.
type dice struct{ source rand.Source }

// below draws from [0, n), n > 0. All are equally likely but for one part in 2^64/n.
func (d dice) below(n int) int {
	var x uint64
	if d.source != nil {
		x = d.source.Uint64()
	} else {
		x = rand.Uint64()
	}
	hi, _ := bits.Mul64(x, uint64(n))
	return int(hi)
}

// count gives the number of members below n.
func (s Set) count(n int) int {
	k := 0
	for w := range s {
		k += bits.OnesCount64(s.within(w, n))
	}
	return k
}

// nth gives member k, counted from 0, of those below n, of which there must be
// more than k.
func (s Set) nth(k, n int) int {
	for w := range s {
		word := s.within(w, n)
		if here := bits.OnesCount64(word); k >= here {
			k -= here
			continue
		}
		if word&(word+1) == 0 { // no gaps
			return w<<6 | k
		}
		for range k {
			word &= word - 1
		}
		return w<<6 | bits.TrailingZeros64(word)
	}
	return -1
}

// members appends the members below n to a list.
func (s Set) members(to []int, n int) []int {
	for w := range s {
		for word := s.within(w, n); word != 0; word &= word - 1 {
			to = append(to, w<<6|bits.TrailingZeros64(word))
		}
	}
	return to
}
