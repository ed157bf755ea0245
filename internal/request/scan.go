package request

import (
	"encoding/binary"
	"math/bits"
)

// maxDepth is the deepest nesting of a body that is read; the outermost value is level 1.
const maxDepth = 512

// flags are what scanning learns of a value besides where it ends.
type flags uint8

const (
	escaped flags = 1 << iota // a string with a backslash
	high                      // a string with a byte outside of ASCII
	spaced                    // a container with white space between its tokens
	multi                     // a container in which some object has several members
	ids                       // a number that can be a token id; an array of nothing else
	batch                     // an array of arrays of token ids
)

// inner are the flags that a container takes over from what it holds.
const inner = spaced | multi

// Words of eight equal bytes, to look at eight bytes at once.
const (
	ones        = 0x0101010101010101
	tops        = 0x80 * ones
	quotes      = '"' * ones
	backslashes = '\\' * ones
	blanks      = ' ' * ones
)

// special marks the top bit of the bytes of w that end a run of plain string
// bytes: quote, backslash, control. Only the lowest mark is exact, as a
// subtraction borrows from the bytes above the one it finds.
func special(w uint64) uint64 {
	q, s := w^quotes, w^backslashes
	return ((q-ones)&^q | (s-ones)&^s | (w-blanks)&^w) & tops
}

// at is b[i], or 0 behind the end. No token begins with 0.
func at(b []byte, i int) byte {
	if uint(i) < uint(len(b)) {
		return b[i]
	}
	return 0
}

// space gives the place of the first byte from i on that is not white space.
func space(b []byte, i int) int {
	for ; i < len(b); i++ {
		switch b[i] {
		case ' ', '\n', '\r', '\t':
		default:
			return i
		}
		for i+9 <= len(b) && binary.LittleEndian.Uint64(b[i+1:]) == blanks {
			i += 8
		}
	}
	return i
}

// scanString checks a string from behind its opening quote and gives the place
// of its closing one, or -1.
func scanString(b []byte, i int) (int, flags) {
	var f flags
	var seen uint64
	for {
		c := byte(0)
		for {
			if i+8 > len(b) {
				if i >= len(b) {
					return -1, 0
				}
				c = b[i]
				seen |= uint64(c)
				if c != '"' && c != '\\' && c >= ' ' {
					i++
					continue
				}
				break
			}
			w := binary.LittleEndian.Uint64(b[i:])
			m := special(w)
			if m == 0 {
				seen |= w
				i += 8
				continue
			}
			n := bits.TrailingZeros64(m) &^ 7
			seen |= w & (1<<n - 1)
			i += n >> 3
			c = b[i]
			break
		}
		switch {
		case c == '"':
			if seen&tops != 0 {
				f |= high
			}
			return i, f
		case c != '\\':
			return -1, 0
		}
		f |= escaped
		switch at(b, i+1) {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			i += 2
		case 'u':
			if i+6 > len(b) || hex4(b[i+2:i+6]) < 0 {
				return -1, 0
			}
			i += 6
		default:
			return -1, 0
		}
	}
}

// hex4 is the value of four hexadecimal digits, or negative.
func hex4(b []byte) rune {
	var r rune
	for _, c := range b[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// maxIDDigits is the length of the largest token id, 4294967295.
const maxIDDigits = 10

// scanNumber checks a number and gives the place behind it, or -1.
func scanNumber(b []byte, i int) (int, flags) {
	start, f := i, ids
	if at(b, i) == '-' {
		f = 0
		i++
	}
	first := i
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	if i == first || b[first] == '0' && i > first+1 {
		return -1, 0
	}
	if at(b, i) == '.' {
		f = 0
		i++
		if at(b, i)-'0' > 9 {
			return -1, 0
		}
		for i < len(b) && b[i]-'0' <= 9 {
			i++
		}
	}
	if at(b, i)|0x20 == 'e' {
		f = 0
		i++
		if c := at(b, i); c == '+' || c == '-' {
			i++
		}
		if at(b, i)-'0' > 9 {
			return -1, 0
		}
		for i < len(b) && b[i]-'0' <= 9 {
			i++
		}
	}
	if n := i - start; n > maxIDDigits || n == maxIDDigits && string(b[start:i]) > "4294967295" {
		f = 0
	}
	return i, f
}

// scanLiteral checks true, false or null and gives the place behind it, or -1.
func scanLiteral(b []byte, i int) int {
	for _, word := range [...]string{"true", "false", "null"} {
		if len(b)-i >= len(word) && string(b[i:i+len(word)]) == word {
			return i + len(word)
		}
	}
	return -1
}

// skip checks the value at i, which lies in depth containers, without recording
// anything. It gives the place behind the value, or -1. It does not recurse, so
// nesting costs a bit per level.
func skip(b []byte, i, depth int) (int, flags) {
	switch c := at(b, i); c {
	case '"':
		end, f := scanString(b, i+1)
		if end < 0 {
			return -1, 0
		}
		return end + 1, f
	case '{', '[':
	case 't', 'f', 'n':
		return scanLiteral(b, i), 0
	default:
		return scanNumber(b, i)
	}

	var f flags
	var object [maxDepth / 64]uint64 // a bit per open level: is it an object
	open := depth
	in := false // the innermost open level is an object
	for {
		// A value begins at i.
		switch c := at(b, i); c {
		case '"':
			end, _ := scanString(b, i+1)
			if end < 0 {
				return -1, 0
			}
			i = end + 1
		case '{', '[':
			if open == maxDepth {
				return -1, 0
			}
			in = c == '{'
			bit := uint64(1) << (open & 63)
			if in {
				object[open>>6] |= bit
			} else {
				object[open>>6] &^= bit
			}
			open++
			i++
			if at(b, i) <= ' ' {
				i = space(b, i)
				f |= spaced
			}
			if closing := at(b, i); closing == c+2 { // ']' and '}' come two after '[' and '{'
				break // the container ends below
			}
			if in {
				if i = scanKey(b, i, &f); i < 0 {
					return -1, 0
				}
			}
			continue
		case 't', 'f', 'n':
			if i = scanLiteral(b, i); i < 0 {
				return -1, 0
			}
		default:
			if i, _ = scanNumber(b, i); i < 0 {
				return -1, 0
			}
		}
		// A value ended before i, or an empty container ends at i.
		for {
			if at(b, i) <= ' ' {
				i = space(b, i)
				f |= spaced
			}
			c := at(b, i)
			if c == ',' {
				break
			}
			if in && c != '}' || !in && c != ']' {
				return -1, 0
			}
			i++
			open--
			if open == depth {
				return i, f
			}
			in = object[(open-1)>>6]>>((open-1)&63)&1 != 0
		}
		i++
		if at(b, i) <= ' ' {
			i = space(b, i)
			f |= spaced
		}
		if in {
			f |= multi
			if i = scanKey(b, i, &f); i < 0 {
				return -1, 0
			}
		}
	}
}

// scanKey checks the key at i and the colon behind it and gives the place of the
// member's value, or -1.
func scanKey(b []byte, i int, f *flags) int {
	if at(b, i) != '"' {
		return -1
	}
	end, _ := scanString(b, i+1)
	if end < 0 {
		return -1
	}
	return scanColon(b, end+1, f)
}

// scanColon checks the colon that follows a key and gives the place of the
// member's value, or -1.
func scanColon(b []byte, i int, f *flags) int {
	if at(b, i) <= ' ' {
		i = space(b, i)
		*f |= spaced
	}
	if at(b, i) != ':' {
		return -1
	}
	i++
	if at(b, i) <= ' ' {
		i = space(b, i)
		*f |= spaced
	}
	return i
}
