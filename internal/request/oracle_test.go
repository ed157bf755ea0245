package request

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/zeebo/xxh3"
)

// result is what the tests compare of a Request.
type result struct {
	Err       string
	Model     string
	Stream    bool
	Spans     []Span
	Text      string
	Length    int64
	Digest    uint64
	HasPrompt bool
	TokenIDs  []uint32
	Session   string
	CacheSalt string
	KVOff     bool
}

// read reads a body with a fresh Request.
func read(r *Reader, path string, h header, body []byte) result {
	var q Request
	return resultOf(r.Read(path, h, body, &q), &q)
}

func resultOf(err error, q *Request) result {
	out := result{
		Model: q.Model, Stream: q.Stream, Text: string(q.Text), Length: q.Length, Digest: q.Digest, HasPrompt: q.HasPrompt,
		TokenIDs: q.TokenIDs, Session: q.Session, CacheSalt: q.CacheSalt, KVOff: q.KVOff,
	}
	if len(q.ModelSpans) > 0 {
		out.Spans = q.ModelSpans
	}
	if err != nil {
		out.Err = err.Error()
	}
	return out
}

// oracle reads a JSON body as the specification says, with encoding/json and
// without any thought of speed.
func oracle(path string, sessionFields []string, body []byte, maxText int) (out result) {
	source := bytes.TrimPrefix(body, []byte(bom))
	if !json.Valid(source) || nesting(source) > 512 {
		out.Err = InvalidJSON.Error()
		return out
	}
	root := parse(source)
	if root.object == nil {
		out.Err = MissingModel.Error()
		return out
	}
	offset := len(body) - len(bytes.TrimLeft(source, " \t\r\n"))
	for _, m := range root.object.all {
		if m.key == "model" {
			out.Spans = append(out.Spans, Span{offset + m.offset, len(m.source)})
		}
	}
	out.Model = root.get("model").text()
	out.Stream = string(root.get("stream").source()) == "true"
	out.CacheSalt = root.get("cache_salt").text()
	out.KVOff = root.get("cache_salt").given() && !root.get("cache_salt").isString()
	for _, name := range []string{"extra_key", "prompt_logprobs", "features", "content_parts"} {
		out.KVOff = out.KVOff || root.get(name).given()
	}
	for _, name := range sessionFields {
		v := root
		for part := range strings.SplitSeq(name, ".") {
			v = v.get(part)
		}
		s := strings.TrimSpace(v.text())
		if len(s) > 256 {
			s = fmt.Sprintf("%016x", xxh3.HashString(s))
		}
		if s != "" {
			out.Session = s
			break
		}
	}

	o := oraclePrompt{max: maxText, open: true}
	o.salt(out.CacheSalt)
	if o.render(path, root) && o.length > 0 {
		out.HasPrompt = true
	} else if utf8.Valid(body) {
		o = oraclePrompt{max: maxText, open: true}
		o.salt(out.CacheSalt)
		o.push(string(body))
		out.HasPrompt = true
	}
	if out.HasPrompt {
		out.Text, out.Length, out.Digest = o.text, o.length, xxh3.HashString(o.fed.String())
	}
	if !root.get("truncate_prompt_tokens").given() && len(o.ids) > 0 {
		out.TokenIDs = o.ids
	}
	if out.Model == "" {
		out.Err = MissingModel.Error()
	}
	return out
}

