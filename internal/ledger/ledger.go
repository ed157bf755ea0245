package ledger

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pointsman/pointsman/internal/routing"
	"github.com/pointsman/pointsman/internal/tracker"
)

const (
	// entryWait is how long after the end of a request's stream its log
	// entries are waited for.
	entryWait = 5 * time.Second
	// maxWaiting bounds the decisions that wait for entries: 10,000 requests a
	// second while the log connection is away. More: the oldest close.
	maxWaiting = 50_000
	// sweepEvery is how often the ledger looks for decisions that waited long enough.
	sweepEvery = 250 * time.Millisecond
)

// Sink is told what happened. Its methods are called with no lock of the ledger
// held, must not block, and must not keep the pointers they are given. What is told of
// one decision after Decided may come from several goroutines at once.
type Sink interface {
	// Decided is called when a decision was opened.
	Decided(d *routing.Decision)
	// Attempted is called once per attempt: when its end is heard, or as Unknown when
	// the decision closes without. parked tells that it parked its target.
	Attempted(pool, target string, a *Attempt, parked bool)
	// Answered is called for each answer that no upstream made.
	Answered(a Answer)
	// Closed is called once per decision, but for one whose request was told by Answered
	// already, because its client left before the proxy knew of the decision.
	Closed(r Record)
	// Late is called for an entry that came after its decision was closed.
	Late()
}

// Options are what a ledger needs.
type Options struct {
	// Prefix begins every decision id: "<node id>-<start time, base 36>-".
	Prefix string
	// Retryable tells whether the proxy tries the next entry after an answer of this status.
	Retryable func(status int) bool
	// LatencyTTFT samples the time to the first body byte instead of the whole duration.
	LatencyTTFT func() bool
	Free        func(*routing.Decision) // takes back closed decisions
	Sink        Sink
}

// Ledger holds the open decisions.
type Ledger struct {
	opts   Options
	number atomic.Uint64

	mu struct {
		sync.Mutex
		accounts map[uint64]*account
		waiting  queue // those whose stream has ended, oldest first
		unnamed  unnamed
	}
}

// New gives an empty ledger.
func New(opts Options) *Ledger {
	l := &Ledger{opts: opts}
	l.mu.accounts = make(map[uint64]*account)
	l.mu.waiting.init()
	return l
}

// Open registers a decision and gives it its id. The ledger owns it from here on; the
// caller may read it until it calls StreamEnded with its number.
func (l *Ledger) Open(d *routing.Decision) {
	d.Number = l.number.Add(1)
	id := make([]byte, 0, 64)
	id = append(id, l.opts.Prefix...)
	d.ID = string(strconv.AppendUint(id, d.Number, 36))
	now := time.Now()
	l.mu.Lock()
	l.mu.accounts[d.Number] = &account{d: d, opened: now, since: now}
	l.mu.Unlock()
	l.opts.Sink.Decided(d)
}

// StreamEnded says that the request's stream has ended, for whatever reason: the
// count is released. Saying it again changes nothing.
func (l *Ledger) StreamEnded(number uint64) {
	now := time.Now()
	l.mu.Lock()
	c := l.mu.accounts[number]
	if c == nil || !c.ended.IsZero() {
		l.mu.Unlock()
		return
	}
	c.ended = now
	c.d.Move(-1)
	l.mu.waiting.push(c)
	var closed *account
	switch {
	case c.complete():
		closed = l.take(c)
	case l.mu.waiting.n > maxWaiting:
		closed = l.take(l.mu.waiting.first())
	}
	l.mu.Unlock()
	if closed != nil {
		l.close(closed)
	}
}

// parse gives the number in a decision id of this process, or false.
func (l *Ledger) parse(id string) (uint64, bool) {
	rest, ok := strings.CutPrefix(id, l.opts.Prefix)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(rest, 36, 64)
	return n, err == nil && n > 0 && n <= l.number.Load()
}

