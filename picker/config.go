package picker

import (
	"math/rand/v2"
	"time"
)

// Target is one member of a pool, as a strategy sees it.
type Target struct {
	ID     string
	Weight int // 0..1,000,000. A target of weight 0 is drained: the caller never makes it eligible

	// Cost is the price of a million input tokens plus that of a million output
	// tokens, in one currency for the whole pool. 0 or less = unknown.
	Cost float64
	// OwnModel says that the target serves a model of its own, whatever was asked
	// for, and so never holds the adapter that a request names.
	OwnModel bool
}

// Switch turns something on or off, or leaves it to the strategy.
type Switch uint8

// The positions of a Switch.
const (
	ByStrategy Switch = iota
	On
	Off
)

// PipelineWeights are the weights of the scorers of the strategy pipeline. One below
// 0 counts as 0, and a scorer of weight 0 is left out.
type PipelineWeights struct {
	SessionAffinity, StaticWeight, LeastLoad, PrefixCache float64
}

// Settings are the knobs of the strategies. The zero value is not useful: start
// from DefaultSettings.
type Settings struct {
	// PrefixThreshold is the share of the affinity text, 0..1, that must be
	// remembered on a target for cache_aware to prefer it.
	PrefixThreshold float64
	// PrefixMaxBytes bounds the distinct prefix bytes remembered per target; 0 = no bound.
	PrefixMaxBytes int64
	// GuardMargin and GuardRatio say when a target is overloaded: its load is
	// above m + margin and above ratio * m, with m the smallest eligible load.
	GuardMargin int64
	GuardRatio  float64
	// Guard tells whether a scored strategy leaves overloaded targets out:
	// precise_cache_aware and lora_aware do by themselves, the others do not.
	Guard Switch
	// RankFloor is the part of the smallest value, 0..1, below which a difference
	// of costs, latencies or predictions does not count in full.
	RankFloor float64
	// Pipeline weighs the scorers of pipeline.
	Pipeline PipelineWeights
	// RingPoints is the number of points of each target on the ring of
	// consistent_hash, at least 1.
	RingPoints int
	// SessionTTL is how long a session stays pinned after it was last observed; 0 =
	// no pins. SessionMax bounds the pinned sessions of a pool.
	SessionTTL time.Duration
	SessionMax int
	// LoRACapacity is the number of adapters that an engine keeps, at least 1.
	LoRACapacity int
	// TrialPicks is how often a target of unknown speed is tried; 0 = never.
	TrialPicks int
	// PredictFullPrompt makes predictions ignore what of a prompt is cached.
	PredictFullPrompt bool
}

// DefaultSettings are the defaults of the specification.
func DefaultSettings() Settings {
	return Settings{
		PrefixThreshold: 0.5, PrefixMaxBytes: 16 << 20,
		GuardMargin: 2, GuardRatio: 1.5,
		RankFloor:  0.1,
		Pipeline:   PipelineWeights{SessionAffinity: 1, StaticWeight: 1, LeastLoad: 1, PrefixCache: 1},
		RingPoints: 100,
		SessionTTL: 300 * time.Second, SessionMax: 100_000,
		LoRACapacity: 8,
		TrialPicks:   8,
	}
}

// Config is what a balancer is built from. Two balancers built from equal
// configurations behave alike, so an unchanged configuration needs no new one.
type Config struct {
	Strategy string
	Targets  []Target
	Settings Settings
	Sources  Sources
	// Rand is where random draws come from; nil = the generator of the process.
	// It must be safe for concurrent use, as that one is.
	Rand rand.Source
}