// nesting is how deep a valid JSON text is nested.
func nesting(source []byte) (deepest int) {
	d := json.NewDecoder(bytes.NewReader(source))
	for depth := 0; ; {
		token, err := d.Token()
		if err != nil {
			return deepest
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
			deepest = max(deepest, depth)
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
}

// tree is a parsed value; nil is an absent one.
type tree struct {
	raw    []byte
	object *object
	array  []*tree
}

type object struct {
	all  []keyed // as written
	last []keyed // without duplicates
}

type keyed struct {
	key    string
	rawKey []byte
	offset int // of the value
	source []byte
	value  *tree
}

func parse(raw []byte) *tree {
	raw = bytes.TrimSpace(raw)
	t := &tree{raw: raw}
	switch raw[0] {
	case '[':
		var elements []json.RawMessage
		must(json.Unmarshal(raw, &elements))
		t.array = []*tree{}
		for _, e := range elements {
			t.array = append(t.array, parse(e))
		}
	case '{':
		t.object = &object{}
		d := json.NewDecoder(bytes.NewReader(raw))
		_, err := d.Token()
		must(err)
		for d.More() {
			before := d.InputOffset()
			token, err := d.Token()
			must(err)
			rawKey := raw[before:d.InputOffset()]
			rawKey = rawKey[bytes.IndexByte(rawKey, '"'):]
			var value json.RawMessage
			must(d.Decode(&value))
			end := int(d.InputOffset())
			m := keyed{token.(string), rawKey, end - len(value), value, parse(value)}
			t.object.all = append(t.object.all, m)
			t.object.last = append(slices.DeleteFunc(t.object.last, func(o keyed) bool { return o.key == m.key }), m)
		}
	}
	return t
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (t *tree) source() []byte {
	if t == nil {
		return nil
	}
	return t.raw
}

func (t *tree) given() bool    { return t != nil && string(t.raw) != "null" }
func (t *tree) isString() bool { return t != nil && t.raw[0] == '"' }
func (t *tree) isArray() bool  { return t != nil && t.raw[0] == '[' }

func (t *tree) get(key string) *tree {
	if t != nil && t.object != nil {
		for _, m := range t.object.last {
			if m.key == key {
				return m.value
			}
		}
	}
	return nil
}

// text is the value of a string, or "".
func (t *tree) text() (s string) {
	if t.isString() {
		must(json.Unmarshal(t.raw, &s))
	}
	return s
}

// compact is the source without white space and absent members.
func (t *tree) compact() string {
	var parts []string
	switch {
	case t.object != nil:
		for _, m := range t.object.last {
			parts = append(parts, string(m.rawKey)+":"+m.value.compact())
		}
		return "{" + strings.Join(parts, ",") + "}"
	case t.array != nil:
		for _, e := range t.array {
			parts = append(parts, e.compact())
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
	return string(t.raw)
}

var tokenID = regexp.MustCompile(`^[0-9]+$`)

// sequence gives the ids of an array of token ids.
func (t *tree) sequence() (ids []uint32, ok bool) {
	if !t.isArray() {
		return nil, false
	}
	for _, e := range t.array {
		id, err := strconv.ParseUint(string(e.raw), 10, 32)
		if err != nil || !tokenID.Match(e.raw) {
			return nil, false
		}
		ids = append(ids, uint32(id))
	}
	return ids, true
}

// oraclePrompt builds text, length and digest.
type oraclePrompt struct {
	text   string
	max    int
	open   bool
	length int64
	fed    strings.Builder
	ids    []uint32
}

func (o *oraclePrompt) salt(salt string) {
	if salt != "" {
		o.push(fmt.Sprintf("%016x\n", xxh3.HashString(salt)))
		o.length = 0
	}
}

func (o *oraclePrompt) push(s string) {
	o.length += int64(len(s))
	o.fed.WriteString(s)
	if !o.open {
		return
	}
	if n := o.max - len(o.text); len(s) > n {
		for !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
		o.open = false
	}
	o.text += s
}

func (o *oraclePrompt) absorb(t *tree, measured bool) {
	s := t.compact()
	if t.isString() {
		s = t.text()
	}
	o.fed.WriteString(s)
	if measured {
		o.length += int64(len(s))
	}
}

func (o *oraclePrompt) turn(role string, content *tree) {
	o.push(role)
	o.push(": ")
	switch {
	case content.isString():
		o.push(content.text())
	case content.isArray():
		for _, p := range content.array {
			o.part(p)
		}
	}
	o.push("\n")
}

func (o *oraclePrompt) part(p *tree) {
	switch {
	case p.isString():
		o.push(p.text())
	case p.object == nil:
	case p.get("text").isString():
		o.push(p.get("text").text())
	case p.get("type").text() == "tool_result" && p.get("content").isArray():
		for _, b := range p.get("content").array {
			if b.get("text").isString() {
				o.absorb(b.get("text"), true)
			} else {
				o.absorb(b, false)
			}
		}
	case p.get("type").text() == "tool_result" && p.get("content") != nil:
		o.absorb(p.get("content"), true)
	case p.get("type").text() == "tool_use" && p.get("input") != nil:
		o.absorb(p.get("input"), true)
	case p.get("type").text() == "tool_use":
		o.absorb(p, true)
	default:
		o.absorb(p, false)
	}
}

func (o *oraclePrompt) items(array *tree) {
	for _, e := range array.array {
		switch {
		case e.get("content") != nil:
			role := "item"
			if e.get("role").isString() {
				role = e.get("role").text()
			}
			o.turn(role, e.get("content"))
		case e.get("output") != nil:
			o.absorb(e.get("output"), true)
		case e.get("arguments") != nil:
			o.absorb(e.get("arguments"), true)
		default:
			o.absorb(e, false)
		}
		if calls := e.get("tool_calls"); calls.isArray() {
			for _, c := range calls.array {
				if a := c.get("function").get("arguments"); a != nil {
					o.absorb(a, true)
				} else {
					o.absorb(c, true)
				}
			}
		}
	}
}

func (o *oraclePrompt) tokens(t *tree) bool {
	ids, ok := t.sequence()
	sequences := []*tree{t}
	if ok {
		o.ids = ids
	} else {
		if !t.isArray() || len(t.array) == 0 {
			return false
		}
		for _, e := range t.array {
			if _, ok := e.sequence(); !ok {
				return false
			}
		}
		sequences = t.array
	}
	word := func(n uint32) { o.fed.Write(binary.LittleEndian.AppendUint32(nil, n)) }
	for i, t := range sequences {
		ids, _ := t.sequence()
		separator := ""
		if i > 0 {
			separator = "\n"
		}
		if !ok {
			word(uint32(len(ids)))
			if len(ids) == 0 {
				o.token(separator)
			}
		}
		for _, id := range ids {
			word(id)
			o.token(separator + strconv.FormatUint(uint64(id), 10))
			separator = ","
		}
		o.length += 4 * int64(len(ids))
	}
	return true
}

func (o *oraclePrompt) token(s string) {
	if o.open = o.open && len(o.text)+len(s) <= o.max; o.open {
		o.text += s
	}
}

func (o *oraclePrompt) list(t *tree) bool {
	switch {
	case t.isString():
		o.push(t.text())
	case t.isArray():
		if !o.tokens(t) {
			for _, e := range t.array {
				if e.isString() {
					o.push(e.text())
				}
			}
		}
	default:
		return false
	}
	return true
}

func (o *oraclePrompt) render(path string, root *tree) bool {
	path, _, _ = strings.Cut(path, "?")
	path = strings.TrimSuffix(strings.TrimRight(path, "/"), "/render")
	var best string
	for _, p := range []string{
		"/v1/chat/completions", "/v1/messages", "/v1/messages/count_tokens", "/v1/responses", "/v1/completions",
		"/v1/embeddings", "/inference/v1/generate", "/generate",
	} {
		if strings.HasSuffix(path, p) && len(p) > len(best) {
			best = p
		}
	}
	switch best {
	case "/v1/chat/completions":
		if !root.get("messages").isArray() {
			return false
		}
		o.items(root.get("messages"))
	case "/v1/messages", "/v1/messages/count_tokens":
		if root.get("system").given() {
			o.turn("system", root.get("system"))
		}
		if root.get("messages").isArray() {
			o.items(root.get("messages"))
		}
	case "/v1/responses":
		if root.get("instructions").given() {
			o.turn("system", root.get("instructions"))
		}
		switch input := root.get("input"); {
		case input.isString():
			o.turn("user", input)
		case input.isArray():
			o.items(input)
		default:
			return false
		}
	case "/v1/completions":
		return o.list(root.get("prompt"))
	case "/v1/embeddings":
		return o.list(root.get("input"))
	case "/inference/v1/generate":
		if !root.get("token_ids").isArray() || !o.tokens(root.get("token_ids")) {
			return false
		}
		for _, name := range []string{"features", "content_parts"} {
			if root.get(name).given() {
				o.absorb(root.get(name), false)
			}
		}
	case "/generate":
		return o.list(root.get("text")) || root.get("input_ids").isArray() && o.tokens(root.get("input_ids"))
	default:
		return false
	}
	return true
}
