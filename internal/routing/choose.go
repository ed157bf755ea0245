package routing

import (
	"slices"
	"time"

	"github.com/pointsman/pointsman/internal/wire"
	"github.com/pointsman/pointsman/picker"
)

// part is what one pool has to do with a decision: the only one, or that of a variant.
type part struct {
	pool     *Pool
	call     picker.Call
	loads    []int64
	eligible picker.Set
	open     picker.Set // who may be chosen by failing open
	scanned  bool
}

// entry is one entry of the list: target number target of a part.
type entry struct{ part, target int }

// stage says among whom is chosen.
type stage uint8

const (
	overEligible stage = 1 << iota
	failingOpen
)

// begin gives the decision its parts: the primary's, then the others' in declared order.
func (d *Decision) begin(p *place, primary int) {
	d.Pool = p.pools[primary]
	if p.weights != nil {
		d.Variant = p.names[primary]
	}
	d.part(d.Pool)
	for i, pool := range p.pools {
		if i != primary {
			d.part(pool)
		}
	}
}

// part adds a part, reusing storage.
func (d *Decision) part(pool *Pool) {
	n := len(d.parts)
	if n < cap(d.parts) {
		d.parts = d.parts[:n+1]
	} else {
		d.parts = append(d.parts, nil)
	}
	if d.parts[n] == nil {
		d.parts[n] = &part{}
	}
	d.parts[n].pool = pool
	d.parts[n].call.Request = &d.req
}

// list fills the list and counts its first entry in flight. An empty list means
// that nothing is left even by failing open.
func (d *Decision) fillList(allowed providers, now time.Time) {
	limit := d.Pool.MaxRetries + 1
	if len(d.parts) == 1 {
		d.ask(0, limit, overEligible|failingOpen, allowed, now)
		return
	}
	for _, s := range []stage{overEligible, failingOpen} {
		for i := range d.parts {
			if len(d.entries) < limit {
				d.ask(i, limit, s, allowed, now)
			}
		}
	}
}

// ask lets the balancer of part i choose the next entries.
func (d *Decision) ask(i, limit int, s stage, allowed providers, now time.Time) {
	p := d.parts[i]
	c := p.pool.chooser
	if c == nil {
		d.scan(i, allowed, now)
		d.pin(p)
		return
	}
	if !p.scanned {
		p.call.Now = now
		c.balancer.Prepare(&p.call)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !p.scanned {
		d.scan(i, allowed, now)
	}
	if s&overEligible != 0 {
		d.pick(i, limit, p.eligible, false)
	}
	if s&failingOpen != 0 {
		d.pick(i, limit, p.open, true)
	}
}

// scan reads the loads of part i and finds who may be chosen.
func (d *Decision) scan(i int, allowed providers, now time.Time) {
	p := d.parts[i]
	n := len(p.pool.targets)
	p.eligible, p.open = p.eligible.Grow(n), p.open.Grow(n)
	p.loads = slices.Grow(p.loads[:0], n)[:n]
	p.scanned = true
	for j := range p.pool.targets {
		t := &p.pool.targets[j]
		p.loads[j] = t.Endpoint.Load()
		if !allowed.has(t.Provider) {
			continue
		}
		d.permitted = true
		switch {
		case !t.open() || i > 0 && d.listed(t.ID):
		case t.full():
			d.full = true
		default:
			p.open.Add(j)
			if !t.State.Parked(now) {
				p.eligible.Add(j)
			}
		}
	}
	p.call.Loads = p.loads
}

// listed tells whether a target is in the list already.
func (d *Decision) listed(id string) bool {
	for k := range d.entries {
		if d.Entry(k).ID == id {
			return true
		}
	}
	return false
}

// pick lets a balancer choose out of a set, one of the two of its part, until the
// list or the set is at its end.
func (d *Decision) pick(i, limit int, set picker.Set, failOpen bool) {
	p := d.parts[i]
	for len(d.entries) < limit {
		p.call.Attempt, p.call.Eligible = len(d.entries), set
		j := p.pool.chooser.balancer.Pick(&p.call)
		if j < 0 {
			return
		}
		p.eligible.Remove(j)
		p.open.Remove(j)
		t := &p.pool.targets[j]
		if len(d.entries) == 0 {
			if !d.hold.Take(t.Endpoint, t.Limit) {
				// A decision of another pool on this endpoint came first.
				d.full = true
				p.call.Ended(j)
				continue
			}
			d.Why, d.FailOpen = p.call.Why, failOpen
		}
		d.entries = append(d.entries, entry{i, j})
		if len(d.parts) > 1 {
			d.strike(i, t.ID)
		}
	}
}

// strike takes a target that part i has just listed out of the choice of the others.
func (d *Decision) strike(i int, id string) {
	for k, p := range d.parts {
		if k == i || !p.scanned {
			continue
		}
		for j := range p.pool.targets {
			if p.pool.targets[j].ID == id {
				p.eligible.Remove(j)
				p.open.Remove(j)
			}
		}
	}
}

// pin lists the one target of a pool without a balancer, if it may be chosen.
func (d *Decision) pin(p *part) {
	if !p.open.Has(0) {
		return
	}
	t := &p.pool.targets[0]
	if !d.hold.Take(t.Endpoint, t.Limit) {
		d.full = true
		return
	}
	d.Why, d.FailOpen = picker.WhyPin, !p.eligible.Has(0)
	d.entries = append(d.entries, entry{})
}

// saturatedWait is the Retry-After of a request for which all were full, in seconds.
const saturatedWait = 1

// refusal is why the list is empty.
func (d *Decision) refusal() *Refusal {
	r := &Refusal{Cause: wire.ErrNoTarget, Pool: d.Pool.Name, Message: "no target can serve this request now"}
	switch {
	case !d.permitted:
		r.Cause, r.Message = wire.ErrNoPermittedTarget, "no provider of this model may be used by this caller"
	case d.full:
		r.Cause, r.Message, r.RetryAfter = wire.ErrSaturated, "all targets are full", saturatedWait
	}
	return r
}
