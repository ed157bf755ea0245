// Package tracker is the store of what is learned, by identity: in-flight
// counts by endpoint; latency, cooldown and reachability by target id.
//
// It outlives every configuration: a reload replaces the routing snapshot and
// never touches the tracker, so nothing learned moves from one target to another
// or is lost. It decides nothing and does no I/O; time is passed in. routing reads
// it in every decision, ledger writes what outcomes teach, xds writes
// reachability. Everything here may be used from any goroutine; reads are
// atomic loads.
package tracker

import (
	"sync"
	"sync/atomic"
	"time"
)

// Settings are the knobs of learning. They may be changed at any time.
type Settings struct {
	// LatencyAlpha is the weight of a new latency sample, 0..1.
	LatencyAlpha float64
	// LatencyIdle is how long a latency is known after its last sample; 0 = for ever.
	LatencyIdle time.Duration
	// CooldownBase is how long a failed target is parked without a hint; 0 =
	// never, hints included.
	CooldownBase time.Duration
	// CooldownMax bounds a parking time that an upstream asks for.
	CooldownMax time.Duration
	// ForgetAfter is how long the state of a target that no configuration
	// names is kept.
	ForgetAfter time.Duration
}

// Tracker holds the state of all targets and endpoints.
type Tracker struct {
	settings atomic.Pointer[Settings]

	mu struct {
		sync.Mutex
		targets   map[string]*Target
		endpoints map[string]*Endpoint
		changed   chan struct{} // closed and replaced when a target becomes reachable
	}
}

// New gives an empty tracker.
func New(s Settings) *Tracker {
	t := &Tracker{}
	t.settings.Store(&s)
	t.mu.targets = make(map[string]*Target)
	t.mu.endpoints = make(map[string]*Endpoint)
	t.mu.changed = make(chan struct{})
	return t
}

// Configure changes the settings, for what is learned and asked from now on.
func (t *Tracker) Configure(s Settings) { t.settings.Store(&s) }

// Target gives the state of the target of this id, new if it has none. The
// handle stays valid for ever, but is shared only until the target is forgotten.
func (t *Tracker) Target(id string) *Target {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.mu.targets[id]
	if s == nil {
		s = &Target{id: id, tracker: t}
		t.mu.targets[id] = s
	}
	s.goneSince = time.Time{}
	return s
}

// Endpoint gives the counts of the endpoint of this name, new if it has none.
func (t *Tracker) Endpoint(name string) *Endpoint {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.mu.endpoints[name]
	if e == nil {
		e = &Endpoint{name: name}
		t.mu.endpoints[name] = e
	}
	e.goneSince = time.Time{}
	return e
}

// SetReachable records whether every proxy that counts can route to the target
// of this id. Ids that the tracker does not know are ignored.
func (t *Tracker) SetReachable(id string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.mu.targets[id]
	if s == nil || s.reachable.Swap(ok) == ok || !ok {
		return
	}
	close(t.mu.changed)
	t.mu.changed = make(chan struct{})
}

// Changed gives a channel that is closed when a target becomes reachable next.
func (t *Tracker) Changed() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.changed
}

// Listed tells whether an open decision lists the target of this id, so that an
// attempt on it is running or may still come.
func (t *Tracker) Listed(id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.mu.targets[id]
	return s != nil && s.listed.Load() > 0
}

// Retain says which targets and endpoints the configuration names now. The
// others are forgotten by a later Sweep, unless a configuration names them again
// before.
func (t *Tracker) Retain(targets, endpoints map[string]bool, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, s := range t.mu.targets {
		if targets[id] {
			s.goneSince = time.Time{}
		} else if s.goneSince.IsZero() {
			s.goneSince = now
		}
	}
	for name, e := range t.mu.endpoints {
		if endpoints[name] {
			e.goneSince = time.Time{}
		} else if e.goneSince.IsZero() {
			e.goneSince = now
		}
	}
}

// Sweep forgets what no configuration has named for Settings.ForgetAfter and no open
// decision uses. What is in use stays, so that a target that comes back finds the
// counts of its old attempts, and these end where they began.
func (t *Tracker) Sweep(now time.Time) {
	after := t.settings.Load().ForgetAfter
	gone := func(since time.Time) bool { return !since.IsZero() && now.Sub(since) >= after }
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, s := range t.mu.targets {
		if gone(s.goneSince) && s.listed.Load() == 0 {
			delete(t.mu.targets, id)
		}
	}
	for name, e := range t.mu.endpoints {
		if gone(e.goneSince) && e.own.Load() == 0 {
			delete(t.mu.endpoints, name)
		}
	}
}
