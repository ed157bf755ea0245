package request

import (
	"bytes"
	"hash/maphash"
	"math"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/zeebo/xxh3"
)

// What is kept for the next read; more was for one that was unusually large.
const (
	keepBytes = 1 << 20   // of a buffer
	keepItems = 128 << 10 // of a list of small things
)

// Reader reads requests. It is immutable after NewReader but for a pool of scratch
// memory: a read takes it and gives it back, so there is as much as reads at once.
type Reader struct {
	opts    Options
	session []key // the body fields with a session key
	room    int   // nodes that an array may add to a tape
	seed    maphash.Seed
	pool    sync.Pool // of *work
}

// NewReader gives a reader with these options.
func NewReader(opts Options) *Reader {
	// Places in a body are kept in 32 bits.
	opts.BodyLimit = min(opts.BodyLimit, math.MaxInt32)
	opts.MaxText = max(0, min(opts.MaxText, MaxTextLimit))
	opts.SessionHeaders = lower(opts.SessionHeaders)
	opts.TokenHeaders = lower(opts.TokenHeaders)
	r := &Reader{opts: opts, room: maxNodes, seed: maphash.MakeSeed()}
	for _, name := range opts.SessionBodyFields {
		if k := sessionField(name); k != none {
			r.session = append(r.session, k)
		}
	}
	return r
}

func lower(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = strings.ToLower(name)
	}
	return out
}

// Read reads one request: path (with its query), headers and body, into a
// Request, which it resets first. The error is a Fault or nil; on a Fault the
// Request still holds what could be read.
func (r *Reader) Read(path string, h Header, body []byte, into *Request) error {
	was := last{into.Model, into.Session, into.CacheSalt}
	into.Reset()
	err := r.read(path, h, body, was, into)
	if s := into.Session; len(s) > maxSession { // of a header, and the body was not read
		into.Session = keep(was.session, appendHex(nil, xxh3.HashString(s)))
	}
	return err
}

func (r *Reader) read(path string, h Header, body []byte, was last, into *Request) error {
	into.Path, _, _ = strings.Cut(path, "?")
	into.Session = headerSession(h, r.opts.SessionHeaders)
	var given bool
	if into.ids, given = headerIDs(into.ids[:0], h, r.opts.TokenHeaders); given {
		into.TokenIDs = into.ids
	}
	api := apiOf(into.Path)
	switch {
	case len(body) == 0:
		return api.withoutBody()
	case int64(len(body)) > r.opts.BodyLimit:
		return BodyTooLarge
	}

	w := r.take()
	defer r.give(w)
	e := encodingOf(h)
	if e == unsupported {
		return UnsupportedEncoding
	}
	if e != identity {
		decoded, err := w.inflate.decode(into.decoded[:0], body, e, r.opts.BodyLimit)
		into.decoded = decoded
		if err != nil {
			return err
		}
		into.Decoded = decoded
		if body = decoded; len(body) == 0 {
			return api.withoutBody()
		}
	}
	typ := h.Get("content-type")
	switch contentTypeOf(typ) {
	case jsonType:
		return r.readJSON(w, api, body, was, into)
	case formType:
		return readForm(body, typ, was, into)
	}
	return MissingModel
}

// last is what the request before, in the same Request, had.
type last struct{ model, session, salt string }

// bom is the UTF-8 byte-order mark.
const bom = "\xEF\xBB\xBF"

