package request

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
)

// maxTokenIDs is how many token ids of a request are kept: 4 MiB. No engine takes
// a longer prompt, and more come from nobody who means well.
const maxTokenIDs = 1 << 20

// tokenPrompt renders a member as token ids, if it is a sequence of them or a
// batch of sequences, and tells whether it was.
func (w *work) tokenPrompt(k key) bool {
	i := w.body[k]
	if !w.is(i, '[') {
		return false
	}
	v := w.tape.nodes[i]
	switch {
	case v.flags&ids != 0:
		w.prompt.part()
		w.sequence(v)
	case v.flags&batch != 0:
		w.prompt.part()
		w.batch, w.keep = true, false
		w.array(i, list)
		w.batch = false
	default:
		return false
	}
	return true
}

// sequence renders an array of token ids: in the text as decimals, in the digest
// as little-endian words, in a batch after their number.
func (w *work) sequence(v node) {
	raw := w.tape.b[v.start+1 : v.end-1]
	i := space(raw, 0)
	count := 0
	if i < len(raw) {
		count = bytes.Count(raw, []byte{','}) + 1
	}
	w.prompt.length += 4 * int64(count)
	separator := byte(0)
	if w.batch {
		w.word(uint32(count))
		if w.sequences > 0 {
			separator = '\n'
		}
		if w.sequences++; count == 0 && separator != 0 {
			w.prompt.addToken(separator, nil)
		}
	}
	if w.keep = w.keep && 0 < count && count <= maxTokenIDs; w.keep && cap(w.tokens) < count {
		w.tokens = make([]uint32, 0, count)
	}
	for i < len(raw) {
		start := i
		id := uint32(0)
		for ; i < len(raw) && raw[i]-'0' <= 9; i++ {
			id = id*10 + uint32(raw[i]-'0')
		}
		w.prompt.addToken(separator, raw[start:i])
		separator = ','
		w.word(id)
		if w.keep {
			w.tokens = append(w.tokens, id)
		}
		if i = space(raw, i); i < len(raw) { // a comma
			i = space(raw, i+1)
		}
	}
	w.flush(silent)
}

// word adds a number to the digest.
func (w *work) word(n uint32) {
	if len(w.buf)-w.held < 4 {
		w.flush(silent)
	}
	binary.LittleEndian.PutUint32(w.buf[w.held:], n)
	w.held += 4
}

// part makes text and digest go separate ways.
func (p *prompt) part() { p.feed(nil) }

// addToken appends a token and what separates it from the one before (0 = nothing)
// to the text, whole or not at all.
func (p *prompt) addToken(separator byte, digits []byte) {
	if !p.open {
		return
	}
	n := len(digits)
	if separator != 0 {
		n++
	}
	if p.open = n <= p.max-len(p.text); !p.open {
		return
	}
	if separator != 0 {
		p.literal[0] = separator
		p.append(p.literal[:1])
	}
	p.append(digits)
}

// appendIDs appends the numbers of one header value: unsigned decimals up to
// 4294967295 between commas, with spaces or tabs around them.
func appendIDs(dst []uint32, value string) ([]uint32, bool) {
	for i := 0; ; i++ {
		for i < len(value) && (value[i] == ' ' || value[i] == '\t') {
			i++
		}
		start := i
		id := uint64(0)
		for ; i < len(value) && value[i]-'0' <= 9; i++ {
			if id = id*10 + uint64(value[i]-'0'); id > 1<<32-1 {
				return dst, false
			}
		}
		if i == start || len(dst) == maxTokenIDs {
			return dst, false
		}
		dst = append(dst, uint32(id))
		for i < len(value) && (value[i] == ' ' || value[i] == '\t') {
			i++
		}
		if i == len(value) {
			return dst, true
		}
		if value[i] != ',' {
			return dst, false
		}
	}
}

// headerIDs appends the token ids of the first of the headers that holds a
// proper list. A repeated header is joined with commas.
func headerIDs(dst []uint32, h Header, names []string) ([]uint32, bool) {
	for _, name := range names {
		if h.Get(name) == "" { // absent, or an empty element
			continue
		}
		values, ok, n := h.Values(name), false, 0
		for _, value := range values {
			n += strings.Count(value, ",") + 1
		}
		dst = slices.Grow(dst, min(n, maxTokenIDs))
		for _, value := range values {
			if dst, ok = appendIDs(dst, value); !ok {
				break
			}
		}
		if ok {
			return dst, true
		}
		dst = dst[:0]
	}
	return dst, false
}
