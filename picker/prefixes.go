package picker

import (
	"slices"
	"sync/atomic"
)

// prefixes is the part of a balancer that knows which texts went where. The
// history and the members in it belong to the pool and outlive the balancer.
type prefixes struct {
	history    history
	members    []*member // by index
	bound      int64
	generation uint64 // of this balancer in its pool
	inForce    atomic.Bool
}

// history remembers the affinity texts dispatched to each member of a pool. What
// it may take for granted: members are few, texts are at most some ten KiB and
// often share their beginnings, most of them never return, and it is asked for
// every request but changes only with dispatched ones.
type history interface {
	// match writes into s.matched, for each member, how many leading bytes of text it
	// shares with some text remembered there. Never too many. It holds at most a read
	// lock and allocates only to grow the scratch.
	match(text []byte, members []*member, s *scratch)
	// observe makes a copy of text the newest that m remembers, and lets m forget
	// its oldest until its bound holds.
	observe(m *member, text []byte)
	// retain drops every member that is not listed, and sets the bound in bytes
	// of each member (0 = none). A call with an older generation than one before
	// does nothing.
	retain(generation uint64, members []*member, bound int64)
}

// member is a target in its pool, from the reload that brings it to the one
// that takes it out.
type member struct {
	id       string
	observed atomic.Uint64 // non-empty texts observed
	memory                 // belongs to the history
}

func newMember(id string) *member { return &member{id: id, memory: memory{number: none}} }

// newPrefixes takes over the history that old leaves, or begins one. The history
// itself learns of the change when the new balancer is first used, because a
// configuration that is refused after all must have changed nothing.
func newPrefixes(cfg Config, old estate) *prefixes {
	p := &prefixes{bound: max(cfg.Settings.PrefixMaxBytes, 0), generation: 1}
	var members []*member
	if old.prefixes != nil {
		p.history, members, p.generation = old.prefixes.history, old.prefixes.members, old.prefixes.generation+1
	} else {
		p.history = newTree()
	}
	p.members = carried(cfg.Targets, old.ids, members, newMember)
	return p
}

// measure fills the call's scratch with what each target knows of its text.
func (p *prefixes) measure(c *Call) {
	s, text := &c.scratch, c.text()
	s.measured = len(text) > 0
	if !s.measured {
		return
	}
	s.matched = slices.Grow(s.matched[:0], len(p.members))[:len(p.members)]
	p.history.match(text, p.members, s)
}

// observe remembers that a text goes to target i.
func (p *prefixes) observe(i int, text []byte) {
	if i < 0 || i >= len(p.members) || len(text) == 0 {
		return
	}
	if !p.inForce.Load() {
		p.history.retain(p.generation, p.members, p.bound)
		p.inForce.Store(true)
	}
	p.members[i].observed.Add(1)
	p.history.observe(p.members[i], text)
}

// observed gives the number of texts observed on target i.
func (p *prefixes) observed(i int) uint64 { return p.members[i].observed.Load() }
