package routing

import (
	"time"

	"github.com/pointsman/pointsman/internal/tracker"
	"github.com/pointsman/pointsman/picker"
)

// Decision is the choice made for one request: an ordered list of targets, best
// first, and the one place in the in-flight counts that follows the request
// along it. It is made by Router.Decide, owned by the ledger from Ledger.Open
// on, and returned to the router by Free.
//
// Its fields, Len, Entry and Find may be used from any goroutine between Open and
// Free, the rest by one at a time.
type Decision struct {
	// ID is the value of the decision header. The ledger sets it.
	ID string
	// Number is the id within this process. The ledger sets it.
	Number uint64

	Pool     *Pool  // with variants, that of the primary
	Variant  string // the primary's name, "" without variants
	Kind     picker.Kind
	Why      picker.Why
	FailOpen bool          // of the first choice
	Took     time.Duration // that the choice took
	Tokens   int64         // of the prompt, estimated or known
	Digest   uint64        // identity of the prompt, 0 if it has none

	// TextBytes is the length of the affinity text, and MatchedBytes how much of it
	// was known on the first choice before.
	TextBytes, MatchedBytes int

	entries []entry
	parts   []*part
	model   string // asked of a group or provider
	hold    tracker.Hold

	permitted bool // the caller may use a target
	full      bool // a target is left out only because it is full

	req  picker.Request
	text []byte // own copy of the affinity text, for attempts that come later
}

// Len is the number of entries, at least 1 for a decision that was made.
func (d *Decision) Len() int { return len(d.entries) }

// Entry gives entry k of the list. With variants it may belong to another pool than Pool.
func (d *Decision) Entry(k int) *Target {
	e := d.entries[k]
	return &d.parts[e.part].pool.targets[e.target]
}

// Model gives the upstream model of entry k: its target's, or what was asked for of one
// that serves any. It is "" for a request that came by its path to such a target.
func (d *Decision) Model(k int) string {
	if m := d.Entry(k).Model; m != "" {
		return m
	}
	return d.model
}

// Find gives the entry that leads to this cluster, or -1.
func (d *Decision) Find(cluster string) int {
	for k := range d.entries {
		if d.Entry(k).Cluster == cluster {
			return k
		}
	}
	return -1
}

// Move counts the request in flight on entry k instead of where it was, or
// nowhere when k is -1.
func (d *Decision) Move(k int) {
	if k < 0 {
		d.hold.Move(nil)
		return
	}
	d.hold.Move(d.Entry(k).Endpoint)
}

// Held tells whether the request is counted in flight.
func (d *Decision) Held() bool { return d.hold.Held() }

// Observe tells the balancer that an attempt on entry k is being dispatched.
func (d *Decision) Observe(k int) {
	if b, i, call := d.balancer(k); b != nil {
		b.Observe(i, call)
	}
}

// Withdraw tells the balancer that the attempt on entry k failed before any
// response started.
func (d *Decision) Withdraw(k int) {
	if b, i, call := d.balancer(k); b != nil {
		b.Withdraw(i, call)
	}
}

// balancer gives the balancer of entry k, nil for a pin, with its number there and the call.
func (d *Decision) balancer(k int) (picker.Balancer, int, *picker.Call) {
	e := d.entries[k]
	p := d.parts[e.part]
	if p.pool.chooser == nil {
		return nil, 0, nil
	}
	p.call.Attempt, p.call.Now = k, time.Now()
	return p.pool.chooser.balancer, e.target, &p.call
}

// release makes the decision independent of the request it came from, which is
// reused once it is answered. The text is copied for a list with a second entry
// only: that entry is observed when the first has failed. Token ids have done their
// duty when the choice is made.
func (d *Decision) release() {
	if len(d.entries) > 1 {
		d.text = append(d.text[:0], d.req.Text...)
		d.req.Text = d.text
	} else {
		d.req.Text = nil
	}
	d.req.TokenIDs = nil
}

// list counts the decision (n = 1) or takes it out (n = -1) for every entry.
func (d *Decision) list(n int64) {
	for k := range d.entries {
		d.Entry(k).State.List(n)
	}
}

// drop takes the decision out of everything that counts it, and resets it.
func (d *Decision) drop() {
	d.Move(-1)
	d.list(-1)
	d.reset()
}

// reset prepares a used decision for the next request, keeping its storage. It
// must hold no place in the counts any more.
func (d *Decision) reset() {
	for _, p := range d.parts {
		p.call.Reset()
		p.pool, p.scanned = nil, false
	}
	*d = Decision{entries: d.entries[:0], parts: d.parts[:0], text: d.text[:0]}
}
