package picker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// fixed is a scorer that gives fixed scores.
type fixed struct {
	stateless
	scores []float64 // by index
	asked  *int
}

func (s fixed) add(_ *Call, _ []int64, cands []int, weight float64, to []float64) {
	*s.asked++
	for k, i := range cands {
		to[k] += weight * s.scores[i]
	}
}

// Cases 60 and 61, ties and weights.
func TestScoredChoice(t *testing.T) {
	type part struct {
		weight float64
		scores []float64
	}
	for _, test := range []struct {
		name  string
		parts []part
		out   []int
		want  []int // all that may be chosen
		why   Why
		asked int
	}{
		{"case 60", []part{{1, []float64{1, .5, 1}}, {1, []float64{1, .5, 1}}}, nil, []int{0, 2}, WhyTie, 2},
		{"case 61", []part{{1, []float64{0, 1, 1}}}, []int{1, 2}, []int{0}, WhyOnlyOne, 0},
		{"case 62", []part{{1, []float64{1. / 9, 1}}}, nil, []int{1}, WhyScore, 1},
		{"weights", []part{{1, []float64{1, 0}}, {1.5, []float64{0, 1}}}, nil, []int{1}, WhyScore, 2},
		{"weight 0 is not asked", []part{{0, []float64{1, 0}}, {.1, []float64{0, 1}}}, nil, []int{1}, WhyScore, 1},
		{"weight below 0 is 0", []part{{-5, []float64{0, 1}}, {.1, []float64{1, 0}}}, nil, []int{0}, WhyScore, 1},
		{"nearly equal is equal", []part{{1, []float64{.5, .5 + 1e-7, .5 - 1e-3}}}, nil, []int{0, 1}, WhyTie, 1},
		{"not nearly", []part{{1, []float64{.5, .5 + 2e-7, 0}}}, nil, []int{1}, WhyScore, 1},
		{"who is out is no best", []part{{1, []float64{1, .2, .2}}}, []int{0}, []int{1, 2}, WhyTie, 1},
		{"no scorers", nil, nil, []int{0, 1, 2}, WhyTie, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := 3
			if len(test.parts) > 0 {
				n = len(test.parts[0].scores)
			}
			b := newScored(newConfig("double", n), Off)
			asked := 0
			for _, p := range test.parts {
				b.stack.put(ScorerLoad, p.weight, fixed{scores: p.scores, asked: &asked})
			}
			c := Call{Eligible: all(n, test.out...)}
			count := make([]int, n)
			for range 600 {
				asked = 0
				count[b.Pick(&c)]++
				if c.Why != test.why || asked != test.asked {
					t.Fatalf("%v after asking %d scorers", c.Why, asked)
				}
			}
			for i, got := range count {
				share := 600 / len(test.want)
				if in := slices.Contains(test.want, i); in && got < share*8/10 || !in && got > 0 {
					t.Errorf("target %d got %d of 600", i, got)
				}
			}
		})
	}
}

// scoredCase is a pool, what is known of it, what has happened, and who must be
// chosen then.
type scoredCase struct {
	name     string
	strategy string
	n        int
	config   func(cfg *Config)
	know     func(d *told)
	before   func(b Balancer)
	request  Request
	loads    []int64
	out      []int
	want     []int // all that may be chosen
}

func (test scoredCase) run(t *testing.T) {
	cfg := newConfig(test.strategy, test.n)
	if test.know != nil {
		d := newTold(test.n)
		test.know(d)
		cfg.Sources = d.sources()
	}
	if test.config != nil {
		test.config(&cfg)
	}
	b := mustNew(t, cfg, nil)
	if test.before != nil {
		test.before(b)
	}
	count := make([]int, test.n)
	c := Call{Request: &test.request, Loads: test.loads, Eligible: all(test.n, test.out...)}
	for range 100 {
		count[b.Pick(&c)]++
	}
	for i, got := range count {
		if in := slices.Contains(test.want, i); in != (got > 0) {
			t.Errorf("target %d got %d of 100, want all on %v", i, got, test.want)
		}
	}
}

func observe(i int, q Request) func(Balancer) {
	return func(b Balancer) { b.Observe(i, &Call{Request: &q}) }
}

func costs(costs ...float64) func(*Config) {
	return func(cfg *Config) {
		for i, cost := range costs {
			cfg.Targets[i].Cost = cost
		}
	}
}

