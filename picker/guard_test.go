package picker

import (
	"math"
	"testing"
)

func TestGuard(t *testing.T) {
	const largest = math.MaxInt64
	for _, test := range []struct {
		name     string
		loads    []int64
		eligible Set
		target   int
		want     bool
	}{
		{"case 47, all at the largest", []int64{largest, largest, largest}, all(3), 0, false},
		{"case 47, one at it, one 0", []int64{largest, 0}, all(2), 0, true},
		{"case 47, nobody eligible", []int64{largest, 0}, NewSet(2), 0, false},
		{"largest but one above 0", []int64{largest - 1, 0}, all(2), 0, true},
		{"largest against two thirds of it", []int64{largest, largest / 3 * 2}, all(2), 0, false},
		{"largest against half of it", []int64{largest, largest / 2}, all(2), 0, true},
		{"unknown", nil, all(2), 0, false},
		{"margin is strict", []int64{2, 0}, all(2), 0, false},
		{"above the margin", []int64{3, 0}, all(2), 0, true},
		{"ratio is strict", []int64{9, 6}, all(2), 0, false},
		{"above the ratio", []int64{10, 6}, all(2), 0, true},
		{"above the ratio only", []int64{2, 1}, all(2), 0, false},
		{"above the margin only", []int64{103, 100}, all(2), 0, false},
		{"the idle one is out", []int64{10, 8, 0}, all(3, 2), 0, false},
		{"the least loaded itself", []int64{5, 9}, all(2), 0, false},
		{"n = 130, the least in the last word", append(make([]int64, 129, 130), 1), only(130, 129), 129, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, known := least(test.loads, test.eligible)
			got := known && newGuard(DefaultSettings()).overloaded(test.loads[test.target], m)
			if got != test.want {
				t.Errorf("overloaded %v against %d (%v), want %v", got, m, known, test.want)
			}
		})
	}
}

func TestGuardSettings(t *testing.T) {
	s := DefaultSettings()
	s.GuardMargin, s.GuardRatio = 5, 3
	g := newGuard(s)
	for _, test := range []struct {
		load, least int64
		want        bool
	}{{5, 0, false}, {6, 0, true}, {9, 3, false}, {10, 3, true}} {
		if got := g.overloaded(test.load, test.least); got != test.want {
			t.Errorf("%d against %d: %v", test.load, test.least, got)
		}
	}
}
