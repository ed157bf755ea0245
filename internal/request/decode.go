package request

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// maxEscape is the most that one step of decoding appends, in bytes.
const maxEscape = utf8.UTFMax

// unescape decodes as much of raw, the inside of a checked string that is valid
// UTF-8, as dst has room for. It gives the length of what it decoded and how much
// of raw that was. It never ends inside a character. dst must hold two words.
func unescape(dst, raw []byte) (n, done int) {
	i := 0
	for i < len(raw) && n+8 <= len(dst) {
		if i+8 <= len(raw) {
			w := binary.LittleEndian.Uint64(raw[i:])
			binary.LittleEndian.PutUint64(dst[n:], w)
			s := w ^ backslashes
			m := (s - ones) &^ s & tops
			if m == 0 {
				n += 8
				i += 8
				continue
			}
			plain := bits.TrailingZeros64(m) >> 3
			n += plain
			i += plain
			if n+maxEscape > len(dst) {
				break
			}
		} else if raw[i] != '\\' {
			dst[n] = raw[i]
			n++
			i++
			continue
		}
		size, used := unescapeOne(dst[n:], raw[i:])
		n += size
		i += used
	}
	for i < len(raw) && n > 0 && raw[i]&0xC0 == 0x80 { // give a cut character back
		n--
		i--
	}
	return n, i
}

// unescapeInvalid is unescape for a string that is not valid UTF-8.
func unescapeInvalid(dst, raw []byte) (n, done int) {
	i := 0
	for i < len(raw) && n+maxEscape <= len(dst) {
		if raw[i] == '\\' {
			size, used := unescapeOne(dst[n:], raw[i:])
			n += size
			i += used
			continue
		}
		r, used := utf8.DecodeRune(raw[i:])
		n += utf8.EncodeRune(dst[n:n+maxEscape], r) // an invalid byte reads as U+FFFD
		i += used
	}
	return n, i
}

// unescapeOne decodes the escape that raw begins with, of used bytes. dst must
// hold maxEscape bytes.
func unescapeOne(dst, raw []byte) (size, used int) {
	c := raw[1]
	switch c {
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		used = 6
		r := hex4(raw[2:6])
		if utf16.IsSurrogate(r) {
			low := rune(-1)
			if len(raw) >= 12 && raw[6] == '\\' && raw[7] == 'u' {
				low = hex4(raw[8:12])
			}
			if r = utf16.DecodeRune(r, low); r != utf8.RuneError { // else it is alone: U+FFFD
				used = 12
			}
		}
		return utf8.EncodeRune(dst[:maxEscape], r), used
	}
	dst[0] = c // quote, backslash and slash stand for themselves
	return 1, 2
}

// chunk decodes the next piece of raw, the inside of a checked string, into dst.
func chunk(dst, raw []byte, valid bool) (n, done int) {
	if valid {
		return unescape(dst, raw)
	}
	return unescapeInvalid(dst, raw)
}

// plain tells whether a string's decoded form is its raw form; else valid tells
// whether the raw form is valid UTF-8.
func plain(raw []byte, f flags) (same, valid bool) {
	valid = f&high == 0 || utf8.Valid(raw)
	return valid && f&escaped == 0, valid
}

// appendDecoded appends the decoded form of the inside of a checked string.
func appendDecoded(dst, raw []byte, f flags) []byte {
	same, valid := plain(raw, f)
	if same {
		return append(dst, raw...)
	}
	var buf [256]byte
	for len(raw) > 0 {
		n, done := chunk(buf[:], raw, valid)
		dst = append(dst, buf[:n]...)
		raw = raw[done:]
	}
	return dst
}