func latencies(ms ...float64) func(*told) {
	return func(d *told) { copy(d.latency, ms) }
}

func resident(shares ...float64) func(*told) {
	return func(d *told) {
		for i, share := range shares {
			d.hits[i] = KVHit{Usable: true, Score: share}
		}
	}
}

func free(shares ...float64) func(*told) {
	return func(d *told) { copy(d.free, shares) }
}

var (
	tokens  = Request{TokenIDs: []uint32{1, 2, 3}}
	lora    = Request{Adapter: "summarizer"}
	spoken  = Request{Text: []byte(prompt)}
	session = Request{Session: "s"}
)

func both(a, b func(Balancer)) func(Balancer) {
	return func(bal Balancer) {
		a(bal)
		b(bal)
	}
}

func TestScoredStrategies(t *testing.T) {
	noTrials := func(cfg *Config) { cfg.Settings.TrialPicks = 0 }
	guardOff := func(cfg *Config) { cfg.Settings.Guard = Off }
	for _, test := range []scoredCase{
		{name: "case 63", strategy: "cheapest", n: 3, config: costs(3, .5, 10), want: []int{1}},
		{name: "case 63, the cheapest out", strategy: "cheapest", n: 3, config: costs(3, .5, 10), out: []int{1}, want: []int{0}},
		{name: "case 65", strategy: "cheapest", n: 2, config: costs(7, 7), loads: []int64{9, 0}, want: []int{1}},
		{name: "nothing priced: load", strategy: "cheapest", n: 2, loads: []int64{9, 0}, want: []int{1}},
		{name: "cheaper by much, loaded", strategy: "cheapest", n: 2, config: costs(1, 2), loads: []int64{9, 0}, want: []int{0}},
		{name: "cheaper by little, loaded", strategy: "cheapest", n: 2, config: costs(100, 101), loads: []int64{9, 0}, want: []int{1}},

		{name: "case 66", strategy: "fastest", n: 3, know: latencies(300, 40, 900), want: []int{1}},
		{name: "case 67", strategy: "fastest", n: 2, know: latencies(-1, -1), loads: []int64{7, 0}, want: []int{1}},
		{name: "case 67, no source", strategy: "fastest", n: 3, loads: []int64{5, 0, 9}, want: []int{1}},
		{name: "case 69", strategy: "fastest", n: 2, know: latencies(40, 40.5), loads: []int64{4, 0}, want: []int{1}},
		{name: "case 70", strategy: "fastest", n: 2, know: latencies(40, 400), loads: []int64{9, 0}, want: []int{0}},
		{name: "case 74", strategy: "fastest", n: 3, know: latencies(40, 400, -1), config: noTrials, want: []int{0}},

		{name: "case 75", strategy: "pipeline", n: 3, loads: []int64{9, 0, 4}, want: []int{1}},
		{name: "case 76", strategy: "pipeline", n: 3, before: observe(1, spoken), request: spoken, loads: []int64{0, 0, 0}, want: []int{1}},
		{name: "case 77", strategy: "pipeline", n: 3, before: observe(2, session), request: session, want: []int{2}},
		{name: "case 77, no key", strategy: "pipeline", n: 3, before: observe(2, session), want: []int{0, 1, 2}},
		{name: "case 77, ttl 0", strategy: "pipeline", n: 3, before: observe(2, session), request: session,
			config: func(cfg *Config) { cfg.Settings.SessionTTL = 0 }, want: []int{0, 1, 2}},
		{name: "no sessions kept", strategy: "pipeline", n: 3, before: observe(2, session), request: session,
			config: func(cfg *Config) { cfg.Settings.SessionMax = 0 }, want: []int{0, 1, 2}},
		{name: "case 77, its target out", strategy: "pipeline", n: 3, before: observe(2, session), request: session, out: []int{2}, want: []int{0, 1}},
		{name: "case 78", strategy: "pipeline", n: 2, loads: []int64{0, 5}, config: func(cfg *Config) {
			cfg.Targets[1].Weight, cfg.Settings.Pipeline = 100, PipelineWeights{LeastLoad: 1, StaticWeight: 5}
		}, want: []int{1}},
		{name: "case 62, as a strategy", strategy: "pipeline", n: 2, config: func(cfg *Config) {
			cfg.Targets[1].Weight, cfg.Settings.Pipeline = 9, PipelineWeights{StaticWeight: 1}
		}, want: []int{1}},
		{name: "no weights at all", strategy: "pipeline", n: 2, config: func(cfg *Config) {
			cfg.Settings.Pipeline = PipelineWeights{}
		}, loads: []int64{0, 5}, want: []int{0, 1}},
		{name: "guard on", strategy: "pipeline", n: 3, before: observe(0, session), request: session, loads: []int64{3, 0, 1},
			config: func(cfg *Config) { cfg.Settings.Guard = On }, want: []int{1}},

		{name: "case 79", strategy: "precise_cache_aware", n: 2, know: resident(.25, 1), request: tokens, want: []int{1}},
		{name: "case 79, no ids", strategy: "precise_cache_aware", n: 2, know: resident(.25, 1), want: []int{0, 1}},
		{name: "KV score off", strategy: "precise_cache_aware", n: 2, know: resident(.25, 1),
			request: Request{TokenIDs: []uint32{1}, KVOff: true}, want: []int{0, 1}},
		{name: "case 79, nobody usable", strategy: "precise_cache_aware", n: 2, request: tokens, know: func(d *told) {
			d.hits[1].Score = 1
		}, want: []int{0, 1}},
		{name: "case 89", strategy: "precise_cache_aware", n: 3, know: resident(1, 0, 0), request: tokens, loads: []int64{2, 0, 0}, want: []int{0}},
		{name: "case 89, overloaded", strategy: "precise_cache_aware", n: 3, know: resident(1, 0, 0), request: tokens, loads: []int64{3, 1, 0}, want: []int{2}},
		{name: "case 90", strategy: "precise_cache_aware", n: 3, know: resident(1, .5, 0), request: tokens, loads: []int64{9, 1, 0}, want: []int{1}},
		{name: "case 91", strategy: "precise_cache_aware", n: 3, know: resident(1, 0, 0), request: tokens, loads: []int64{3, 3, 0}, out: []int{2}, want: []int{0}},
		{name: "case 92", strategy: "precise_cache_aware", n: 3, know: resident(1, 0, 0), request: tokens, loads: []int64{30, 0, 0}, config: guardOff, want: []int{0}},
		{name: "case 93", strategy: "precise_cache_aware", n: 3, request: tokens, loads: []int64{5, 0, 9}, want: []int{1}},

		{name: "case 80", strategy: "lmcache_aware", n: 2, know: free(.9, .2), want: []int{0}},
		{name: "case 80, nobody fresh", strategy: "lmcache_aware", n: 2, know: free(-1, -1), loads: []int64{1, 0}, want: []int{1}},
		{name: "empty or full is nothing in favour", strategy: "lmcache_aware", n: 2, know: free(0, -1), loads: []int64{1, 0}, want: []int{1}},
		{name: "room wins against load", strategy: "lmcache_aware", n: 2, know: free(.9, .2), loads: []int64{30, 0}, want: []int{0}},
		{name: "unless the guard is on", strategy: "lmcache_aware", n: 2, know: free(.9, .2), loads: []int64{30, 0},
			config: func(cfg *Config) { cfg.Settings.Guard = On }, want: []int{1}},
		{name: "no source", strategy: "lmcache_aware", n: 3, loads: []int64{5, 0, 9}, want: []int{1}},
		{name: "report 110, the one with room is out", strategy: "lmcache_aware", n: 2, know: free(.9, 0), out: []int{0}, want: []int{1}},

		{name: "case 83", strategy: "lora_aware", n: 3, before: observe(1, lora), request: lora, loads: []int64{0, 0, 0}, want: []int{1}},
		{name: "case 84", strategy: "lora_aware", n: 2, before: both(observe(1, lora), observe(0, spoken)),
			request: Request{Adapter: lora.Adapter, Text: spoken.Text}, loads: []int64{1, 1}, want: []int{1}},
		{name: "case 85", strategy: "lora_aware", n: 2, before: both(observe(0, lora), observe(1, lora)), request: lora, loads: []int64{9, 0}, want: []int{1}},
		{name: "case 85, the other", strategy: "lora_aware", n: 2, before: both(observe(0, lora), observe(1, lora)), request: lora, loads: []int64{0, 9}, want: []int{0}},
		{name: "case 86", strategy: "lora_aware", n: 3, before: observe(0, lora), request: lora, loads: []int64{2, 0, 0}, want: []int{0}},
		{name: "case 86, overloaded", strategy: "lora_aware", n: 3, before: observe(0, lora), request: lora, loads: []int64{3, 0, 0}, want: []int{1, 2}},
		{name: "case 86, all loaded", strategy: "lora_aware", n: 3, before: observe(0, lora), request: lora, loads: []int64{9, 7, 7}, want: []int{0}},
		{name: "case 87", strategy: "lora_aware", n: 3, before: observe(0, Request{Adapter: lora.Adapter, Text: spoken.Text}),
			request: Request{Adapter: lora.Adapter, Text: spoken.Text}, loads: []int64{3, 0, 0}, want: []int{1, 2}},
		{name: "case 88", strategy: "lora_aware", n: 3, before: observe(0, lora), request: lora, loads: []int64{30, 0, 0}, config: guardOff, want: []int{0}},
		{name: "report 113, never seen", strategy: "lora_aware", n: 3, before: observe(0, lora), request: Request{Adapter: "org/tune-7"}, loads: []int64{5, 1, 5}, want: []int{1}},
		{name: "no adapter: prefix", strategy: "lora_aware", n: 3, before: both(observe(0, lora), observe(2, spoken)), request: spoken, want: []int{2}},

		{name: "P15", strategy: "predicted_latency", n: 3, know: func(*told) {}, loads: []int64{9, 0, 9}, want: []int{1}},
		{name: "no source", strategy: "predicted_latency", n: 3, loads: []int64{9, 0, 9}, want: []int{1}},
		{name: "P13, as a strategy", strategy: "predicted_latency", n: 2, know: func(d *told) {
			d.models[0], d.models[1] = &LatencyModel{Fixed: -5}, &LatencyModel{Fixed: 80}
		}, loads: []int64{3, 0}, want: []int{0}},
		{name: "P14, as a strategy", strategy: "predicted_latency", n: 3, know: func(d *told) {
			d.models[0], d.models[2] = &LatencyModel{Fixed: 40}, &LatencyModel{Fixed: 41}
		}, config: noTrials, want: []int{0}},
		{name: "predicted nearly equal: load", strategy: "predicted_latency", n: 2, know: func(d *told) {
			d.models[0], d.models[1] = &LatencyModel{Fixed: 40}, &LatencyModel{Fixed: 40.5}
		}, loads: []int64{4, 0}, want: []int{1}},
	} {
		t.Run(test.strategy+", "+test.name, test.run)
	}
}

