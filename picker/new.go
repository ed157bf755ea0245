package picker

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// strategies are those that exist, in the order of the specification.
var strategies = [...]struct {
	name  string
	build func(Config, estate) Balancer
	texts bool // it has a prefix history
}{
	{"round_robin", newRoundRobin, false},
	{"random", newRandom, false},
	{"power_of_two", newPowerOfTwo, false},
	{"consistent_hash", newConsistentHash, false},
	{"cache_aware", newCacheAware, true},
	{"weighted", newWeighted, false},
	{"pipeline", newPipeline, true},
	{"cheapest", newCheapest, false},
	{"fastest", newFastest, false},
	{"lora_aware", newLoRAAware, true},
	{"predicted_latency", newPredictedLatency, false},
	{"precise_cache_aware", newPreciseCacheAware, false},
	{"lmcache_aware", newLMCacheAware, false},
}

// Names gives the names of the strategies that exist.
func Names() []string {
	names := make([]string, len(strategies))
	for i, s := range strategies {
		names[i] = s.name
	}
	return names
}

// RemembersTexts tells whether the strategy of that name has a prefix history, for
// dividing memory among the pools that need it.
func RemembersTexts(strategy string) bool {
	for _, s := range strategies {
		if s.name == strategy {
			return s.texts
		}
	}
	return false
}

// New builds the balancer of a pool.
//
// prev is the pool's balancer so far, or nil. What it learned of targets that
// remain is taken over by their ids as far as the strategy has a use for it: prefix
// history, session pins and adapters in any case, the rest (rotation, running weights,
// trial picks) if the strategy is still the same. What belongs to a target that is not in cfg is dropped for good: should
// it return later, it starts afresh.
//
// New changes nothing about prev, which may go on choosing until the new
// balancer is used, or for ever if it never is. What prev still observes after
// that is learned too, for targets that remain.
func New(cfg Config, prev Balancer) (Balancer, error) {
	at := slices.Index(Names(), cfg.Strategy)
	if at < 0 {
		return nil, fmt.Errorf("unknown strategy %q: the strategies are %s", cfg.Strategy, strings.Join(Names(), ", "))
	}
	index := make(map[string]int, len(cfg.Targets))
	for i, t := range cfg.Targets {
		if first, twice := index[t.ID]; twice {
			return nil, fmt.Errorf("targets %d and %d have the same id %q", first, i, t.ID)
		}
		index[t.ID] = i
	}
	var old estate
	if p, ours := prev.(testator); ours {
		old = p.estate().of(cfg.Strategy, index)
	}
	return strategies[at].build(cfg, old), nil
}

// testator is what New takes an estate from. Every strategy is one.
type testator interface{ estate() estate }

// base is what all strategies have in common. A strategy embeds it and replaces
// the methods that it has a use for.
type base struct {
	name string
	ids  []string // by index
}

func newBase(cfg Config) base {
	b := base{name: cfg.Strategy, ids: make([]string, len(cfg.Targets))}
	for i, t := range cfg.Targets {
		b.ids[i] = t.ID
	}
	return b
}

// Name implements Balancer.
func (b *base) Name() string { return b.name }

// Len implements Balancer.
func (b *base) Len() int { return len(b.ids) }

// Prepare implements Balancer for strategies that need nothing prepared.
func (b *base) Prepare(c *Call) { c.scratch.begin(nil) }

// Observe implements Balancer for strategies that learn nothing.
func (b *base) Observe(int, *Call) {}

// Withdraw implements Balancer for strategies that learn nothing of sessions and
// adapters.
func (b *base) Withdraw(int, *Call) {}

// Refill implements Balancer for strategies without trial picks.
func (b *base) Refill(int) {}

// Sweep implements Balancer for strategies without session pins.
func (b *base) Sweep(time.Time) {}
