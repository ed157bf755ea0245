package request

import (
	"unicode/utf8"

	"github.com/zeebo/xxh3"
)

// prompt collects the affinity text, length and digest of one request. As long
// as the text holds all that was fed, nothing is hashed twice or copied: the
// hasher starts when the two part.
type prompt struct {
	text   []byte
	max    int   // bound of text, in bytes
	hint   int   // size to make text at first
	length int64 // measured bytes
	open   bool  // the text takes more
	parted bool  // the hasher was fed all so far; else the text is all so far
	hash   xxh3.Hasher

	literal [32]byte // what addString adds: here, as the hasher would move it to the heap
}

// use is how a piece takes part.
type use uint8

const (
	push     use = iota // text, length, digest
	measured            // absorbed: length, digest
	silent              // absorbed: digest only
)

// reset begins a prompt in this buffer.
func (p *prompt) reset(buf []byte) {
	p.text, p.length, p.open, p.parted = buf[:0], 0, true, false
}

// add takes a piece of valid UTF-8. The pieces of one string may come one by one.
func (p *prompt) add(b []byte, u use) {
	if u != silent {
		p.length += int64(len(b))
	}
	if u != push || !p.open {
		p.feed(b)
		return
	}
	n := len(b)
	if room := p.max - len(p.text); n > room {
		n = cut(b, room)
		p.open = false
	}
	if p.parted || !p.open {
		p.feed(b)
	}
	p.append(b[:n])
}

// addString is add for a short literal.
func (p *prompt) addString(s string) {
	p.add(p.literal[:copy(p.literal[:], s)], push)
}

// feed adds to the digest.
func (p *prompt) feed(b []byte) {
	if !p.parted {
		p.parted = true
		p.hash.Reset()
		_, _ = p.hash.Write(p.text) // never fails
	}
	_, _ = p.hash.Write(b)
}

func (p *prompt) digest() uint64 {
	if p.parted {
		return p.hash.Sum64()
	}
	return xxh3.Hash(p.text)
}

// append appends to the text, whose memory never grows beyond its bound. It is as large as
// the body at first, which is nearly always enough, and then as large as it may be.
func (p *prompt) append(b []byte) {
	if need := len(p.text) + len(b); need > cap(p.text) {
		size := p.max
		if cap(p.text) == 0 {
			size = min(max(need, p.hint), p.max)
		}
		grown := make([]byte, len(p.text), size)
		copy(grown, p.text)
		p.text = grown
	}
	p.text = append(p.text, b...)
}

// cut gives the length of the longest part of b, at most n bytes long and shorter
// than b, that ends on a character boundary. b is valid UTF-8.
func cut(b []byte, n int) int {
	for n > 0 && !utf8.RuneStart(b[n]) {
		n--
	}
	return n
}
