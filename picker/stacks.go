package picker

import "time"

// loadWeight is the weight of least_load beside a scorer of weight 1: it decides among
// targets that are nearly equal otherwise.
const loadWeight = 0.25

// newScored is a scored strategy without scorers yet.
func newScored(cfg Config, guardByDefault Switch) *scored {
	on := cfg.Settings.Guard
	if on == ByStrategy {
		on = guardByDefault
	}
	return &scored{base: newBase(cfg), stack: stack{dice: dice{cfg.Rand}}, guard: newGuard(cfg.Settings), guarded: on == On}
}

// newPipeline is the general strategy: a bit of everything.
func newPipeline(cfg Config, old estate) Balancer {
	b, weights := newScored(cfg, Off), cfg.Settings.Pipeline
	b.pins, b.prefixes = newPins(cfg, old), newPrefixes(cfg, old)
	b.stack.put(ScorerSession, weights.SessionAffinity, &sessionAffinity{b.pins})
	b.stack.put(ScorerWeight, weights.StaticWeight, newStaticWeight(cfg))
	b.stack.put(ScorerLoad, weights.LeastLoad, leastLoad{})
	b.stack.put(ScorerPrefix, weights.PrefixCache, &prefixCache{b.prefixes})
	return b
}

// newCheapest prefers the cheap until they are loaded.
func newCheapest(cfg Config, _ estate) Balancer {
	b := newScored(cfg, Off)
	b.stack.put(ScorerCost, 1, newCheapestScorer(cfg))
	b.stack.put(ScorerLoad, loadWeight, leastLoad{})
	return b
}

// newFastest prefers those whose answers took the shortest.
func newFastest(cfg Config, old estate) Balancer {
	b := newScored(cfg, Off)
	part := &fastest{source: cfg.Sources.Latency, n: len(cfg.Targets), floor: cfg.Settings.RankFloor}
	b.stack.put(ScorerLatency, 1, part)
	b.stack.put(ScorerLoad, loadWeight, leastLoad{})
	b.ranked, b.trials = part, newTrials(cfg, old)
	return b
}

// newLoRAAware prefers engines that have the adapter loaded.
func newLoRAAware(cfg Config, old estate) Balancer {
	b := newScored(cfg, On)
	b.prefixes, b.adapters = newPrefixes(cfg, old), newAdapters(cfg, old)
	b.stack.put(ScorerLoRA, 1, &adapterAffinity{b.adapters})
	b.stack.put(ScorerPrefix, 0.5, &prefixCache{b.prefixes})
	b.stack.put(ScorerLoad, loadWeight, leastLoad{})
	return b
}

// newPredictedLatency prefers those that are expected to answer this request first.
func newPredictedLatency(cfg Config, old estate) Balancer {
	b := newScored(cfg, Off)
	part := newPredictedLatencyScorer(cfg)
	b.stack.put(ScorerPrediction, 1, part)
	b.stack.put(ScorerLoad, loadWeight, leastLoad{})
	b.ranked, b.trials = part, newTrials(cfg, old)
	return b
}

// newPreciseCacheAware prefers engines that announced the prompt's blocks.
func newPreciseCacheAware(cfg Config, _ estate) Balancer {
	b := newScored(cfg, On)
	if cfg.Sources.Residency != nil {
		b.stack.put(ScorerKV, 1, &kvResidency{source: cfg.Sources.Residency, n: len(cfg.Targets)})
	}
	b.stack.put(ScorerLoad, loadWeight, leastLoad{})
	return b
}

// newLMCacheAware prefers engines whose LMCache has room.
func newLMCacheAware(cfg Config, _ estate) Balancer {
	b := newScored(cfg, Off)
	if cfg.Sources.LMCache != nil {
		b.stack.put(ScorerLMCache, 1, &lmCache{source: cfg.Sources.LMCache, n: len(cfg.Targets)})
	}
	b.stack.put(ScorerLoad, loadWeight, leastLoad{})
	return b
}

// Refill implements Balancer.
func (b *scored) Refill(i int) {
	if b.trials != nil && i >= 0 && i < len(b.trials.of) {
		b.trials.of[i].spent.Store(0)
	}
}

// Sweep implements Balancer.
func (b *scored) Sweep(now time.Time) {
	if b.pins != nil {
		b.pins.sweep(now)
	}
}
