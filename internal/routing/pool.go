package routing

import (
	"slices"
	"sync"
	"time"

	"github.com/pointsman/pointsman/internal/tracker"
	"github.com/pointsman/pointsman/picker"
)

// Pool is the set of targets that one balancer chooses from, or the one target of a
// provider pin, which has no balancer. Immutable but for what its balancer learns.
type Pool struct {
	Name       string // the route's model, model::variant, or slug/* of a group or pin
	Strategy   string // "" for a pin
	MaxRetries int

	key     poolKey
	targets []Target
	timeout [2]time.Duration // to the response headers, by kind; 0 = none
	perTry  [2]bool          // by kind: the time limit is one attempt's, and the next entry follows

	chooser *chooser // nil for a pin
}

// poolKey names a pool over all snapshots. Pools of different kinds may have one name.
type poolKey struct {
	kind          poolKind
	name, variant string
}

type poolKind uint8

const (
	routePool poolKind = iota
	groupPool
	pinPool
)

// Target is one member of a pool. Immutable.
type Target struct {
	ID       string
	Provider string // slug
	Model    string // upstream model; "" = whatever is asked for
	Cluster  string // Envoy's cluster that leads there
	Weight   int    // 0 = drained
	Limit    int64  // most requests in flight on the endpoint; 0 = none

	State    *tracker.Target
	Endpoint *tracker.Endpoint
}

// Eligible tells whether the target may be chosen without failing open, by a caller who may
// use it.
func (t *Target) Eligible(now time.Time) bool {
	return t.open() && !t.full() && !t.State.Parked(now)
}

// open tells whether the target may be chosen at all, as long as it is not full.
func (t *Target) open() bool { return t.Weight > 0 && t.State.Reachable() }

func (t *Target) full() bool { return t.Limit > 0 && t.Endpoint.InFlight() >= t.Limit }

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
