package picker

import (
	"time"

	"github.com/zeebo/xxh3"
)

// sweepPins is how many pins are looked at with the table locked once: some ten µs.
const sweepPins = 256

// makeRoom is how many sessions one observed session may push out. It is more than
// one only after a reload lowered the bound.
const makeRoom = 64

// nowhere is the end of a list of places.
const nowhere = -1

// pinTable is a bounded table of pins, the least recently observed of which makes
// room. Sessions are known by a hash of 128 bits: they may be long, and are nobody's
// business.
type pinTable struct {
	mu stripedLock
	// What follows is guarded by mu.
	at             map[xxh3.Uint128]int32 // places
	places         []place
	free           int32 // first of a list by place.newer
	newest, oldest int32 // ends of the list of those in use
	written        uint64
	generation     uint64 // of the latest balancer that was used
	max            int
	ttl            time.Duration
}

// pin says that a session went to a target.
type pin struct {
	seat    *seat // nil = no pin
	at      int64 // Unix ns
	written uint64
}

func (p pin) expired(now int64, ttl time.Duration) bool { return now-p.at >= int64(ttl) }

type place struct {
	pin
	session      xxh3.Uint128
	older, newer int32
}

func newPinTable() *pinTable {
	t := &pinTable{}
	t.clear()
	return t
}

// clear gives all storage back.
func (t *pinTable) clear() {
	t.at, t.places = make(map[xxh3.Uint128]int32), nil
	t.free, t.newest, t.oldest = nowhere, nowhere, nowhere
}

// find gives the seat that a session is pinned to, or nil.
func (t *pinTable) find(session xxh3.Uint128, now int64, ttl time.Duration, s *scratch) *seat {
	mu := t.mu.reader(s)
	mu.RLock()
	defer mu.RUnlock()
	k, known := t.at[session]
	if !known || t.places[k].expired(now, ttl) {
		return nil
	}
	return t.places[k].seat
}

// observe pins a session to a seat, unless that has left the pool. It gives the
// number of the pin, and the one that it replaced.
func (t *pinTable) observe(by *pins, session xxh3.Uint128, s *seat, now int64) (written uint64, was pin) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.retain(by)
	if s.kept != t.generation {
		return 0, pin{}
	}
	k, known := t.at[session]
	if known {
		was = t.places[k].pin
		t.unlink(k)
	} else {
		k = t.place(session)
	}
	t.written++
	t.places[k].pin = pin{s, now, t.written}
	t.push(k)
	return t.written, was
}

// withdraw brings back what a note's pin replaced, unless the pin is not there any
// more.
func (t *pinTable) withdraw(note pinNote) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k, known := t.at[note.session]
	if !known || t.places[k].written != note.written {
		return
	}
	// Whether it has expired is asked when it is looked for.
	if t.places[k].pin = note.was; note.was.seat == nil {
		t.remove(k)
	}
}

// retain follows the balancer that uses the table if it is the latest.
func (t *pinTable) retain(by *pins) {
	if by.generation <= t.generation {
		return
	}
	t.generation, t.max, t.ttl = by.generation, by.max, by.ttl
	for _, s := range by.seats {
		s.kept = t.generation
	}
}

// sweep removes pins that have expired, or whose target has left the pool.
func (t *pinTable) sweep(by *pins, now int64) {
	for from, more := 0, true; more; from += sweepPins {
		more = t.sweepFrom(by, from, now)
	}
}

// sweepFrom looks at some places, and tells whether there are more.
func (t *pinTable) sweepFrom(by *pins, from int, now int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.retain(by)
	for k := from; k < min(from+sweepPins, len(t.places)); k++ {
		if p := t.places[k].pin; p.seat != nil && (p.expired(now, t.ttl) || p.seat.kept != t.generation) {
			t.remove(int32(k))
		}
	}
	if len(t.at) == 0 {
		t.clear()
	}
	return from+sweepPins < len(t.places)
}

// place gives a session a place, the oldest one's if there is no other.
func (t *pinTable) place(session xxh3.Uint128) int32 {
	for range makeRoom {
		if len(t.at) < t.max {
			break
		}
		t.remove(t.oldest)
	}
	k := t.free
	if k == nowhere {
		k = int32(len(t.places))
		t.places = append(t.places, place{})
	} else {
		t.free = t.places[k].newer
	}
	t.places[k].session = session
	t.at[session] = k
	return k
}

// remove forgets a session.
func (t *pinTable) remove(k int32) {
	t.unlink(k)
	delete(t.at, t.places[k].session)
	t.places[k] = place{newer: t.free}
	t.free = k
}

// push makes a place that is in no list the newest.
func (t *pinTable) push(k int32) {
	p := &t.places[k]
	p.older, p.newer = t.newest, nowhere
	if t.newest != nowhere {
		t.places[t.newest].newer = k
	} else {
		t.oldest = k
	}
	t.newest = k
}

// unlink takes a place out of the list.
func (t *pinTable) unlink(k int32) {
	p := &t.places[k]
	if p.newer != nowhere {
		t.places[p.newer].older = p.older
	} else {
		t.newest = p.older
	}
	if p.older != nowhere {
		t.places[p.older].newer = p.newer
	} else {
		t.oldest = p.newer
	}
}