// Scores of sources are clamped, and what is no number counts for nothing: cases 79 and
// 80, report 108.
func TestShare(t *testing.T) {
	nan := 0.0
	nan /= nan
	for v, want := range map[float64]float64{1.5: 1, -.2: 0, .25: .25, 0: 0, 1: 1, nan: 0} {
		if got := share(v); got != want {
			t.Errorf("%v becomes %v", v, got)
		}
	}
	b := mustNew(t, pools{name: "lmcache_aware", told: true}.config(2), nil).(*scored)
	d := b.stack.active[0].(*lmCache).source.(*told)
	d.free = []float64{1.5, .3}
	to := make([]float64, 2)
	c := Call{}
	b.Prepare(&c)
	b.stack.active[0].add(&c, nil, []int{0, 1}, 1, to)
	if !slices.Equal(to, []float64{1, .3}) {
		t.Errorf("got %v", to)
	}
}

// What of a text must be known to be a reason.
func TestPrefixCacheScore(t *testing.T) {
	long := strings.Repeat("x", 200)
	for _, test := range []struct {
		known, text string
		want        float64
	}{
		{long[:63] + "y", long, 0},
		{long[:64] + "y", long, 64. / 200},
		{long, long, 1},
		{"short", "short", 1},
		{"short", "shorter", 0},
		{"other", "short", 0},
		{"x", "", 0},
	} {
		b := mustNew(t, newConfig("pipeline", 1), nil).(*scored)
		warm(b, 0, test.known)
		c := Call{Request: &Request{Text: []byte(test.text)}}
		b.Prepare(&c)
		to := make([]float64, 1)
		(&prefixCache{b.prefixes}).add(&c, nil, []int{0}, 1, to)
		if to[0] != test.want {
			t.Errorf("%d bytes of %d: %v, want %v", len(test.known), len(test.text), to[0], test.want)
		}
	}
}

