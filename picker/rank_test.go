package picker

import (
	"math"
	"slices"
	"testing"
)

func TestRank(t *testing.T) {
	const q = unknown
	for _, test := range []struct {
		name   string
		values []float64
		floor  float64
		want   []float64
	}{
		{"case 64", []float64{2, q, 4}, .1, []float64{1, .5, 0}},
		{"case 64, nothing known", []float64{q, q}, .1, []float64{1, 1}},
		{"case 64, equal", []float64{5, 5}, .1, []float64{1, 1}},
		{"case 68", []float64{100, q, 500}, .1, []float64{1, .5, 0}},
		{"case 68, near", []float64{40, 41}, .1, []float64{1, .75}},
		{"case 68, at the floor", []float64{40, 44}, .1, []float64{1, 0}},
		{"case 68, three", []float64{100, 101, 200}, .1, []float64{1, .99, 0}},
		{"case 71, P13: zero is a value", []float64{0, 80}, .1, []float64{1, 0}},
		{"case 71, zeros", []float64{0, 0}, .1, []float64{1, 1}},
		{"P14", []float64{40, q, 41}, .1, []float64{1, .5, .75}},
		{"one known", []float64{q, 7, q}, .1, []float64{1, 1, 1}},
		{"no floor", []float64{40, 41}, 0, []float64{1, 0}},
		{"floor of all", []float64{40, 60}, 1, []float64{1, .5}},
		{"nobody", nil, .1, nil},
		{"largest", []float64{0, math.MaxFloat64}, .1, []float64{1, 0}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := make([]float64, len(test.values))
			r := ranking{values: test.values}
			r.sum()
			r.add(test.floor, 1, got)
			if !near(got, test.want, 1e-12) {
				t.Errorf("got %v, want %v", got, test.want)
			}
			r.add(test.floor, 2, got)
			for k := range got {
				got[k] /= 3
			}
			if !near(got, test.want, 1e-12) {
				t.Errorf("added with weight 2: %v", got)
			}
		})
	}
}

func TestOrUnknown(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1} {
		if got := orUnknown(v, true); got != unknown {
			t.Errorf("%v is taken for %v", v, got)
		}
	}
	for _, v := range []float64{0, .001, math.MaxFloat64} {
		if got := orUnknown(v, true); got != v {
			t.Errorf("%v is taken for %v", v, got)
		}
		if got := orUnknown(v, false); got != unknown {
			t.Errorf("%v is not known and taken for %v", v, got)
		}
	}
}

// Costs of 0 and less, or none at all, are unknown.
func TestUnknownCosts(t *testing.T) {
	cfg := newConfig("cheapest", 5)
	for i, cost := range []float64{0, -3, math.NaN(), math.Inf(1), 2} {
		cfg.Targets[i].Cost = cost
	}
	part := newCheapestScorer(cfg)
	if want := []float64{unknown, unknown, unknown, unknown, 2}; !slices.Equal(part.costs, want) {
		t.Errorf("got %v, want %v", part.costs, want)
	}
}
