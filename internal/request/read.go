package request

import (
	"encoding/json"
	"strings"

	"github.com/zeebo/xxh3"
)

// Read reads one request: path (with its query), headers and body, into a
// Request, which it resets first. The error is a Fault or nil; on a Fault the
// Request still holds what could be read.
func (r *Reader) Read(path string, h Header, body []byte, into *Request) error {
	*into = Request{}
	into.Path, _, _ = strings.Cut(path, "?")
	for _, name := range r.opts.SessionHeaders {
		if v := strings.TrimSpace(h.Get(name)); v != "" {
			into.Session = v
			break
		}
	}
	if len(body) == 0 {
		return MissingBody
	}
	var b struct {
		Model    any
		Stream   any
		Prompt   any
		Messages []struct{ Role, Content string }
	}
	var top map[string]json.RawMessage
	if err := json.Unmarshal(body, &top); err != nil {
		if json.Valid(body) {
			return MissingModel
		}
		return InvalidJSON
	}
	_ = json.Unmarshal(body, &b)
	var text strings.Builder
	if p, ok := b.Prompt.(string); ok {
		text.WriteString(p)
	}
	for _, m := range b.Messages {
		text.WriteString(m.Role + ": " + m.Content + "\n")
	}
	into.Text = []byte(text.String())
	into.Length = int64(len(into.Text))
	into.Digest = xxh3.Hash(into.Text)
	into.HasPrompt = true
	into.Text = into.Text[:min(len(into.Text), r.opts.MaxText)]
	into.Stream = b.Stream == true
	into.Model, _ = b.Model.(string)
	if into.Model == "" {
		return MissingModel
	}
	raw := string(top["model"])
	at := strings.Index(string(body), raw)
	into.ModelSpans = append(into.ModelSpans, Span{Offset: at, Length: len(raw)})
	return nil
}

// AppendModel appends to dst the body with every model value replaced by this
// model. The body is the one that was read, or Decoded where that is set.
func (q *Request) AppendModel(dst, body []byte, model string) []byte {
	at := 0
	for _, s := range q.ModelSpans {
		dst = append(dst, body[at:s.Offset]...)
		if q.Form {
			dst = append(dst, model...)
		} else {
			quoted, _ := json.Marshal(model)
			dst = append(dst, quoted...)
		}
		at = s.Offset + s.Length
	}
	return append(dst, body[at:]...)
}
