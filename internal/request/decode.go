package request

import (
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
	const slack = 16 // words are copied whole, and so beyond what is meant
	i := 0
	for i+blockSize+slack <= len(raw) && n+blockSize+slack <= len(dst) {
		from, to := (*[blockSize + slack]byte)(raw[i:]), (*[blockSize + slack]byte)(dst[n:])
		m := escapes((*[blockSize]byte)(from[:]))
		if m == 0 {
			*(*[blockSize]byte)(to[:]) = *(*[blockSize]byte)(from[:])
			i += blockSize
			n += blockSize
			continue
		}
		read, written := 0, 0
		for m != 0 {
			next := bits.TrailingZeros64(m)
			store(to[written&63:], 0, load(from[read&63:], 0)) // at most 63, which the compiler cannot see
			store(to[written&63+8:], 0, load(from[read&63+8:], 0))
			for k := 16; k < next-read; k += 8 {
				store(to[written+k:], 0, load(from[read+k:], 0))
			}
			written += next - read
			if c := from[next+1]; c != 'u' {
				to[written] = short[c]
				written++
				read = next + 2
				m &^= 3 << (next & 63) // this byte and the one it escapes
				continue
			}
			size, used := unescapeUnicode(to[written:], raw[i+next:])
			written += size
			read = next + used
			m &= ^uint64(0) << read // two escapes may make one character
		}
		if read < blockSize {
			written += copy(to[written:], from[read:blockSize])
			read = blockSize
		}
		i += read
		n += written
	}
	for i < len(raw) && n+maxEscape <= len(dst) {
		if len(raw)-i > blockSize+slack && n+blockSize+slack > len(dst) {
			break // the next chunk goes on faster
		}
		if raw[i] != '\\' {
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

// short are the characters that escapes of one letter stand for.
var short = [256]byte{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// unescapeOne decodes the escape that raw begins with, of used bytes. dst must
// hold maxEscape bytes.
func unescapeOne(dst, raw []byte) (size, used int) {
	if raw[1] == 'u' {
		return unescapeUnicode(dst, raw)
	}
	dst[0] = short[raw[1]]
	return 1, 2
}

// unescapeUnicode is unescapeOne for escapes with digits.
func unescapeUnicode(dst, raw []byte) (size, used int) {
	r := hex4(raw[2:])
	used = 6
	if utf16.IsSurrogate(r) {
		low := rune(-1)
		if len(raw) >= 12 && raw[6] == '\\' && raw[7] == 'u' {
			low = hex4(raw[8:])
		}
		if r = utf16.DecodeRune(r, low); r != utf8.RuneError { // else it is alone: U+FFFD
			used = 12
		}
	}
	return utf8.EncodeRune(dst[:maxEscape], r), used
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
