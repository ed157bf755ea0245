package tracker

import (
	"math"
	"testing"
	"time"
)

// base is some time; the tracker has no clock of its own.
var base = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return base.Add(time.Duration(seconds * float64(time.Second))) }

func settings() Settings {
	return Settings{
		LatencyAlpha: 0.3, LatencyIdle: 5 * time.Minute,
		CooldownBase: 5 * time.Second, CooldownMax: 300 * time.Second, ForgetAfter: 10 * time.Minute,
	}
}

func TestLatency(t *testing.T) {
	type sample struct{ at, ms float64 }
	for _, test := range []struct {
		name    string
		samples []sample
		asked   float64
		want    float64 // 0 = unknown
	}{
		{"no sample", nil, 0, 0},
		{"case 105: the first as it is, then the mean moves", []sample{{0, 100}, {1, 200}}, 2, 130},
		{"case 106: below a millisecond", []sample{{0, 0.2}}, 1, 0.2},
		{"at least a microsecond", []sample{{0, 0}}, 1, 0.001},
		{"case 107: known just before it lapses", []sample{{0, 100}}, 299.9, 100},
		{"case 107: unknown after five minutes", []sample{{0, 100}}, 300, 0},
		{"case 107: the next sample starts afresh", []sample{{0, 100}, {300, 50}}, 301, 50},
		{"every sample keeps it alive", []sample{{0, 100}, {299, 100}, {598, 100}}, 800, 100},
	} {
		t.Run(test.name, func(t *testing.T) {
			target := New(settings()).Target("a")
			for _, s := range test.samples {
				target.Sample(at(s.at), s.ms)
			}
			got, ok := target.Latency(at(test.asked))
			if ok != (test.want != 0) || math.Abs(got-test.want) > 1e-9 {
				t.Errorf("latency %g (%t), want %g", got, ok, test.want)
			}
		})
	}
}

func TestLatencySettingsApplyAtOnce(t *testing.T) {
	tr := New(settings())
	target := tr.Target("a")
	target.Sample(at(0), 100)
	s := settings()
	s.LatencyIdle, s.LatencyAlpha = 0, 1
	tr.Configure(s)
	if ms, ok := target.Latency(at(86400)); !ok || ms != 100 {
		t.Errorf("without a limit: %g (%t), want 100", ms, ok)
	}
	target.Sample(at(86401), 7)
	if ms, _ := target.Latency(at(86401)); ms != 7 {
		t.Errorf("with alpha 1: %g, want 7", ms)
	}
}

func TestPark(t *testing.T) {
	type park struct {
		at   float64
		hint time.Duration
	}
	const none = NoHint
	for _, test := range []struct {
		name  string
		base  time.Duration
		parks []park
		until float64 // 0 = never parked
	}{
		{"case 210: a base of 60 s", 60 * time.Second, []park{{0, none}}, 60},
		{"case 210: a base of 0", 0, []park{{0, none}}, 0},
		{"case 211: never shortened", 5 * time.Second, []park{{0, 60 * time.Second}, {1, 5 * time.Second}}, 60},
		{"case 212: a hint above the base", 5 * time.Second, []park{{0, 7 * time.Second}}, 7},
		{"case 212: a hint below the base", 5 * time.Second, []park{{0, time.Second}}, 5},
		{"case 212: a hint above the maximum", 5 * time.Second, []park{{0, 9999 * time.Second}}, 300},
		{"a hint of nothing", 5 * time.Second, []park{{0, 0}}, 5},
		{"a hint between base and maximum", 5 * time.Second, []park{{0, 90 * time.Second}}, 90},
		{"without a hint", 5 * time.Second, []park{{0, none}}, 5},
		{"a hint too large to represent", 5 * time.Second, []park{{0, math.MaxInt64}}, 300},
		{"case 215: switched off, with a hint", 0, []park{{0, 60 * time.Second}}, 0},
		{"report 078: a second failure prolongs", 10 * time.Second, []park{{0, none}, {8, none}}, 18},
		{"report 078: the later deadline wins", 60 * time.Second, []park{{0, time.Second}, {0, none}}, 60},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := settings()
			s.CooldownBase = test.base
			tr := New(s)
			target, other := tr.Target("a"), tr.Target("b")
			for _, p := range test.parks {
				target.Park(at(p.at), p.hint)
			}
			if test.until == 0 {
				if target.Parked(at(0)) {
					t.Error("parked")
				}
				return
			}
			if !target.Parked(at(test.until - 0.001)) {
				t.Errorf("not parked just before %g s", test.until)
			}
			if target.Parked(at(test.until)) {
				t.Errorf("still parked at %g s", test.until)
			}
			if other.Parked(at(0)) {
				t.Error("another target is parked")
			}
		})
	}
}

// A trip is counted when a target is parked that was not.
func TestParkTellsTrips(t *testing.T) {
	target := New(settings()).Target("a")
	for _, step := range []struct {
		at   float64
		hint time.Duration
		want bool
	}{
		{0, NoHint, true},               // until 5
		{1, 0, false},                   // until 6: prolonged
		{2, NoHint, false},              // until 7: prolonged
		{2, NoHint, false},              // the same again
		{7, NoHint, true},               // until 12: it had ended
		{11, 60 * time.Second, false},   // until 71
		{12, NoHint, false},             // shorter than what runs
		{300, 300 * time.Second, true},  // long after
		{301, 100 * time.Second, false}, // shorter than what runs
	} {
		if got := target.Park(at(step.at), step.hint); got != step.want {
			t.Errorf("park at %g s tells %t, want %t", step.at, got, step.want)
		}
	}
}

// Cooldowns switched off by a reload: whoever is parked may be chosen at once.
func TestCooldownSwitchedOff(t *testing.T) {
	tr := New(settings())
	target := tr.Target("a")
	target.Park(at(0), 60*time.Second)
	s := settings()
	s.CooldownBase = 0
	tr.Configure(s)
	if target.Parked(at(1)) {
		t.Error("parked although cooldowns are off")
	}
	tr.Configure(settings())
	if !target.Parked(at(2)) {
		t.Error("the running time is lost")
	}
}

func TestStatus500(t *testing.T) {
	for _, test := range []struct {
		name string
		was  []bool
		want []bool
	}{
		{"case 418: one", []bool{true}, []bool{false}},
		{"case 418: two in a row", []bool{true, true}, []bool{false, true}},
		{"case 418: another outcome between", []bool{true, false, true}, []bool{false, false, false}},
		{"three in a row", []bool{true, true, true}, []bool{false, true, true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			target := New(settings()).Target("a")
			for i, is := range test.was {
				if got := target.Status500(is); got != test.want[i] {
					t.Errorf("outcome %d: again %t, want %t", i, got, test.want[i])
				}
			}
		})
	}
}
