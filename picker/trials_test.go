package picker

import "testing"

// tries makes picks in turn, each of which has ended before the next, and tells how
// many fell on target i.
func tries(b Balancer, picks, i int, loads []int64, end func(c *Call, i int)) int {
	count := 0
	for range picks {
		c := Call{Loads: loads, Eligible: all(b.Len())}
		got := b.Pick(&c)
		b.Observe(got, &c)
		if got == i {
			count++
		}
		if (c.Why == WhyTrial) != (got == i) {
			return -1
		}
		end(&c, got)
	}
	return count
}

func failed(c *Call, i int) { c.Ended(i) }

func fastestOf(t *testing.T, ms ...float64) (Balancer, *told) {
	cfg := newConfig("fastest", len(ms))
	d := newTold(len(ms))
	copy(d.latency, ms)
	cfg.Sources = d.sources()
	return mustNew(t, cfg, nil), d
}

// Cases 72 and 74.
func TestTrialsOfOneThatFails(t *testing.T) {
	b, _ := fastestOf(t, 40, 400, -1)
	if got := tries(b, 50, 2, nil, failed); got != 8 {
		t.Errorf("tried %d times", got)
	}
	for _, budget := range []int{0, -3, 1} {
		cfg := newConfig("fastest", 3)
		cfg.Settings.TrialPicks = budget
		d := newTold(3)
		copy(d.latency, []float64{40, 400, -1})
		cfg.Sources = d.sources()
		if got := tries(mustNew(t, cfg, nil), 50, 2, nil, failed); got != max(budget, 0) {
			t.Errorf("budget %d: tried %d times", budget, got)
		}
	}
}

// Case 73.
func TestTrialOutstanding(t *testing.T) {
	b, _ := fastestOf(t, 40, 400, -1)
	pick := func() (*Call, int) {
		c := &Call{Eligible: all(3)}
		return c, b.Pick(c)
	}
	trial, got := pick()
	if got != 2 || trial.Why != WhyTrial {
		t.Fatalf("got %d (%v)", got, trial.Why)
	}
	for range 20 {
		if c, got := pick(); got != 0 {
			t.Fatalf("meanwhile %d (%v)", got, c.Why)
		}
	}
	trial.Ended(0) // another attempt of the request
	if _, got := pick(); got != 0 {
		t.Errorf("after another attempt ended: %d", got)
	}
	trial.Ended(2)
	trial.Ended(2)
	second, got := pick()
	if got != 2 {
		t.Errorf("after it ended: %d", got)
	}
	second.Reset() // a decision that was dropped
	if _, got := pick(); got != 2 {
		t.Errorf("after it was dropped: %d", got)
	}
}

// A call that is picked for again holds no trial of before.
func TestTrialPickedAgain(t *testing.T) {
	b, _ := fastestOf(t, 40, 400, -1)
	c := Call{Eligible: all(3)}
	for k := range 12 {
		want := 2
		if k >= 8 {
			want = 0
		}
		if got := b.Pick(&c); got != want {
			t.Errorf("pick %d: %d", k, got)
		}
	}
}

func TestTrialRules(t *testing.T) {
	for _, test := range []struct {
		name    string
		ms      []float64
		attempt int
		loads   []int64
		out     []int
		want    int
		why     Why
	}{
		{"flat ranking: one known", []float64{40, -1, -1}, 0, []int64{1, 0, 1}, nil, 1, WhyScore},
		{"flat ranking: equal", []float64{40, 40, -1}, 0, []int64{1, 0, 1}, nil, 1, WhyScore},
		{"flat without the one that is out", []float64{40, 400, -1}, 0, []int64{1, 0, 2}, []int{0}, 1, WhyScore},
		{"later entries are no trials", []float64{40, 400, -1}, 1, nil, nil, 0, WhyScore},
		{"all known", []float64{40, 400, 300}, 0, nil, nil, 0, WhyScore},
		{"the unknown one is out", []float64{40, 400, -1}, 0, nil, []int{2}, 0, WhyScore},
		{"overloaded, though the guard is off", []float64{40, 400, -1}, 0, []int64{0, 0, 3}, nil, 0, WhyScore},
		{"at the margin", []float64{40, 400, -1}, 0, []int64{0, 0, 2}, nil, 2, WhyTrial},
		{"the idle one is out", []float64{40, 400, -1, 50}, 0, []int64{1, 1, 3, 0}, []int{3}, 2, WhyTrial},
		{"first of several", []float64{40, -1, 400, -1}, 0, nil, nil, 1, WhyTrial},
	} {
		t.Run(test.name, func(t *testing.T) {
			b, _ := fastestOf(t, test.ms...)
			c := Call{Attempt: test.attempt, Loads: test.loads, Eligible: all(len(test.ms), test.out...)}
			if got := b.Pick(&c); got != test.want || c.Why != test.why {
				t.Errorf("got %d (%v)", got, c.Why)
			}
		})
	}
}

// Among several the one with fewest trials spent.
func TestTrialsOfSeveral(t *testing.T) {
	b, _ := fastestOf(t, 40, -1, 400, -1)
	var got []int
	for range 20 {
		c := Call{Eligible: all(4)}
		i := b.Pick(&c)
		c.Ended(i)
		got = append(got, i)
	}
	for k, i := range got {
		want := 0
		if k < 16 {
			want = 1 + 2*(k%2)
		}
		if i != want {
			t.Errorf("pick %d: %d", k, i)
		}
	}
}

