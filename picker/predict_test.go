package picker

import (
	"math"
	"strings"
	"testing"
	"time"
)

// P16.
func TestPromptTokens(t *testing.T) {
	for _, test := range []struct {
		name string
		q    Request
		want int64
	}{
		{"ids", Request{TokenIDs: []uint32{1, 2, 3, 4, 5}, Length: 4000}, 5},
		{"text alone", Request{Text: []byte("12345678")}, 2},
		{"rounded down", Request{Length: 7}, 1},
		{"nothing", Request{}, 0},
		{"length", Request{Length: 200_000, Text: []byte("cut")}, 50_000},
		{"no ids at all is known", Request{TokenIDs: []uint32{}, Length: 400}, 0},
	} {
		if got := test.q.PromptTokens(); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

// P17 and P18 as far as the decision goes: the features that served the prediction.
func TestFeatures(t *testing.T) {
	ids := make([]uint32, 4000)
	for _, test := range []struct {
		name string
		q    *Request
		hit  KVHit
		full bool
		load []int64
		want Features
	}{
		{"P17", &Request{TokenIDs: ids}, KVHit{true, 1, .75}, false, nil, Features{0, 1}},
		{"P17, full", &Request{TokenIDs: ids}, KVHit{true, 1, .75}, true, nil, Features{0, 4}},
		{"index not usable", &Request{TokenIDs: ids}, KVHit{false, 1, .75}, false, nil, Features{0, 4}},
		{"no KV score", &Request{TokenIDs: ids, KVOff: true}, KVHit{true, 1, .75}, false, nil, Features{0, 4}},
		{"no ids", &Request{Length: 16_000}, KVHit{true, 1, .75}, false, nil, Features{0, 4}},
		{"nothing known", nil, KVHit{}, false, nil, Features{}},
		{"P18", &Request{Length: 16_000}, KVHit{}, false, []int64{3}, Features{3, 4}},
		{"loads of wrong length", &Request{Length: 16_000}, KVHit{}, false, []int64{3, 9}, Features{0, 4}},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := newConfig("predicted_latency", 1)
			d := newTold(1)
			d.hits[0] = test.hit
			cfg.Sources, cfg.Settings.PredictFullPrompt = d.sources(), test.full
			b := mustNew(t, cfg, nil)
			c := Call{Request: test.q, Loads: test.load, Eligible: all(1)}
			b.Pick(&c)
			if got, ok := c.Features(0); !ok || got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
			for _, i := range []int{-1, 1} {
				if _, ok := c.Features(i); ok {
					t.Errorf("features of target %d", i)
				}
			}
			c.Reset()
			if _, ok := c.Features(0); ok {
				t.Error("features of a call that was reset")
			}
		})
	}
}

func TestLatencyModel(t *testing.T) {
	m := LatencyModel{10, 100, 300}
	for x, want := range map[Features]float64{{}: 10, {5, 0}: 510, {0, 4}: 1210, {2, .5}: 360} {
		if got := m.Predict(x); got != want {
			t.Errorf("%v: %v, want %v", x, got, want)
		}
	}
	m = LatencyModel{300, -100, 0}
	if got, raw := m.Predict(Features{Queue: 6}), m.Raw(Features{Queue: 6}); got != 0 || raw != -300 {
		t.Errorf("got %v, raw %v", got, raw)
	}
}

// A model that gives no number predicts nothing.
func TestPredictionOfNoNumber(t *testing.T) {
	f := forecast{known: true}
	for _, v := range []float64{math.NaN(), math.Inf(1)} {
		f.model.Fixed = v
		if got := f.predict(nil, 0); got != unknown {
			t.Errorf("%v predicts %v", v, got)
		}
	}
	f.known, f.model.Fixed = false, 5
	if got := f.predict(nil, 0); got != unknown {
		t.Errorf("a model without samples predicts %v", got)
	}
}

// P28.
func TestPredictedLatency(t *testing.T) {
	cfg := newConfig("predicted_latency", 2)
	d := newTold(2)
	d.models[0], d.models[1] = &LatencyModel{10, 100, 0}, &LatencyModel{10, 0, 300}
	cfg.Sources = d.sources()
	b := mustNew(t, cfg, nil)
	for _, test := range []struct {
		text  string
		loads []int64
		want  int
	}{{"hi", []int64{5, 5}, 1}, {strings.Repeat("long ", 3200), []int64{0, 0}, 0}} {
		count := 0
		for range 40 {
			q := Request{Text: []byte(test.text), Length: int64(len(test.text))}
			c := Call{Request: &q, Loads: test.loads, Eligible: all(2)}
			if b.Pick(&c) == test.want {
				count++
			}
		}
		if count <= 30 {
			t.Errorf("%d bytes, loads %v: target %d got %d of 40", len(test.text), test.loads, test.want, count)
		}
	}
}

// There is a model of each kind of answer.
func TestPredictionByKind(t *testing.T) {
	cfg := newConfig("predicted_latency", 2)
	cfg.Sources.Predictor = byKind{}
	b := mustNew(t, cfg, nil)
	for kind, want := range map[Kind]int{Unary: 0, Stream: 1} {
		c := Call{Request: &Request{Kind: kind}, Eligible: all(2)}
		if got := b.Pick(&c); got != want {
			t.Errorf("%v: %d", kind, got)
		}
	}
}

type byKind struct{}

func (byKind) Model(i int, k Kind) (LatencyModel, bool) {
	if (i == 0) == (k == Unary) {
		return LatencyModel{Fixed: 50}, true
	}
	return LatencyModel{Fixed: 5000}, true
}

// Sources are asked for the time of the call.
func TestSourcesGetTheTime(t *testing.T) {
	cfg := newConfig("fastest", 2)
	cfg.Sources.Latency = lapsing{}
	b := mustNew(t, cfg, nil)
	for now, want := range map[int64]int{0: 0, 400: 1} {
		c := Call{Now: time.Unix(now, 0), Loads: []int64{1, 0}, Eligible: all(2)}
		if got := b.Pick(&c); got != want {
			t.Errorf("at %d: %d", now, got)
		}
	}
}

type lapsing struct{}

func (lapsing) Latency(i int, now time.Time) (float64, bool) {
	return float64(10 + i*90), now.Unix() < 300
}
