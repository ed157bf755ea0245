package request

import "math/bits"

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
		for i+9 <= len(b) && load(b, i+1) == blanks {
			i += 8
		}
	}
	return i
}

// scanString checks a string from behind its opening quote and gives the place
// of its closing one, or -1. It may say that a string is high which is not, if
// something soon after it is.
func scanString(b []byte, i int) (int, flags) {
	var f flags
	var seen uint64 // all bytes so far, one over the other
	long := i + 2*8 // most keys and many values end before it
	for {
		var n int // up to where there is nothing special
		switch {
		case i >= long && i+blockSize <= len(b):
			p := (*[blockSize]byte)(b[i:])
			m, bytes := specials(p)
			seen |= bytes
			next := 0 // what comes before it in the block is an escape
			for m != 0 {
				n = bits.TrailingZeros64(m)
				if p[n] != '\\' {
					break
				}
				f |= escaped
				next = n + 2
				if short[at(b, i+n+1)] == 0 {
					used := escapeLen(b, i+n)
					if used == 0 {
						return -1, 0
					}
					next = n + used
				}
				m &^= 3 << (n & 63) // this byte and the one it escapes
			}
			if m == 0 {
				i += max(blockSize, next)
				continue
			}
		case i+8 <= len(b):
			w := load(b, i)
			m := special(w)
			if m == 0 {
				seen |= w
				i += 8
				continue
			}
			n = bits.TrailingZeros64(m) >> 3
			seen |= w & (1<<(n<<3) - 1)
		case i < len(b):
			if c := b[i]; c != '"' && c != '\\' && c >= ' ' {
				seen |= uint64(c)
				i++
				continue
			}
		default:
			return -1, 0
		}
		i += n
		switch b[i] {
		case '"':
			if seen&tops != 0 {
				f |= high
			}
			return i, f
		case '\\':
			f |= escaped
			used := escapeLen(b, i)
			if used == 0 {
				return -1, 0
			}
			i += used
		default:
			return -1, 0
		}
	}
}

// escapeLen is the length of the escape that begins at i, or 0 if it is none.
func escapeLen(b []byte, i int) int {
	c := at(b, i+1)
	if short[c] != 0 {
		return 2
	}
	if c == 'u' && i+6 <= len(b) && hex4(b[i+2:i+6]) >= 0 {
		return 6
	}
	return 0
}

// hexDigits are the values of hexadecimal digits, with a bit to tell them from all else.
var hexDigits = [256]uint8{
	'0': 0x10, '1': 0x11, '2': 0x12, '3': 0x13, '4': 0x14, '5': 0x15, '6': 0x16, '7': 0x17, '8': 0x18, '9': 0x19,
	'a': 0x1A, 'b': 0x1B, 'c': 0x1C, 'd': 0x1D, 'e': 0x1E, 'f': 0x1F,
	'A': 0x1A, 'B': 0x1B, 'C': 0x1C, 'D': 0x1D, 'E': 0x1E, 'F': 0x1F,
}

// hex4 is the value of four hexadecimal digits, or -1.
func hex4(b []byte) rune {
	_ = b[3]
	x, y, z, w := hexDigits[b[0]], hexDigits[b[1]], hexDigits[b[2]], hexDigits[b[3]]
	if x&y&z&w&0x10 == 0 {
		return -1
	}
	return rune(x&15)<<12 | rune(y&15)<<8 | rune(z&15)<<4 | rune(w&15)
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