// AttemptEnded applies the outcome of an attempt. Those of decisions that this
// process does not know are ignored, and so are those that were applied before;
// those of closed ones are late.
//
// The attempt's number is set to its place in the list, from 1.
func (l *Ledger) AttemptEnded(a *Attempt) {
	number, ok := l.parse(a.Decision)
	if !ok {
		return
	}
	// A balancer may panic. It is called last, when the account is as it must be; the lock is
	// released then too, and the sink hears the news.
	var n news
	defer l.tell(&n)
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.mu.accounts[number]
	if c == nil {
		n.late = true
		return
	}
	from, k := c.at, c.place(a)
	if !c.hear(k) {
		return
	}
	a.Number = k + 1
	if a.Outcome == ClientLeft && c.idle {
		a.Outcome = Cut
	}
	now := time.Now()
	d := c.d
	parked := l.learn(d, k, a, now)
	if k == c.at {
		if l.goesOn(d, k, a) {
			c.moveOn(now)
		} else {
			c.end(a, now)
		}
	}
	if a.Outcome == ClientLeft && c.answered == 0 {
		c.left = append(c.left, *a)
	} else {
		n.attempt, n.pool, n.target, n.parked = a, d.Pool.Name, d.Entry(k).ID, parked
	}
	if c.complete() {
		n.closed = l.take(c)
	}
	c.inform(from, k, a.Outcome.failed())
}

// news is what the sink hears when the ledger is unlocked.
type news struct {
	late         bool
	attempt      *Attempt
	pool, target string
	parked       bool
	closed       *account
}

func (l *Ledger) tell(n *news) {
	if n.late {
		l.opts.Sink.Late()
	}
	if n.attempt != nil {
		l.opts.Sink.Attempted(n.pool, n.target, n.attempt, n.parked)
	}
	if n.closed != nil {
		l.close(n.closed)
	}
}

// AnsweredByProxy takes an entry of the request log: one that names a decision
// gives it its final status; one that names none is counted by itself.
func (l *Ledger) AnsweredByProxy(a Answer) { l.answered(a) }

// Refused takes an answer that pointsman gave instead of a decision, or in spite of
// one that it then could not tell the proxy.
func (l *Ledger) Refused(a Answer) { l.answered(a) }

func (l *Ledger) answered(a Answer) {
	var closed *account
	if number, ok := l.parse(a.Decision); ok {
		l.mu.Lock()
		if c := l.mu.accounts[number]; c != nil {
			c.answered = a.Status
			if a.Status == 0 {
				c.answered = statusClientGone
			}
			c.idle = c.idle || a.Idle
			a.Pool = c.d.Pool.Name
			if c.complete() {
				closed = l.take(c)
			}
		}
		l.mu.Unlock()
	} else if a.Decision == "" && a.Status == statusClientGone {
		l.mu.Lock()
		l.mu.unnamed.add(time.Now())
		l.mu.Unlock()
	}
	l.opts.Sink.Answered(a)
	if closed != nil {
		l.close(closed)
	}
}

// Run closes decisions whose entries were waited for long enough, until ctx
// ends.
func (l *Ledger) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			l.sweep(now)
		}
	}
}

func (l *Ledger) sweep(now time.Time) {
	for {
		l.mu.Lock()
		c := l.mu.waiting.first()
		if c == nil || now.Sub(c.ended) < entryWait {
			l.mu.Unlock()
			return
		}
		l.take(c)
		l.mu.Unlock()
		l.close(c)
	}
}

// take removes a decision whose stream has ended from the table, so that it
// belongs to the caller, who closes it. The ledger is locked.
func (l *Ledger) take(c *account) *account {
	delete(l.mu.accounts, c.d.Number)
	l.mu.waiting.remove(c)
	return c
}

// close tells the sink how a request ended, and gives the decision back.
func (l *Ledger) close(c *account) {
	d := c.d
	for _, k := range c.missed {
		l.unknown(d, k)
	}
	for i := range c.left {
		a := &c.left[i]
		if c.idle {
			a.Outcome = Cut
		}
		l.opts.Sink.Attempted(d.Pool.Name, d.Entry(a.Number-1).ID, a, false)
	}
	status := c.status
	if !c.over {
		l.unknown(d, c.at)
		status = 0
	}
	if c.answered != 0 {
		status = c.answered
	}
	if status == 0 && l.countedUnnamed(c.ended) {
		l.opts.Free(d)
		return
	}
	l.opts.Sink.Closed(Record{
		Pool: d.Pool.Name, Status: status, Attempts: c.at + 1, Duration: c.ended.Sub(c.opened), TTFT: c.ttft,
	})
	l.opts.Free(d)
}

func (l *Ledger) countedUnnamed(ended time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.unnamed.take(ended)
}

// unknown tells the sink of an attempt that was never heard of.
func (l *Ledger) unknown(d *routing.Decision, k int) {
	a := Attempt{Decision: d.ID, Cluster: d.Entry(k).Cluster, Number: k + 1, RetryAfter: tracker.NoHint}
	l.opts.Sink.Attempted(d.Pool.Name, d.Entry(k).ID, &a, false)
}
