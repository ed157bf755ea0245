package routing

import (
	"slices"
	"sync"
	"time"

	"github.com/pointsman/pointsman/internal/tracker"
	"github.com/pointsman/pointsman/picker"
)

// Pool is the set of targets that one balancer chooses from. Immutable but for what
// its balancer learns.
type Pool struct {
	Name       string // the route's model
	Strategy   string
	MaxRetries int

	targets []Target
	timeout [2]time.Duration // to the response headers, by kind; 0 = none
	perTry  [2]bool          // by kind: the time limit is one attempt's, and the next entry follows

	chooser *chooser
}

// Target is one member of a pool. Immutable.
type Target struct {
	ID       string
	Provider string // slug
	Model    string // upstream model
	Cluster  string // Envoy's cluster that leads there
	Weight   int    // 0 = drained

	State    *tracker.Target
	Endpoint *tracker.Endpoint
}

// Eligible tells whether the target may be chosen without failing open.
func (t *Target) Eligible(now time.Time) bool {
	return t.open() && !t.State.Parked(now)
}

// open tells whether the target may be chosen at all.
func (t *Target) open() bool { return t.Weight > 0 && t.State.Reachable() }

// chooser is a balancer and its lock. It belongs to the pool of one name, and
// pools of successive snapshots share it as long as the balancer's inputs stay the
// same.
type chooser struct {
	inputs   picker.Config
	balancer picker.Balancer

	// mu makes choosing and counting one step as seen by other decisions of
	// the pool. It is held for a pick of microseconds; what costs time
	// (Prepare, Observe) happens outside.
	mu sync.Mutex
}

// newChooser gives the balancer of these inputs: that of old, which may be nil, if
// they are unchanged, else a new one that takes over what old knows of the targets
// that remain.
func newChooser(inputs picker.Config, old *chooser) (*chooser, error) {
	var prev picker.Balancer
	if old != nil {
		if old.inputs.Strategy == inputs.Strategy && old.inputs.Settings == inputs.Settings &&
			slices.Equal(old.inputs.Targets, inputs.Targets) {
			return old, nil
		}
		prev = old.balancer
	}
	b, err := picker.New(inputs, prev)
	if err != nil {
		return nil, err
	}
	return &chooser{inputs: inputs, balancer: b}, nil
}

// Targets gives the members in list order. The caller must not change them.
func (p *Pool) Targets() []Target { return p.targets }

// TimeLimit gives the time limit of an answer of this kind (0 = none), and whether
// it is that of one attempt, after which the next entry follows, or that of all
// attempts together.
func (p *Pool) TimeLimit(k picker.Kind) (limit time.Duration, perTry bool) {
	return p.timeout[k], p.perTry[k]
}

// same tells whether two pools of one name are the same in all they do. The
// handles of the tracker are part of it: a target that was forgotten has a new one.
func (p *Pool) same(q *Pool) bool {
	return p.MaxRetries == q.MaxRetries && p.timeout == q.timeout && p.perTry == q.perTry &&
		p.chooser == q.chooser && slices.Equal(p.targets, q.targets)
}

// reachable tells whether some target may be chosen at all.
func (p *Pool) reachable() bool {
	return slices.ContainsFunc(p.targets, func(t Target) bool { return t.open() })
}

// decide fills the list of d and counts its first entry in flight. An empty list means
// that nothing is left even by failing open.
func (p *Pool) decide(d *Decision, now time.Time) {
	call, c := &d.call, p.chooser
	call.Now = now
	c.balancer.Prepare(call)

	n := len(p.targets)
	d.eligible, d.open = d.eligible.Grow(n), d.open.Grow(n)
	d.loads = slices.Grow(d.loads[:0], n)[:n]

	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range p.targets {
		t := &p.targets[i]
		d.loads[i] = t.Endpoint.Load()
		if !t.open() {
			continue
		}
		d.open.Add(i)
		if !t.State.Parked(now) {
			d.eligible.Add(i)
		}
	}
	call.Loads = d.loads
	for k := range p.MaxRetries + 1 {
		call.Attempt, call.Eligible = k, d.eligible
		i := c.balancer.Pick(call)
		failOpen := i < 0
		if failOpen {
			call.Eligible = d.open
			if i = c.balancer.Pick(call); i < 0 {
				return
			}
		}
		if k == 0 {
			d.Why, d.FailOpen = call.Why, failOpen
			d.hold.Move(p.targets[i].Endpoint)
		}
		d.eligible.Remove(i)
		d.open.Remove(i)
		d.entries = append(d.entries, i)
	}
}
