package picker

import "math/rand/v2"

// Target is one member of a pool, as a strategy sees it.
type Target struct {
	ID     string
	Weight int // 0..1,000,000. A target of weight 0 is drained: the caller never makes it eligible
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
	// RingPoints is the number of points of each target on the ring of
	// consistent_hash, at least 1.
	RingPoints int
}

// DefaultSettings are the defaults of the specification.
func DefaultSettings() Settings {
	return Settings{
		PrefixThreshold: 0.5, PrefixMaxBytes: 16 << 20,
		GuardMargin: 2, GuardRatio: 1.5,
		RingPoints: 100,
	}
}

// Config is what a balancer is built from. Two balancers built from equal
// configurations behave alike, so an unchanged configuration needs no new one.
type Config struct {
	Strategy string
	Targets  []Target
	Settings Settings
	// Rand is where random draws come from; nil = the generator of the process.
	// It must be safe for concurrent use, as that one is.
	Rand rand.Source
}
