package picker

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/zeebo/xxh3"
)

func ids(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = "t" + strconv.Itoa(i)
	}
	return ids
}

// newConfig is a pool of n targets t0, t1, ... with default settings.
func newConfig(strategy string, n int) Config { return configOf(strategy, ids(n)...) }

func configOf(strategy string, ids ...string) Config {
	cfg := Config{Strategy: strategy, Settings: DefaultSettings(), Rand: newSeeded(1)}
	for _, id := range ids {
		cfg.Targets = append(cfg.Targets, Target{ID: id, Weight: 1})
	}
	return cfg
}

// seeded is a source of draws for tests, which many goroutines may use.
type seeded struct {
	mu  sync.Mutex
	pcg rand.PCG
}

func newSeeded(seed uint64) *seeded { return &seeded{pcg: *rand.NewPCG(seed, seed)} }

func (s *seeded) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pcg.Uint64()
}

// told is all sources of a pool, which say what a test tells them. By index; -1 and
// nil mean that nothing is known.
type told struct {
	latency, free []float64
	models        []*LatencyModel
	hits          []KVHit
}

func newTold(n int) *told {
	d := &told{make([]float64, n), make([]float64, n), make([]*LatencyModel, n), make([]KVHit, n)}
	for i := range n {
		d.latency[i], d.free[i] = -1, -1
	}
	return d
}

func (d *told) set(i int, latency float64, model LatencyModel, hit KVHit, free float64) {
	d.latency[i], d.models[i], d.hits[i], d.free[i] = latency, &model, hit, free
}

func (d *told) sources() Sources { return Sources{d, d, d, d} }

func (d *told) Latency(i int, _ time.Time) (float64, bool) { return d.latency[i], d.latency[i] >= 0 }
func (d *told) Free(i int, _ time.Time) (float64, bool)    { return d.free[i], d.free[i] >= 0 }

func (d *told) Model(i int, _ Kind) (LatencyModel, bool) {
	if d.models[i] == nil {
		return LatencyModel{}, false
	}
	return *d.models[i], true
}

func (d *told) Resident(_ *Request, _ time.Time, hits []KVHit) { copy(hits, d.hits) }

// tell gives the targets weights, costs and something in every source, all but every
// fifth: by their ids.
func tell(cfg *Config) {
	d := newTold(len(cfg.Targets))
	for i := range cfg.Targets {
		t := &cfg.Targets[i]
		h := xxh3.HashString(t.ID)
		t.Weight = 1 + int(h%7)
		if h%5 == 0 {
			continue
		}
		part := func(bits int) float64 { return float64(h>>bits&255) / 256 }
		t.Cost = 1 + part(8)
		d.set(i, 100*(1+part(16)), LatencyModel{10 + 10*part(24), 10 * part(32), 10 * part(40)},
			KVHit{true, part(48), part(48) / 2}, part(56))
	}
	cfg.Sources = d.sources()
}

func mustNew(tb testing.TB, cfg Config, prev Balancer) Balancer {
	tb.Helper()
	b, err := New(cfg, prev)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// all is the set of the first n indexes but those left out.
func all(n int, out ...int) Set {
	s := NewSet(n)
	for i := range n {
		s.Add(i)
	}
	for _, i := range out {
		s.Remove(i)
	}
	return s
}

func only(n, i int) Set {
	s := NewSet(n)
	s.Add(i)
	return s
}

// choose makes one pick for a text.
func choose(b Balancer, text string, loads []int64, eligible Set) int {
	c := Call{Request: &Request{Text: []byte(text)}, Loads: loads, Eligible: eligible}
	b.Prepare(&c)
	return b.Pick(&c)
}

// warm observes a text on target i.
func warm(b Balancer, i int, text string) {
	b.Observe(i, &Call{Request: &Request{Text: []byte(text)}})
}

// serve picks for a text with everybody eligible and dispatches it.
func serve(b Balancer, text string, loads []int64) int {
	i := choose(b, text, loads, all(b.Len()))
	warm(b, i, text)
	return i
}

func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// wordy gives n bytes that look like prose and begin like no other.
func wordy(rng *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = "abcdefghijklmnopqrstuvwxyz  "[rng.IntN(28)]
	}
	return string(b)
}
