package main

import (
	"math"
	"time"
)

// Bounds of a histogram: bucket i reaches up to histogramLow * histogramStep^i, the
// last takes everything above 100 s.
const (
	histogramLow     = 100 * time.Microsecond
	histogramStep    = 1.02 // quantiles are right to within 2 %
	histogramBuckets = 700
)

// histogram counts durations in fixed memory, however many there are.
type histogram struct {
	counts [histogramBuckets]int
	total  int
}

func (h *histogram) add(d time.Duration) {
	i := 0
	if d > histogramLow {
		i = int(math.Ceil(math.Log(float64(d)/float64(histogramLow)) / math.Log(histogramStep)))
	}
	h.counts[min(i, histogramBuckets-1)]++
	h.total++
}

// quantile is a duration that at least the share q of all does not exceed; 0 without any.
func (h *histogram) quantile(q float64) time.Duration {
	if h.total == 0 {
		return 0
	}
	rank := int(math.Ceil(q * float64(h.total)))
	seen := 0
	for i, n := range h.counts {
		if seen += n; seen >= max(1, rank) {
			return time.Duration(float64(histogramLow) * math.Pow(histogramStep, float64(i)))
		}
	}
	return 0 // cannot be: the counts add up to total
}

// plus adds another histogram's counts.
func (h *histogram) plus(other *histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
}
