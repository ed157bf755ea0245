package picker

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
)

// node is an edge of the tree and the branch at its end.
type node struct {
	label  []byte // at least one byte but at the root; its storage belongs to this node alone
	parent *node
	keys   []byte // the first bytes of the kids' labels
	kids   []*node
	owners Set   // numbers of the members with a text through here; empty at the root
	ends   *text // the texts that end here, at most one of each member
}

// kid gives the child whose label begins with b, or nil.
func (n *node) kid(b byte) *node {
	if i := bytes.IndexByte(n.keys, b); i >= 0 {
		return n.kids[i]
	}
	return nil
}

func (n *node) addKid(k *node) {
	n.keys = append(n.keys, k.label[0])
	n.kids = append(n.kids, k)
}

func (n *node) removeKid(k *node) {
	i, last := bytes.IndexByte(n.keys, k.label[0]), len(n.keys)-1
	n.keys[i], n.kids[i] = n.keys[last], n.kids[last]
	n.kids[last] = nil
	n.keys, n.kids = n.keys[:last], n.kids[:last]
	if last == 0 {
		n.keys, n.kids = nil, nil
	}
}

// split puts a new node, which it returns, above n. The new node gets the first bytes of
// the label. Both halves are copied: a half that shared the other's storage would
// keep its bytes in memory after they are forgotten.
func (n *node) split(at int) *node {
	upper := &node{label: bytes.Clone(n.label[:at]), parent: n.parent, owners: slices.Clone(n.owners)}
	n.parent.kids[bytes.IndexByte(n.parent.keys, n.label[0])] = upper
	n.label, n.parent = bytes.Clone(n.label[at:]), upper
	upper.addKid(n)
	return upper
}

// merge takes n, which has one child and ends no text, out of the tree: its
// child's label gets longer. Their owners are the same.
func (n *node) merge() {
	kid := n.kids[0]
	n.parent.kids[bytes.IndexByte(n.parent.keys, n.label[0])] = kid
	kid.label, kid.parent = slices.Concat(n.label, kid.label), n.parent
}

// endOf gives the text of m that ends here, or nil.
func (n *node) endOf(m *member) *text {
	for e := n.ends; e != nil; e = e.next {
		if e.owner == m {
			return e
		}
	}
	return nil
}

func (n *node) removeEnd(e *text) {
	for p := &n.ends; *p != nil; p = &(*p).next {
		if *p == e {
			*p = e.next
			return
		}
	}
}

// anyKid tells whether a text of this member goes on below.
func (n *node) anyKid(number int) bool {
	for _, k := range n.kids {
		if k.owners.Has(number) {
			return true
		}
	}
	return false
}

// with puts i into the set, making room for it.
func (s Set) with(i int) Set {
	for i>>6 >= len(s) {
		s = append(s, 0)
	}
	s.Add(i)
	return s
}

// commonPrefix gives the number of leading bytes that a and b share.
func commonPrefix(a, b []byte) int {
	// Blocks are compared by the runtime's vector code, several times faster than
	// words; words find the byte.
	const block, word = 512, 8
	n := min(len(a), len(b))
	a, b = a[:n], b[:n]
	i := 0
	for n-i >= block && bytes.Equal(a[i:i+block], b[i:i+block]) {
		i += block
	}
	for n-i >= word {
		x := binary.LittleEndian.Uint64(a[i:]) ^ binary.LittleEndian.Uint64(b[i:])
		if x != 0 {
			return i + bits.TrailingZeros64(x)>>3
		}
		i += word
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}