// What fills a budget: samples one, lapse and recovery all.
func TestTrialBudget(t *testing.T) {
	b, d := fastestOf(t, 40, 400, -1)
	sampled := 0
	if got := tries(b, 50, 2, nil, func(c *Call, i int) {
		if i == 2 && sampled < 5 {
			sampled++
			c.Sampled(i) // the sample itself comes to nothing here
			c.Sampled(i)
		} else {
			c.Ended(i)
		}
	}); got != 13 {
		t.Errorf("tried %d times, 5 of which yielded a sample", got)
	}

	b.Refill(2)
	if got := tries(b, 50, 2, nil, failed); got != 8 {
		t.Errorf("after recovery: tried %d times", got)
	}

	d.latency[2] = 90
	if got := tries(b, 5, 2, nil, failed); got != 0 {
		t.Errorf("while known: tried %d times", got)
	}
	d.latency[2] = -1
	if got := tries(b, 50, 2, nil, failed); got != 8 {
		t.Errorf("after the latency lapsed: tried %d times", got)
	}
	if got := tries(b, 50, 2, nil, failed); got != 0 {
		t.Errorf("and then: tried %d times", got)
	}

	c := Call{Eligible: all(3)}
	b.Refill(2)
	b.Pick(&c)
	b.Refill(2)
	c.Sampled(2)
	if got := b.(*scored).trials.of[2].spent.Load(); got != 0 {
		t.Errorf("given back what was full: %d", got)
	}
}

// Budgets, and trials that are outstanding, stay with the id over reloads.
func TestTrialsOverReload(t *testing.T) {
	config := func(ids ...string) Config {
		cfg := configOf("fastest", ids...)
		d := newTold(len(ids))
		for i, id := range ids {
			d.latency[i] = map[string]float64{"a": 40, "b": 400, "c": -1, "new": -1}[id]
		}
		cfg.Sources = d.sources()
		return cfg
	}
	b := mustNew(t, config("a", "b", "c"), nil)
	tries(b, 5, 2, nil, failed)
	trial := Call{Eligible: all(3)}
	b.Pick(&trial)

	b = mustNew(t, config("c", "b", "a"), b)
	if got := tries(b, 10, 0, nil, failed); got != 0 {
		t.Errorf("tried %d times while one of before was outstanding", got)
	}
	trial.Ended(2)
	if got := tries(b, 10, 0, nil, failed); got != 2 {
		t.Errorf("tried %d times, 6 having been spent before", got)
	}

	b = mustNew(t, config("a", "new", "b", "c"), b)
	if got := tries(b, 20, 1, nil, failed); got != 8 {
		t.Errorf("a new one: tried %d times", got)
	}
	b = mustNew(t, config("a", "b"), b)
	b = mustNew(t, config("a", "b", "c"), b)
	if got := tries(b, 20, 2, nil, failed); got != 8 {
		t.Errorf("one that was taken out and came back: tried %d times", got)
	}
	cfg := config("a", "b", "c")
	cfg.Strategy = "predicted_latency"
	other := mustNew(t, cfg, b)
	if got := other.(*scored).trials.of[2].spent.Load(); got != 0 {
		t.Errorf("another strategy starts with %d spent", got)
	}
}

// P26: it gets trials, one at a time, until it predicts.
func TestTrialsUntilPredicted(t *testing.T) {
	const minSamples = 8
	cfg := newConfig("predicted_latency", 3)
	d := newTold(3)
	d.models[0], d.models[1] = &LatencyModel{10, 100, 0}, &LatencyModel{10, 0, 300}
	cfg.Sources = d.sources()
	b := mustNew(t, cfg, nil)
	samples := 0
	got := tries(b, 50, 2, []int64{1, 1, 1}, func(c *Call, i int) {
		if i == 2 {
			if samples++; samples == minSamples {
				d.models[2] = &LatencyModel{Fixed: 5000}
			}
		}
		c.Sampled(i)
	})
	if got != minSamples {
		t.Errorf("tried %d times", got)
	}
}

// P27.
func TestTrialsOfOneThatNeverAnswers(t *testing.T) {
	cfg := newConfig("predicted_latency", 3)
	d := newTold(3)
	d.models[0], d.models[1] = &LatencyModel{10, 100, 0}, &LatencyModel{10, 0, 300}
	cfg.Sources = d.sources()
	if got := tries(mustNew(t, cfg, nil), 200, 2, []int64{1, 1, 1}, failed); got != 8 {
		t.Errorf("tried %d times", got)
	}
}

// In predicted_latency too a budget is filled when the latency lapses, and not
// when there is no source of it.
func TestTrialsOfPredictedLatencyLapse(t *testing.T) {
	for _, source := range []bool{true, false} {
		cfg := newConfig("predicted_latency", 3)
		d := newTold(3)
		d.models[0], d.models[1], d.latency[2] = &LatencyModel{Fixed: 10}, &LatencyModel{Fixed: 90}, 70
		cfg.Sources = d.sources()
		if !source {
			cfg.Sources.Latency = nil
		}
		b := mustNew(t, cfg, nil)
		if got := tries(b, 30, 2, nil, failed); got != 8 {
			t.Errorf("source %v: tried %d times", source, got)
		}
		d.latency[2] = -1
		want := 0
		if source {
			want = 8
		}
		if got := tries(b, 30, 2, nil, failed); got != want {
			t.Errorf("source %v, after the lapse: tried %d times", source, got)
		}
	}
}
