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

	Pool     *Pool
	Kind     picker.Kind
	Why      picker.Why
	FailOpen bool          // of the first choice
	Took     time.Duration // that the choice took
	Tokens   int64         // of the prompt, estimated or known
	Digest   uint64        // identity of the prompt, 0 if it has none

	// TextBytes is the length of the affinity text, and MatchedBytes how much of it
	// was known on the first choice before.
	TextBytes, MatchedBytes int

	entries []int
	hold    tracker.Hold

	req      picker.Request
	text     []byte // own copy of the affinity text, for attempts that come later
	call     picker.Call
	loads    []int64
	eligible picker.Set
	open     picker.Set
}

// Len is the number of entries, at least 1 for a decision that was made.
func (d *Decision) Len() int { return len(d.entries) }

// Entry gives entry k of the list.
func (d *Decision) Entry(k int) *Target { return &d.Pool.targets[d.entries[k]] }

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
	d.call.Attempt, d.call.Now = k, time.Now()
	d.Pool.chooser.balancer.Observe(d.entries[k], &d.call)
}

// Withdraw tells the balancer that the attempt on entry k failed before any
// response started.
func (d *Decision) Withdraw(k int) {
	d.call.Attempt, d.call.Now = k, time.Now()
	d.Pool.chooser.balancer.Withdraw(d.entries[k], &d.call)
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
	d.call.Reset()
	*d = Decision{
		entries: d.entries[:0], text: d.text[:0], loads: d.loads[:0],
		eligible: d.eligible[:0], open: d.open[:0], call: d.call,
	}
}
