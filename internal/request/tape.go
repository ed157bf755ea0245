package request

import "slices"

// node is one value of the tape. The nodes of what it holds follow it, up to next.
type node struct {
	start, end uint32 // the value in the body, quotes and brackets included
	next       uint32 // the tape index behind this value's nodes
	kind       byte   // the value's first byte ('"', '{', '[', 't', 'f', 'n', '-' or a digit), or run or rest
	key        key    // which member of an object it is
	flags      flags
}

const (
	// run is a row of adjacent scalars other than strings in an array: one node for
	// them all, or a body of "0,0,0,..." would make a tape eight times its size.
	run byte = iota
	// rest stands for the elements from start on, which did not fit on the tape.
	rest
)

// maxNodes is how many nodes arrays may put on the tape before they end in a rest
// node: 128 KiB. A conversation has about four nodes per message.
const maxNodes = 8 << 10

// tape is what one pass over a body leaves: the values that rendering may need,
// in order. Members that nothing asks for, and what lies deeper than the shapes
// reach, are checked and not recorded.
type tape struct {
	b     []byte
	api   api
	nodes []node
	full  int // arrays record no more when the tape is this long
	depth int // containers open around the place that is read
}

// push appends a node. The tape doubles: append's smaller steps make more garbage.
func (t *tape) push(n node) {
	if len(t.nodes) == cap(t.nodes) {
		t.nodes = slices.Grow(t.nodes, max(64, cap(t.nodes)))
	}
	t.nodes = append(t.nodes, n)
}

// value records the value at i as far as the shape asks and checks all of it.
// It gives the place behind it, or -1.
func (t *tape) value(i int, k key, s shape) (int, flags) {
	n := len(t.nodes)
	c := at(t.b, i)
	t.push(node{start: uint32(i), kind: c, key: k})
	var end int
	var f flags
	switch {
	case c == '{' && s.isObject():
		end, f = t.object(i, s)
	case c == '[' && s.isArray():
		end, f = t.array(i, s)
	default:
		end, f = skip(t.b, i, t.depth)
	}
	if end < 0 {
		return -1, 0
	}
	v := &t.nodes[n]
	v.end, v.next, v.flags = uint32(end), uint32(len(t.nodes)), f
	return end, f
}

// object reads the members of the object that begins at i.
func (t *tape) object(i int, s shape) (int, flags) {
	b, f := t.b, flags(0)
	if t.depth++; t.depth > maxDepth {
		return -1, 0
	}
	i++
	if at(b, i) <= ' ' {
		i = space(b, i)
		f |= spaced
	}
	if at(b, i) == '}' {
		t.depth--
		return i + 1, f
	}
	for {
		if at(b, i) != '"' {
			return -1, 0
		}
		end, kf := scanString(b, i+1)
		if end < 0 {
			return -1, 0
		}
		k, inside := t.member(s, b[i+1:end], kf)
		if i = scanColon(b, end+1, &f); i < 0 {
			return -1, 0
		}
		var vf flags
		if k == none {
			i, vf = skip(b, i, t.depth)
		} else {
			i, vf = t.value(i, k, inside)
		}
		if i < 0 {
			return -1, 0
		}
		f |= vf & inner
		if at(b, i) <= ' ' {
			i = space(b, i)
			f |= spaced
		}
		switch at(b, i) {
		case '}':
			t.depth--
			return i + 1, f
		case ',':
		default:
			return -1, 0
		}
		f |= multi
		i++
		if at(b, i) <= ' ' {
			i = space(b, i)
			f |= spaced
		}
	}
}

// array reads the elements of the array that begins at i.
func (t *tape) array(i int, s shape) (int, flags) {
	f := flags(0)
	if t.depth++; t.depth > maxDepth {
		return -1, 0
	}
	i++
	if at(t.b, i) <= ' ' {
		i = space(t.b, i)
		f |= spaced
	}
	if at(t.b, i) == ']' {
		t.depth--
		return i + 1, f | ids
	}
	end, more, ef := t.elements(i, s, false)
	if end < 0 || more {
		return -1, 0
	}
	t.depth--
	return end, f | ef
}

// resume records the elements from i on of an array of this shape, until the tape
// is full or the array ends. It gives the place of the element it stopped at, and
// whether there is one.
func (t *tape) resume(i int, s shape) (int, bool) {
	t.depth = 0 // what is read again was found not to be too deep
	i, more, _ := t.elements(i, s, true)
	return i, more
}

// elements reads the elements of an array from the one at i on. When the tape is
// full it stops there (more is true), or records a rest node and only checks the
// others. At the array's end it gives the place behind its bracket.
func (t *tape) elements(i int, s shape, stop bool) (end int, more bool, f flags) {
	b := t.b
	element := s.element()
	f = ids | batch
	row := -1   // the run node that the element before belongs to
	limit := -1 // where the tape is cut back to after each element
	for {
		if limit < 0 && len(t.nodes) >= t.full {
			if stop {
				return i, true, 0
			}
			t.push(node{start: uint32(i), kind: rest, next: uint32(len(t.nodes) + 1)})
			limit = len(t.nodes)
			row = -1
		}
		start := i
		c := at(b, i)
		var vf flags
		switch {
		case !s.records(c):
			i, vf = skip(b, i, t.depth)
		case c == '"' || c == '{' || c == '[':
			i, vf = t.value(i, none, element)
			row = -1
		default:
			i, vf = skip(b, i, t.depth)
			if row < 0 {
				row = len(t.nodes)
				t.push(node{start: uint32(start), kind: run, next: uint32(row + 1)})
			}
			if i >= 0 {
				t.nodes[row].end = uint32(i)
			}
		}
		if i < 0 {
			return -1, false, 0
		}
		if limit >= 0 {
			t.nodes = t.nodes[:limit]
			row = -1
		}
		if s == list || s == sequence { // only there does anybody ask
			if vf&ids == 0 || c == '[' {
				f &^= ids
			}
			if vf&ids == 0 || c != '[' {
				f &^= batch
			}
		}
		f |= vf & inner
		if at(b, i) <= ' ' {
			i = space(b, i)
			f |= spaced
		}
		switch at(b, i) {
		case ']':
			return i + 1, false, f
		case ',':
		default:
			return -1, false, 0
		}
		i++
		if at(b, i) <= ' ' {
			i = space(b, i)
			f |= spaced
		}
	}
}