func TestLeastLoadScore(t *testing.T) {
	const largest = 1<<63 - 1
	for _, test := range []struct {
		loads []int64
		want  []float64
	}{
		{nil, []float64{1, 1, 1}},
		{[]int64{0, 0, 0}, []float64{1, 1, 1}},
		{[]int64{7, 7, 7}, []float64{0, 0, 0}},
		{[]int64{10, 0, 7}, []float64{0, 1, .3}}, // case 75
		{[]int64{largest, 0, largest / 2}, []float64{0, 1, .5}},
	} {
		got := make([]float64, 3)
		leastLoad{}.add(nil, test.loads, []int{0, 1, 2}, 1, got)
		if !near(got, test.want, 1e-12) {
			t.Errorf("%v: %v, want %v", test.loads, got, test.want)
		}
	}
}

// Case 233, with doubles: a pool uses whatever sources it has.
func TestSourcesAreUsed(t *testing.T) {
	for _, name := range []string{"fastest", "predicted_latency", "precise_cache_aware", "lmcache_aware"} {
		cfg := newConfig(name, 2)
		d := newTold(2)
		for i := range 2 {
			good := float64(i)
			d.set(i, 100-good*50, LatencyModel{Fixed: 100 - good*50}, KVHit{true, good, good}, .2+good/2)
		}
		cfg.Sources = d.sources()
		b := mustNew(t, cfg, nil)
		c := Call{Request: &Request{Adapter: "any model", TokenIDs: []uint32{1}}, Eligible: all(2), Loads: []int64{1, 1}}
		if got := b.Pick(&c); got != 1 || c.Why != WhyScore {
			t.Errorf("%s: %d (%v)", name, got, c.Why)
		}
		if want := name == "precise_cache_aware" || name == "lmcache_aware"; c.Informed != want {
			t.Errorf("%s: informed %v", name, c.Informed)
		}
		d.hits, d.free = make([]KVHit, 2), []float64{-1, -1}
		b.Prepare(&c)
		if b.Pick(&c); c.Informed {
			t.Errorf("%s: informed by nobody", name)
		}
	}
}

