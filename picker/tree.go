package picker

import (
	"bytes"
	"math/bits"
	"slices"
)

const (
	// minTexts is how many texts a member may always remember, whatever its bound:
	// their bookkeeping is a megabyte, the least that a bound leaves to a member.
	minTexts = 1 << 12
	// bytesPerText is the length below which texts on average cost as much in
	// bookkeeping (about 220 bytes each) as in bytes. A member with more texts than
	// minTexts and than its bound divided by this forgets the oldest, so that
	// memory stays below twice the bound even when every text is a few bytes long.
	bytesPerText = 256
	// sweepTexts is how many texts of members that left are forgotten with each
	// observed text: more than come in, few enough for a request not to notice.
	sweepTexts = 64
)

// none is the number of a member that never had a text.
const none = -1

// tree is the history as one byte radix tree for the whole pool. Each node knows the
// set of members that remember a text through it, so one walk along a text answers for
// all of them, and bytes that several members remember are kept once.
//
//	root - "system: you are " {0,1} - "a poet"  {0}
//	                                - "a pirate" {1}
//
// The set of a node contains those of its children. Every node but the root is
// the end of a text or has two children or more, so there are at most twice as many
// nodes as texts.
type tree struct {
	mu         stripedLock
	root       node
	numbered   []*member // by member.number; nil = free
	leaving    []*member // dropped, with texts yet to forget
	generation uint64
	bound      int64 // bytes of each member, 0 = none
	limit      int   // texts of each member, 0 = none
}

// memory is what the tree keeps of a member, guarded by its lock.
type memory struct {
	number         int    // in the owner sets, or none
	kept           uint64 // the last generation that listed it; an older one than the tree's = it left
	size           int64  // distinct prefix bytes
	texts          int
	forgotten      uint64
	newest, oldest *text
}

// text is one text that a member remembers.
type text struct {
	end          *node
	owner        *member
	next         *text // another that ends there, of another member
	older, newer *text
}

func newTree() *tree { return &tree{} }

// match implements history.
func (t *tree) match(text []byte, members []*member, s *scratch) {
	mu := t.mu.reader(s)
	mu.RLock()
	defer mu.RUnlock()
	known := slices.Grow(s.byNumber[:0], len(t.numbered))[:len(t.numbered)]
	clear(known)
	s.byNumber = known

	at, depth := &t.root, 0
	for depth < len(text) {
		kid := at.kid(text[depth])
		if kid == nil {
			break
		}
		// For those that do not come along, this is where it ends.
		for w, owners := range at.owners {
			if w < len(kid.owners) {
				owners &^= kid.owners[w]
			}
			for ; owners != 0; owners &= owners - 1 {
				known[w<<6+bits.TrailingZeros64(owners)] = depth
			}
		}
		shared := commonPrefix(kid.label, text[depth:])
		at, depth = kid, depth+shared
		if shared < len(kid.label) {
			break
		}
	}
	for i := at.owners.Next(0); i >= 0; i = at.owners.Next(i + 1) {
		known[i] = depth
	}
	for i, m := range members {
		s.matched[i] = 0
		if m.number != none && m.kept == t.generation {
			s.matched[i] = known[m.number]
		}
	}
}

// observe implements history.
func (t *tree) observe(m *member, text []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.kept != t.generation {
		return
	}
	if t.bound == 0 || int64(len(text)) <= t.bound {
		t.remember(m, text)
	}
	for m.oldest != nil && (t.bound > 0 && m.size > t.bound || t.limit > 0 && m.texts > t.limit) {
		t.forget(m.oldest)
		m.forgotten++
	}
	t.sweep()
}

// remember makes text the newest that m remembers.
func (t *tree) remember(m *member, s []byte) {
	if m.number == none {
		t.enrol(m)
	}
	at := &t.root
	for len(s) > 0 {
		kid := at.kid(s[0])
		if kid == nil {
			kid = &node{label: bytes.Clone(s), parent: at}
			at.addKid(kid)
		}
		shared := commonPrefix(kid.label, s)
		if shared < len(kid.label) {
			kid = kid.split(shared)
		}
		if !kid.owners.Has(m.number) {
			kid.owners = kid.owners.with(m.number)
			m.size += int64(len(kid.label))
		}
		at, s = kid, s[shared:]
	}
	e := at.endOf(m)
	if e == nil {
		e = &text{end: at, owner: m, next: at.ends}
		at.ends = e
		m.texts++
	} else {
		m.unlink(e)
	}
	m.push(e)
}

// forget takes a text out of its member's memory: the part that no other text of
// the member shares, and of the tree what no other member holds.
func (t *tree) forget(e *text) {
	m, at := e.owner, e.end
	m.unlink(e)
	m.texts--
	at.removeEnd(e)
	left := at // the lowest node that stays
	for at != &t.root && at.endOf(m) == nil && !at.anyKid(m.number) {
		at.owners.Remove(m.number)
		m.size -= int64(len(at.label))
		up := at.parent
		if at.owners.Next(0) < 0 {
			up.removeKid(at)
			left = up
		}
		at = up
	}
	if left != &t.root && left.ends == nil && len(left.kids) == 1 {
		left.merge()
	}
}

// retain implements history.
func (t *tree) retain(generation uint64, members []*member, bound int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if generation <= t.generation {
		return
	}
	for _, m := range members {
		m.kept = generation
	}
	for _, m := range t.numbered {
		if m != nil && m.kept == t.generation {
			t.leaving = append(t.leaving, m)
		}
	}
	t.generation, t.bound, t.limit = generation, bound, 0
	if bound > 0 {
		t.limit = int(max(minTexts, bound/bytesPerText))
	}
}

// sweep forgets some texts of the members that left.
func (t *tree) sweep() {
	for range sweepTexts {
		last := len(t.leaving) - 1
		if last < 0 {
			return
		}
		if m := t.leaving[last]; m.oldest != nil {
			t.forget(m.oldest)
		} else {
			t.numbered[m.number] = nil
			t.leaving[last] = nil
			t.leaving = t.leaving[:last]
		}
	}
}

// enrol gives a member the smallest free number.
func (t *tree) enrol(m *member) {
	if m.number = slices.Index(t.numbered, nil); m.number < 0 {
		m.number = len(t.numbered)
		t.numbered = append(t.numbered, nil)
	}
	t.numbered[m.number] = m
}

// push makes e, which is in no order yet, the newest.
func (m *memory) push(e *text) {
	e.older, e.newer = m.newest, nil
	if m.newest != nil {
		m.newest.newer = e
	} else {
		m.oldest = e
	}
	m.newest = e
}

// unlink takes e out of the order.
func (m *memory) unlink(e *text) {
	if e.newer != nil {
		e.newer.older = e.older
	} else {
		m.newest = e.older
	}
	if e.older != nil {
		e.older.newer = e.newer
	} else {
		m.oldest = e.newer
	}
	e.older, e.newer = nil, nil
}
