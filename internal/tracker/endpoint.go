package tracker

import (
	"sync/atomic"
	"time"
)

// Endpoint is one provider instance as load is counted. Get it from
// Tracker.Endpoint.
type Endpoint struct {
	name string
	own  atomic.Int64

	goneSince time.Time // guarded by Tracker.mu; zero while a configuration names the endpoint
}

// Name is the endpoint's name: its provider's slug.
func (e *Endpoint) Name() string { return e.name }

// InFlight counts this replica's attempts that were dispatched and have not ended.
func (e *Endpoint) InFlight() int64 { return e.own.Load() }

// Load is the number that strategies compare.
func (e *Endpoint) Load() int64 { return e.own.Load() }

// Hold is one request's place in the in-flight counts: on one endpoint, or
// released. It is the only way to change a count, so a count can neither be
// released twice nor forgotten by anything but losing the Hold. The zero value
// holds nothing. It is not safe for concurrent use.
type Hold struct{ on *Endpoint }

// Move takes the place on e, giving up the one held before; nil releases it.
func (h *Hold) Move(e *Endpoint) {
	if e != nil {
		e.own.Add(1)
	}
	if h.on != nil {
		h.on.own.Add(-1)
	}
	h.on = e
}

// Take is Move for an endpoint that takes no more than limit requests (0 = any number). It
// tells whether there was room; without, nothing has changed. Of many that take at
// once, no more than fit get in.
func (h *Hold) Take(e *Endpoint, limit int64) bool {
	if limit <= 0 {
		h.Move(e)
		return true
	}
	for {
		n := e.own.Load()
		if n >= limit {
			return false
		}
		if e.own.CompareAndSwap(n, n+1) {
			break
		}
	}
	if h.on != nil {
		h.on.own.Add(-1)
	}
	h.on = e
	return true
}

// Held tells whether a place is held.
func (h *Hold) Held() bool { return h.on != nil }