// readJSON reads a body that should be JSON.
func (r *Reader) readJSON(w *work, a api, body []byte, was last, into *Request) error {
	w.tape.b, w.tape.api = body, a
	start := 0
	if len(body) >= len(bom) && string(body[:len(bom)]) == bom {
		start = len(bom)
	}
	end, _ := w.tape.value(space(body, start), none, top)
	if end < 0 || space(body, end) < len(body) {
		return InvalidJSON
	}
	if w.tape.nodes[0].kind != '{' {
		return MissingModel
	}
	models := 0
	for i := 1; i < len(w.tape.nodes); i = int(w.tape.nodes[i].next) {
		k := w.tape.nodes[i].key
		w.body[k] = i
		if k == keyModel {
			models++
		}
	}
	into.growSpans(models)
	for i := 1; len(into.ModelSpans) < models; i = int(w.tape.nodes[i].next) {
		if v := w.tape.nodes[i]; v.key == keyModel {
			into.ModelSpans = append(into.ModelSpans, Span{int(v.start), int(v.end - v.start)})
		}
	}
	if i := w.body[keyModel]; w.is(i, '"') {
		w.names.add(&into.Model, was.model, w.decoded(i))
	}
	into.Stream = w.is(w.body[keyStream], 't')
	if i := w.body[keyCacheSalt]; w.is(i, '"') {
		w.names.add(&into.CacheSalt, was.salt, w.decoded(i))
	} else {
		into.KVOff = w.given(keyCacheSalt)
	}
	for _, k := range [...]key{keyExtraKey, keyPromptLogprobs, keyFeatures, keyContentParts} {
		into.KVOff = into.KVOff || w.given(k)
	}
	switch s := into.Session; {
	case s == "":
		if b := w.bodySession(r.session); len(b) > 0 {
			w.names.add(&into.Session, was.session, b)
		}
	case len(s) > maxSession:
		w.scratch = appendHex(w.scratch[:0], xxh3.HashString(s))
		w.names.add(&into.Session, was.session, w.scratch)
	}
	w.names.settle()
	truncated := w.given(keyTruncatePromptTokens)
	if truncated {
		into.TokenIDs = nil
	}
	w.readPrompt(a, r.opts.MaxText, truncated, into)
	if into.Model == "" {
		return MissingModel
	}
	return nil
}

// readPrompt fills in what the prompt gives: text, length, digest and token ids.
func (w *work) readPrompt(a api, maxText int, truncated bool, into *Request) {
	w.prompt.max = maxText
	w.prompt.hint = len(w.tape.b)
	w.tokens = into.ids[:0]
	w.keep = into.TokenIDs == nil && !truncated
	w.begin(into.Text, into.CacheSalt)
	into.HasPrompt = w.render(a) && w.prompt.length > 0
	if !into.HasPrompt && utf8.Valid(w.tape.b) {
		w.begin(w.prompt.text, into.CacheSalt)
		w.prompt.add(w.tape.b, push)
		into.HasPrompt = true
	}
	if !into.HasPrompt {
		into.Text = w.prompt.text[:0]
		return
	}
	into.Text, into.Length, into.Digest = w.prompt.text, w.prompt.length, w.prompt.digest()
	if w.keep && len(w.tokens) > 0 {
		into.ids, into.TokenIDs = w.tokens, w.tokens
	}
}

// begin starts the prompt in this buffer, with the salt before everything else.
func (w *work) begin(buf []byte, salt string) {
	w.prompt.reset(buf)
	if salt == "" {
		return
	}
	w.prompt.add(append(appendHex(w.prompt.literal[:0], xxh3.HashString(salt)), '\n'), push)
	w.prompt.length = 0
}

// readForm reads a body that should be multipart/form-data.
func readForm(body []byte, contentType string, was last, into *Request) error {
	into.Form = true
	into.growSpans(1)
	into.ModelSpans = appendFormModels(into.ModelSpans, body, contentType)
	if n := len(into.ModelSpans); n > 0 {
		s := into.ModelSpans[n-1]
		value := body[s.Offset : s.Offset+s.Length]
		if !utf8.Valid(value) {
			value = bytes.ToValidUTF8(value, []byte("\uFFFD"))
		}
		into.Model = keep(was.model, value)
	}
	if into.Model == "" {
		return MissingModel
	}
	return nil
}

// take gives scratch memory for one read.
func (r *Reader) take() *work {
	w, _ := r.pool.Get().(*work)
	if w == nil {
		w = &work{room: r.room}
		w.dups.seed = r.seed
	}
	w.tape.nodes, w.tape.full, w.tape.depth = w.tape.nodes[:0], w.room, 0
	w.body = [numBodyKeys]int{}
	w.held, w.sequences, w.batch = 0, 0, false
	return w
}

// give puts scratch memory back, without what refers to the request.
func (r *Reader) give(w *work) {
	w.tape.b = nil
	w.tokens, w.prompt.text = nil, nil
	if cap(w.tape.nodes) > keepItems {
		w.tape.nodes = nil
	}
	if cap(w.dups.members) > keepItems || len(w.dups.table) > keepItems {
		w.dups.members, w.dups.table, w.dups.dead = nil, nil, nil
	}
	if cap(w.names.buf) > keepBytes {
		w.names.buf = nil
	}
	if cap(w.dups.a) > keepBytes || cap(w.dups.b) > keepBytes || cap(w.scratch) > keepBytes {
		w.dups.a, w.dups.b, w.scratch = nil, nil, nil
	}
	r.pool.Put(w)
}
