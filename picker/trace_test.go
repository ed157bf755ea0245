package picker

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// traceOf makes a list of so many entries with everybody eligible but those out.
func traceOf(b Balancer, q *Request, loads []int64, entries int, out ...int) (*Trace, []int) {
	c := Call{Request: q, Loads: loads, Eligible: all(b.Len(), out...), Trace: new(Trace)}
	var list []int
	for c.Attempt = range entries {
		i := b.Pick(&c)
		if i < 0 {
			break
		}
		c.Eligible.Remove(i)
		list = append(list, i)
	}
	return c.Trace, list
}

func indexes(t *Trace) []int {
	var is []int
	for _, c := range t.Candidates[:t.Len] {
		is = append(is, c.Index)
	}
	return is
}

// Case 403 as far as the picker goes: for every strategy the values that gave the choice.
func TestTrace(t *testing.T) {
	long := Request{Text: []byte(prompt), Session: "s", Adapter: "a", TokenIDs: []uint32{1, 2, 3, 4}, Length: 16_000}
	none := Candidate{PrefixRatio: -1, LatencyMS: -1, PredictionMS: -1, KVHit: -1}
	for _, test := range []struct {
		strategy string
		scorers  []Scorer
		want     [2]Candidate // 0 is chosen; each has Index set by the test
	}{
		{"round_robin", nil, [2]Candidate{none, none}},
		{"cache_aware", nil, [2]Candidate{
			{PrefixRatio: 1, LatencyMS: -1, PredictionMS: -1, KVHit: -1},
			{PrefixRatio: 0, LatencyMS: -1, PredictionMS: -1, KVHit: -1},
		}},
		{"pipeline", []Scorer{ScorerSession, ScorerWeight, ScorerLoad, ScorerPrefix}, [2]Candidate{
			{Scored: true, Scores: [4]float64{1, 1, .5, 1}, Total: 3.5, PrefixRatio: 1, LatencyMS: -1, PredictionMS: -1, KVHit: -1},
			{Scored: true, Scores: [4]float64{0, .5, 0, 0}, Total: .5, PrefixRatio: 0, LatencyMS: -1, PredictionMS: -1, KVHit: -1},
		}},
		{"cheapest", []Scorer{ScorerCost, ScorerLoad}, [2]Candidate{
			{Scored: true, Scores: [4]float64{1, .5}, Total: 1.125, PrefixRatio: -1, LatencyMS: -1, PredictionMS: -1, KVHit: -1},
			{Scored: true, Scores: [4]float64{0, 0}, Total: 0, PrefixRatio: -1, LatencyMS: -1, PredictionMS: -1, KVHit: -1},
		}},
		{"fastest", []Scorer{ScorerLatency, ScorerLoad}, [2]Candidate{
			{Scored: true, Scores: [4]float64{1, .5}, Total: 1.125, PrefixRatio: -1, LatencyMS: 40, PredictionMS: -1, KVHit: -1},
			{Scored: true, Scores: [4]float64{0, 0}, Total: 0, PrefixRatio: -1, LatencyMS: 80, PredictionMS: -1, KVHit: -1},
		}},
		{"lora_aware", []Scorer{ScorerLoRA, ScorerPrefix, ScorerLoad}, [2]Candidate{
			{Scored: true, Scores: [4]float64{1, 1, .5}, Total: 1.625, PrefixRatio: 1, LatencyMS: -1, PredictionMS: -1, KVHit: -1},
			{Scored: true, Scores: [4]float64{0, 0, 0}, Total: 0, PrefixRatio: 0, LatencyMS: -1, PredictionMS: -1, KVHit: -1},
		}},
		{"predicted_latency", []Scorer{ScorerPrediction, ScorerLoad}, [2]Candidate{
			{Scored: true, Scores: [4]float64{1, .5}, Total: 1.125, PrefixRatio: -1, LatencyMS: 40, PredictionMS: 12, KVHit: .25},
			{Scored: true, Scores: [4]float64{0, 0}, Total: 0, PrefixRatio: -1, LatencyMS: 80, PredictionMS: 104, KVHit: -1},
		}},
		{"precise_cache_aware", []Scorer{ScorerKV, ScorerLoad}, [2]Candidate{
			{Scored: true, Scores: [4]float64{.5, .5}, Total: .625, PrefixRatio: -1, LatencyMS: -1, PredictionMS: -1, KVHit: .5},
			{Scored: true, Scores: [4]float64{0, 0}, Total: 0, PrefixRatio: -1, LatencyMS: -1, PredictionMS: -1, KVHit: -1},
		}},
		{"lmcache_aware", []Scorer{ScorerLMCache, ScorerLoad}, [2]Candidate{
			{Scored: true, Scores: [4]float64{.5, .5}, Total: .625, PrefixRatio: -1, LatencyMS: -1, PredictionMS: -1, KVHit: -1},
			{Scored: true, Scores: [4]float64{0, 0}, Total: 0, PrefixRatio: -1, LatencyMS: -1, PredictionMS: -1, KVHit: -1},
		}},
	} {
		t.Run(test.strategy, func(t *testing.T) {
			cfg := newConfig(test.strategy, 2)
			cfg.Targets[0] = Target{ID: "a", Weight: 2, Cost: 3}
			cfg.Targets[1] = Target{ID: "b", Weight: 1, Cost: 6}
			d := newTold(2)
			d.set(0, 40, LatencyModel{Fixed: 10, Queue: 2}, KVHit{true, .5, .25}, .5)
			d.set(1, 80, LatencyModel{Fixed: 100, Queue: 2}, KVHit{}, -1)
			cfg.Sources = d.sources()
			b := mustNew(t, cfg, nil)
			b.Observe(0, &Call{Request: &long})
			got, list := traceOf(b, &long, []int64{1, 2}, 1)
			test.want[1].Index = 1
			if !slices.Equal(list, []int{0}) || !slices.Equal(got.Scorers, test.scorers) {
				t.Errorf("list %v, scorers %v", list, got.Scorers)
			}
			if diff := cmp.Diff(test.want[:], got.Candidates[:got.Len]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Those that are out have no scores; overloaded ones neither, and say so.
func TestTraceOfThoseLeftOut(t *testing.T) {
	b := mustNew(t, newConfig("lora_aware", 4), nil)
	got, list := traceOf(b, &lora, []int64{0, 9, 1, 0}, 1, 3)
	if !slices.Equal(list, []int{0}) || !slices.Equal(indexes(got), []int{0, 1, 2, 3}) {
		t.Fatalf("list %v, candidates %v", list, indexes(got))
	}
	for i, want := range []Candidate{{Scored: true}, {Overloaded: true}, {Scored: true}, {}} {
		if c := got.Candidates[i]; c.Scored != want.Scored || c.Overloaded != want.Overloaded {
			t.Errorf("target %d: %+v", i, c)
		}
	}
	warmed := mustNew(t, newConfig("cache_aware", 2), nil)
	warm(warmed, 0, prompt)
	if got, _ := traceOf(warmed, &spoken, []int64{9, 0}, 1); !got.Candidates[1].Overloaded || got.Candidates[0].Overloaded {
		t.Errorf("cache_aware, overloaded: %+v", got.Candidates[:got.Len])
	}
}

// A choice that nothing was scored for shows no scores, not those of the choice before.
func TestTraceWithoutScores(t *testing.T) {
	b, _ := fastestOf(t, 40, 400, -1)
	c := Call{Eligible: all(3, 2), Trace: new(Trace)}
	b.Pick(&c)
	if !c.Trace.Candidates[0].Scored {
		t.Fatal("nothing was scored")
	}
	c.Eligible = all(3)
	if i := b.Pick(&c); i != 2 || c.Trace.Scorers != nil || c.Trace.Candidates[0].Scored || c.Trace.Candidates[1].LatencyMS != 40 {
		t.Errorf("trial of %d: %+v", i, c.Trace.Candidates[:c.Trace.Len])
	}
	c.Eligible = only(3, 1)
	if b.Pick(&c); c.Trace.Scorers != nil || c.Trace.Candidates[0].Index != 1 || c.Trace.Candidates[0].Scored {
		t.Errorf("the only one: %+v", c.Trace.Candidates[:c.Trace.Len])
	}
	c.Eligible = NewSet(3)
	if b.Pick(&c); c.Trace.Len != 0 {
		t.Errorf("nobody: %+v", c.Trace.Candidates[:c.Trace.Len])
	}
}

// The list first, in its order, then list order, 32 in all; values are those of the
// first choice.
func TestTraceOfList(t *testing.T) {
	for _, n := range []int{3, 31, 32, 33, 100} {
		b := mustNew(t, newConfig("pipeline", n), nil)
		loads := make([]int64, n)
		for i := range loads {
			loads[i] = int64(n - i)
		}
		got, list := traceOf(b, nil, loads, 3)
		if want := []int{n - 1, n - 2, n - 3}; !slices.Equal(list, want) {
			t.Fatalf("n=%d: list %v", n, list)
		}
		want := slices.Clone(list)
		for i := 0; len(want) < min(n, MaxTraced); i++ {
			want = append(want, i)
		}
		if is := indexes(got); !slices.Equal(is, want) {
			t.Errorf("n=%d: candidates %v, want %v", n, is, want)
		}
		for _, c := range got.Candidates[:got.Len] {
			load := 1 - float64(n-c.Index)/float64(n)
			if !c.Scored || !near([]float64{c.Scores[2], c.Total}, []float64{load, 1 + load}, 1e-12) {
				t.Errorf("n=%d, target %d: %+v", n, c.Index, c)
			}
		}
	}
	many := mustNew(t, newConfig("round_robin", 50), nil)
	if got, list := traceOf(many, nil, nil, 50); !slices.Equal(indexes(got), list[:MaxTraced]) {
		t.Errorf("a list of 50: candidates %v", indexes(got))
	}
}

// A trace changes no answer, and draws nothing.
func TestTraceChangesNothing(t *testing.T) {
	eachStrategy(t, func(t *testing.T, p pools) {
		a, b := mustNew(t, p.config(5), nil), mustNew(t, p.config(5), nil)
		for k := range 200 {
			c := Call{Request: &Request{Text: []byte{byte(k % 7)}}, Loads: []int64{1, 1, 2, 0, 1}, Eligible: all(5)}
			d := c
			d.Trace = new(Trace)
			i, j := a.Pick(&c), b.Pick(&d)
			if i != j || c.Why != d.Why || d.Trace.Len != 5 || d.Trace.Candidates[0].Index != j {
				t.Fatalf("pick %d: %d (%v), traced %d (%v), %v", k, i, c.Why, j, d.Why, indexes(d.Trace))
			}
			a.Observe(i, &c)
			b.Observe(j, &d)
		}
	})
}

func TestScorerNames(t *testing.T) {
	var got []string
	for s := range ScorerLoRA + 1 {
		got = append(got, s.String())
	}
	want := []string{"session_affinity", "static_weight", "least_load", "prefix_cache", "cheapest", "fastest",
		"predicted_latency", "precise_kv_cache", "lmcache", "lora"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
