package picker

import (
	"slices"
	"time"

	"github.com/zeebo/xxh3"
)

// sessionAffinity prefers the target that has the request's session.
type sessionAffinity struct{ pins *pins }

func (s *sessionAffinity) prepare(c *Call) { c.scratch.pinned = s.pins.find(c) }

func (s *sessionAffinity) add(c *Call, _ []int64, cands []int, weight float64, to []float64) {
	to = to[:len(cands)]
	for k, i := range cands {
		if i == c.scratch.pinned {
			to[k] += weight
		}
	}
}

func (s *sessionAffinity) observe(i int, c *Call)  { s.pins.observe(i, c) }
func (s *sessionAffinity) withdraw(i int, c *Call) { s.pins.withdraw(i, c) }

// pins is the part of a balancer that knows which target a session was last sent to. The
// table and the seats belong to the pool and outlive the balancer.
type pins struct {
	table      *pinTable
	seats      []*seat // by index
	ttl        time.Duration
	max        int
	generation uint64 // of this balancer in its pool
}

// seat is a target in its pool, from the reload that brings it to the one that
// takes it out. A pin holds on to it, not to the id: one that comes back is another.
type seat struct {
	kept uint64 // the last generation that has it, guarded by the table's lock
}

func newPins(cfg Config, old estate) *pins {
	p := &pins{ttl: max(cfg.Settings.SessionTTL, 0), max: cfg.Settings.SessionMax, generation: 1}
	var seats []*seat
	if old.pins != nil {
		p.table, seats, p.generation = old.pins.table, old.pins.seats, old.pins.generation+1
	} else {
		p.table = newPinTable()
	}
	p.seats = carried(cfg.Targets, old.ids, seats, func(string) *seat { return new(seat) })
	return p
}

// off tells whether nothing is pinned.
func (p *pins) off(c *Call) bool {
	return c.Request == nil || c.Request.Session == "" || p.ttl == 0 || p.max <= 0
}

// find gives the target to which the call's session is pinned, or -1.
func (p *pins) find(c *Call) int {
	if p.off(c) {
		return -1
	}
	s := p.table.find(xxh3.HashString128(c.Request.Session), c.Now.UnixNano(), p.ttl, &c.scratch)
	if s == nil {
		return -1
	}
	return slices.Index(p.seats, s)
}

// pinNote is what Observe leaves for Withdraw.
type pinNote struct {
	table   *pinTable
	index   int
	session xxh3.Uint128
	written uint64
	was     pin // the pin that was replaced
}

// observe pins the call's session to target i.
func (p *pins) observe(i int, c *Call) {
	if p.off(c) {
		return
	}
	note := pinNote{table: p.table, index: i, session: xxh3.HashString128(c.Request.Session)}
	note.written, note.was = p.table.observe(p, note.session, p.seats[i], c.Now.UnixNano())
	if k := p.noteOf(i, c); k >= 0 {
		c.scratch.pins[k] = note
	} else {
		c.scratch.pins = append(c.scratch.pins, note)
	}
}

// withdraw brings back the pin that observe replaced.
func (p *pins) withdraw(i int, c *Call) {
	if k := p.noteOf(i, c); k >= 0 {
		p.table.withdraw(c.scratch.pins[k])
		c.scratch.pins = slices.Delete(c.scratch.pins, k, k+1)
	}
}

// noteOf finds the call's note of its attempt on target i, or -1.
func (p *pins) noteOf(i int, c *Call) int {
	for k := range c.scratch.pins {
		if note := &c.scratch.pins[k]; note.table == p.table && note.index == i {
			return k
		}
	}
	return -1
}

func (p *pins) sweep(now time.Time) { p.table.sweep(p, now.UnixNano()) }
