package request

import (
	"bytes"
	"hash/maphash"
	"slices"
)

const (
	// maxMembers is how many keys of the objects open at one place are compared, so
	// that a body of nothing but keys takes 12 MiB here and not a multiple of its
	// size. Of what comes beyond it, duplicates stay.
	maxMembers = 1 << 20
	// fewMembers is up to how many keys are compared each with each, in members.
	fewMembers = 8
)

// dups finds the members that a later one of the same name makes absent, in time
// linear in the number of bytes. Which they are does not depend on the seed: it only
// keeps others from making keys that collide.
type dups struct {
	seed    maphash.Seed
	members []member // of the open objects, the innermost last
	table   []uint32 // 1 + index of a member, by hash
	dead    []uint64 // a bit per key, in order of appearance
	a, b    []byte   // decoded keys
}

// member is a key: raw[start:end] between its quotes.
type member struct {
	start, end uint32
	ordinal    uint32 // how many keys came before it
	odd        bool   // its decoded form is not its raw form
}

// isDead tells whether the key with this many before it belongs to an absent member.
func (d *dups) isDead(ordinal int) bool {
	word := ordinal >> 6
	return word < len(d.dead) && d.dead[word]>>(ordinal&63)&1 != 0
}

// find looks through a checked value and tells whether any member is absent.
func (d *dups) find(raw []byte) bool {
	d.members, d.dead = d.members[:0], d.dead[:0]
	var bases [maxDepth + 1]uint32 // where the members of each open container begin
	depth := 0
	ordinal := uint32(0)
	for i := 0; i < len(raw); {
		switch raw[i] {
		case '"':
			end, f := scanString(raw, i+1)
			next := space(raw, end+1)
			if at(raw, next) == ':' {
				if len(d.members) < maxMembers {
					if len(d.members) == cap(d.members) {
						d.members = slices.Grow(d.members, max(64, cap(d.members)))
					}
					same, _ := plain(raw[i+1:end], f)
					d.members = append(d.members, member{uint32(i + 1), uint32(end), ordinal, !same})
				}
				ordinal++
			}
			i = next
		case '{', '[':
			depth++
			bases[depth] = uint32(len(d.members))
			i++
		case '}', ']':
			base := bases[depth]
			d.mark(raw, d.members[base:])
			d.members = d.members[:base]
			depth--
			i++
		default:
			i++
		}
	}
	return len(d.dead) > 0
}

// mark finds the absent ones among the members of one object.
func (d *dups) mark(raw []byte, members []member) {
	if len(members) <= fewMembers {
		for i := range members {
			for j := i + 1; j < len(members); j++ {
				if d.equal(raw, members[i], members[j]) {
					d.kill(members[i])
					break
				}
			}
		}
		return
	}
	size := 32
	for size < 2*len(members) {
		size *= 2
	}
	if size > len(d.table) {
		d.table = make([]uint32, size)
	}
	table := d.table[:size]
	clear(table)
	for i, m := range members {
		var key []byte
		d.a, key = m.key(raw, d.a)
		slot := maphash.Bytes(d.seed, key) & uint64(size-1)
		for table[slot] != 0 && !d.equal(raw, members[table[slot]-1], m) {
			slot = (slot + 1) & uint64(size-1)
		}
		if table[slot] != 0 {
			d.kill(members[table[slot]-1])
		}
		table[slot] = uint32(i + 1)
	}
}

func (d *dups) kill(m member) {
	word := int(m.ordinal >> 6)
	for len(d.dead) <= word {
		d.dead = append(d.dead, 0)
	}
	d.dead[word] |= 1 << (m.ordinal & 63)
}

func (d *dups) equal(raw []byte, x, y member) bool {
	if !x.odd && !y.odd {
		return bytes.Equal(raw[x.start:x.end], raw[y.start:y.end])
	}
	var a, b []byte
	d.a, a = x.key(raw, d.a)
	d.b, b = y.key(raw, d.b)
	return bytes.Equal(a, b)
}

// key gives the decoded key, and the buffer, which may have grown and holds it if it is odd.
func (m member) key(raw, buf []byte) (grown, key []byte) {
	key = raw[m.start:m.end]
	if m.odd {
		buf = appendDecoded(buf[:0], key, escaped|high)
		key = buf
	}
	return buf, key
}
