package tracker

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Target is what was learned about one target id. Get it from Tracker.Target.
type Target struct {
	id      string
	tracker *Tracker

	reachable   atomic.Bool
	listed      atomic.Int64 // open decisions that list this target
	parkedUntil atomic.Int64 // Unix ns; 0 = never parked
	last500     atomic.Bool  // the outcome before was a plain 500

	latency struct {
		sync.Mutex               // held by writers only
		mean       atomic.Uint64 // float64 bits, ms
		at         atomic.Int64  // Unix ns of the last sample; 0 = none yet
	}

	goneSince time.Time // guarded by Tracker.mu; zero while a configuration names the target
}

// ID is the target id.
func (t *Target) ID() string { return t.id }

// Reachable tells whether every proxy that counts can route to the target.
func (t *Target) Reachable() bool { return t.reachable.Load() }

// List counts one more (n = 1) or one fewer (n = -1) open decision that lists
// the target.
func (t *Target) List(n int64) { t.listed.Add(n) }

// Parked tells whether the target is left out after a failure. Asking changes
// nothing, and while cooldowns are switched off nobody is left out.
func (t *Target) Parked(now time.Time) bool {
	until := t.parkedUntil.Load()
	return until != 0 && now.UnixNano() < until && t.tracker.settings.Load().CooldownBase > 0
}

// NoHint is the hint of an answer that asks for no waiting time.
const NoHint time.Duration = -1

// Park leaves the target out for min(max(hint, base), max), or for base without
// a hint. It never shortens a running park. It tells whether the target is parked
// now and was not before.
//
// Example: base 5 s, max 300 s. NoHint parks 5 s, hint 7 s parks 7 s, 1 s parks 5 s, 9999 s parks 300 s.
func (t *Target) Park(now time.Time, hint time.Duration) bool {
	s := t.tracker.settings.Load()
	if s.CooldownBase <= 0 {
		return false
	}
	wait := s.CooldownBase
	if hint != NoHint {
		wait = min(max(hint, s.CooldownBase), s.CooldownMax)
	}
	until := now.Add(wait).UnixNano()
	for {
		old := t.parkedUntil.Load()
		if old >= until {
			return false
		}
		if t.parkedUntil.CompareAndSwap(old, until) {
			return old <= now.UnixNano()
		}
	}
}

// Status500 records whether an outcome was a plain 500, and tells whether the outcome
// before it was one too: one 500 may be the request's fault, two in a row are
// the target's. Outcomes that say nothing about the target are not recorded.
func (t *Target) Status500(is bool) (again bool) { return t.last500.Swap(is) && is }

// minSample is the smallest latency sample, in ms. A known latency is never 0.
const minSample = 0.001

// Sample teaches a latency in milliseconds: the first one, or the first after the
// latency has lapsed, is taken as it is, then mean += alpha * (sample - mean).
//
// Example: alpha 0.3, samples 100 and 200 give 100, then 130.
func (t *Target) Sample(now time.Time, ms float64) {
	s := t.tracker.settings.Load()
	ms = max(ms, minSample)
	t.latency.Lock()
	defer t.latency.Unlock()
	if mean, ok := t.Latency(now); ok {
		ms = mean + s.LatencyAlpha*(ms-mean)
	}
	t.latency.mean.Store(math.Float64bits(ms))
	t.latency.at.Store(now.UnixNano())
}

// Latency gives the mean latency in milliseconds, or false while it is unknown:
// before the first sample, and LatencyIdle after the last one.
func (t *Target) Latency(now time.Time) (ms float64, ok bool) {
	at := t.latency.at.Load()
	if at == 0 {
		return 0, false
	}
	if idle := t.tracker.settings.Load().LatencyIdle; idle > 0 && now.UnixNano()-at >= int64(idle) {
		return 0, false
	}
	return math.Float64frombits(t.latency.mean.Load()), true
}