// Case 402.
func TestPipelineShortMatches(t *testing.T) {
	rng := rand.New(rand.NewPCG(402, 1))
	b := mustNew(t, newConfig("pipeline", 4), nil)
	count := make([]int, 4)
	for range 400 {
		count[serve(b, "user: "+wordy(rng, 300), make([]int64, 4))]++
	}
	for i, got := range count {
		if got < 70 || got > 130 {
			t.Errorf("target %d got %d of 400", i, got)
		}
	}
	first := serve(b, "user: hi", make([]int64, 4))
	start := wordy(rng, 64)
	second := serve(b, start+"one", make([]int64, 4))
	for range 50 {
		if got := choose(b, "user: hi", make([]int64, 4), all(4)); got != first {
			t.Fatalf("the same prompt again: %d, first %d", got, first)
		}
		if got := choose(b, start+"two", make([]int64, 4), all(4)); got != second {
			t.Fatalf("a common start of 64 bytes: %d, first %d", got, second)
		}
	}
}

// The guard is on and off by strategy, and by the setting.
func TestGuardByStrategy(t *testing.T) {
	for _, name := range Names() {
		for _, set := range []Switch{ByStrategy, On, Off} {
			cfg := newConfig(name, 2)
			cfg.Settings.Guard = set
			b, ok := mustNew(t, cfg, nil).(*scored)
			if !ok {
				continue
			}
			want := set == On || set == ByStrategy && (name == "lora_aware" || name == "precise_cache_aware")
			if b.guarded != want {
				t.Errorf("%s, %v: %v", name, set, b.guarded)
			}
		}
	}
}

// A pick is repeated for the later entries of a list with what was prepared once.
func TestScoredList(t *testing.T) {
	b := mustNew(t, configOf("pipeline", "a", "b", "c"), nil)
	b.Observe(1, &Call{Request: &session})
	c := Call{Request: &session, Loads: []int64{5, 9, 1}, Eligible: all(3)}
	var list []int
	for c.Attempt = range 3 {
		i := b.Pick(&c)
		c.Eligible.Remove(i)
		list = append(list, i)
	}
	if fmt.Sprint(list) != "[1 2 0]" {
		t.Errorf("got %v", list)
	}
}

func TestSweepAndRefillOfStrategiesWithoutUse(t *testing.T) {
	eachStrategy(t, func(t *testing.T, p pools) {
		b := mustNew(t, p.config(2), nil)
		b.Sweep(time.Unix(0, 0))
		b.Refill(0)
		b.Refill(5)
	})
}
