package request

import "encoding/binary"

// Looking at eight bytes at once, as one word. Sums of seven-bit bytes carry
// nothing into the next byte, so every mark is exact.
const (
	ones        = 0x0101010101010101
	tops        = 0x80 * ones // the top bit of each byte
	lows        = 0x7F * ones
	blanks      = ' ' * ones
	backslashes = '\\' * ones

	// blockSize is how many bytes have their marks gathered in one word, a bit each.
	blockSize = 64
)

// load gives eight bytes as a word, the first one lowest.
func load(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }

func store(b []byte, i int, w uint64) { binary.LittleEndian.PutUint64(b[i:], w) }

// special marks the top bit of the bytes that end a run of plain string bytes:
// quote, backslash, control. Quote and controls are those that are at most 0x20
// after a flip of the bit 0x02.
func special(w uint64) uint64 { return ^plainBytes(w) & tops }

func plainBytes(w uint64) uint64 {
	y := w & lows
	return (y^0x02*ones+0x5F*ones)&(y^backslashes+lows) | w
}

// backslash marks the top bit of every backslash.
func backslash(w uint64) uint64 { return ^(w&lows ^ backslashes + lows | w) & tops }

// gather makes a bit of each of the eight marks.
func gather(m uint64) uint64 { return m * 0x0002040810204081 >> 56 }

// specials gathers the marks of special for a block, and gives its bytes one over
// the other.
func specials(p *[blockSize]byte) (m, seen uint64) {
	w0, w1, w2, w3 := load(p[0:], 0), load(p[8:], 0), load(p[16:], 0), load(p[24:], 0)
	seen = w0 | w1 | w2 | w3
	plain := plainBytes(w0) & plainBytes(w1) & plainBytes(w2) & plainBytes(w3)
	w4, w5, w6, w7 := load(p[32:], 0), load(p[40:], 0), load(p[48:], 0), load(p[56:], 0)
	seen |= w4 | w5 | w6 | w7
	plain &= plainBytes(w4) & plainBytes(w5) & plainBytes(w6) & plainBytes(w7)
	if plain&tops == tops {
		return 0, seen
	}
	m = gather(special(load(p[0:], 0))) | gather(special(load(p[8:], 0)))<<8 |
		gather(special(load(p[16:], 0)))<<16 | gather(special(load(p[24:], 0)))<<24 |
		gather(special(load(p[32:], 0)))<<32 | gather(special(load(p[40:], 0)))<<40 |
		gather(special(load(p[48:], 0)))<<48 | gather(special(load(p[56:], 0)))<<56
	return m, seen
}

// escapes gathers the marks of backslash for a block.
func escapes(p *[blockSize]byte) uint64 {
	m0, m1, m2, m3 := backslash(load(p[0:], 0)), backslash(load(p[8:], 0)), backslash(load(p[16:], 0)), backslash(load(p[24:], 0))
	m4, m5, m6, m7 := backslash(load(p[32:], 0)), backslash(load(p[40:], 0)), backslash(load(p[48:], 0)), backslash(load(p[56:], 0))
	if m0|m1|m2|m3|m4|m5|m6|m7 == 0 {
		return 0
	}
	return gather(m0) | gather(m1)<<8 | gather(m2)<<16 | gather(m3)<<24 |
		gather(m4)<<32 | gather(m5)<<40 | gather(m6)<<48 | gather(m7)<<56
}
