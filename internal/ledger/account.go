package ledger

import (
	"slices"
	"time"

	"github.com/pointsman/pointsman/internal/routing"
)

// account is what the ledger knows of one open decision. Its fields are guarded by the ledger's lock until it
// is taken out of the table.
type account struct {
	d      *routing.Decision
	opened time.Time
	ended  time.Time // of the stream; zero while it runs

	at     int       // entry of the list that the request has come to
	since  time.Time // it is not there since before
	missed []int     // entries before at whose end was not heard

	over     bool    // the attempt on at has ended, and no other follows
	last     Outcome // of that attempt
	status   int     // that the client saw because of it
	answered int     // final status as the request log tells it; 0 = it did not
	idle     bool    // it also tells that the upstream was silent for too long
	ttft     time.Duration

	// left are attempts that the client seems to have left. Whether it did is not known
	// before the request log tells, so the sink hears of them at the close.
	left []Attempt

	prev, next *account // in Ledger.mu.waiting
}

// place gives the entry of the list that an attempt was on, or -1.
func (c *account) place(a *Attempt) int {
	if k := a.Number - 1; k >= 0 && k < c.d.Len() && c.d.Entry(k).Cluster == a.Cluster {
		return k
	}
	return c.d.Find(a.Cluster)
}

// hear notes that the attempt on entry k has ended, and tells whether that is news. The
// proxy goes along the list and never back, so one further on than the request
// was known to be says that those before have failed; their own words are missed, and may
// still come.
func (c *account) hear(k int) bool {
	switch {
	case k < 0:
		return false
	case k < c.at:
		i := slices.Index(c.missed, k)
		if i < 0 {
			return false
		}
		c.missed = slices.Delete(c.missed, i, i+1)
		return true
	case k == c.at:
		return !c.over
	}
	for c.at < k {
		if !c.over {
			c.missed = append(c.missed, c.at)
		}
		c.moveOn(c.since)
	}
	return true
}

// moveOn takes the request to the next entry of its list, where it is not since
// before the time given. Its place in the counts moves too, unless it was released.
func (c *account) moveOn(since time.Time) {
	c.at++
	c.since, c.over = since, false
	if c.d.Held() {
		c.d.Move(c.at)
	}
}

// inform tells the balancer what the end of the attempt on entry k says of the list, along
// which the request had come to entry from before.
func (c *account) inform(from, k int, failed bool) {
	for i := from + 1; i <= k; i++ {
		c.d.Observe(i)
	}
	if failed {
		c.d.Withdraw(k)
	}
	for i := max(from, k) + 1; i <= c.at; i++ {
		c.d.Observe(i)
	}
}

// end notes that the attempt on the entry the request has come to was the last one.
func (c *account) end(a *Attempt, now time.Time) {
	c.over, c.last, c.status = true, a.Outcome, a.status()
	c.d.Move(-1)
	if a.FirstBody == 0 {
		return
	}
	begin := c.since
	if a.Total > 0 { // it ended when the stream did, or just now if that is still to be heard
		begin = now.Add(-a.Total)
		if !c.ended.IsZero() {
			begin = c.ended.Add(-a.Total)
		}
	}
	c.ttft = a.FirstBody + max(begin.Sub(c.opened), 0)
}

// complete tells whether the stream has ended and all there is to hear was heard.
//
// An attempt that ended without a flag was given up by a client that left, or by the
// proxy: before a response when the time of all attempts was over (the client saw 504),
// after that when the upstream was silent for too long. Only the request log knows which,
// and has an entry for each.
func (c *account) complete() bool {
	unsure := (c.last == ClientGone || c.last == ClientLeft) && c.answered == 0
	return !c.ended.IsZero() && c.over && len(c.missed) == 0 && !unsure
}
