package picker

import (
	"fmt"
	"slices"
	"strings"
)

// strategies are those that exist, in the order of the specification.
var strategies = [...]struct {
	name  string
	build func(Config, estate) Balancer
}{
	{"round_robin", newRoundRobin},
	{"cache_aware", newCacheAware},
}

// Names gives the names of the strategies that exist.
func Names() []string {
	names := make([]string, len(strategies))
	for i, s := range strategies {
		names[i] = s.name
	}
	return names
}

// New builds the balancer of a pool.
//
// prev is the pool's balancer so far, or nil. What it learned of targets that
// remain is taken over by their ids as far as the strategy has a use for it:
// the prefix history in any case, the rotation if the strategy is still the
// same. What belongs to a target that is not in cfg is dropped for good: should
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
		old = p.estate()
		if old.strategy == cfg.Strategy {
			old.cursor = old.cursor.in(index, old.ids)
		} else {
			old.cursor = 0
		}
	}
	return strategies[at].build(cfg, old), nil
}

// estate is what a balancer leaves to the next one of its pool. The zero value
// is the estate of nobody.
type estate struct {
	strategy string
	ids      []string
	cursor   cursor    // of its rotation
	prefixes *prefixes // nil = it remembers no texts
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
func (b *base) Prepare(c *Call) { c.scratch.by, c.scratch.measured = nil, false }

// Observe implements Balancer for strategies that learn nothing.
func (b *base) Observe(int, *Call) {}

// Withdraw implements Balancer for strategies that learn nothing of sessions and
// adapters.
func (b *base) Withdraw(int, *Call) {}
