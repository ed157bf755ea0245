// Package request reads an LLM request: headers and body in, what strategies
// and addressing may know out. It is the product's hottest path and the one
// that meets hostile input.
//
// It does not choose, forward or log anything, and it never changes the body
// it is given. extproc calls it, once per request, on the goroutine of the request's stream;
// a Reader may be shared, a Request may not, and may not be copied after its first Read.
package request

import "slices"

// MaxTextLimit bounds Options.MaxText: no request's text takes more memory, in bytes.
const MaxTextLimit = 64 << 10

// Options say how requests are read. The zero value is not useful: start from
// DefaultOptions.
type Options struct {
	// BodyLimit bounds a body as sent and as decoded, in bytes. At most 2 GiB - 1.
	BodyLimit int64
	// MaxText bounds the affinity text, in bytes. At most MaxTextLimit.
	MaxText int
	// SessionHeaders are asked in order for the session key.
	SessionHeaders []string
	// SessionBodyFields are asked in order when no header has the session key. They
	// are of SessionBodyFields(); others are ignored.
	SessionBodyFields []string
	// TokenHeaders are asked in order for the token ids of the prompt.
	TokenHeaders []string
}

// DefaultOptions are the defaults of the specification.
func DefaultOptions() Options {
	return Options{
		BodyLimit:      32 << 20,
		MaxText:        32 << 10,
		SessionHeaders: []string{"x-session-id"},
		TokenHeaders:   []string{"x-pointsman-token-ids", "x-rolter-vllm-token-ids"},
	}
}

// Header gives access to the request headers without copying them all.
type Header interface {
	// Get gives the first value of the header of this lower-case name, or "".
	Get(name string) string
	// Values gives all values of the header of this lower-case name, in order.
	Values(name string) []string
}

// Span is a piece of a body: bytes [Offset, Offset+Length).
type Span struct{ Offset, Length int }

// Request is what was read. It is reused: Read resets it first, and everything
// it holds is valid until the next Read or Reset. Nothing in it refers to the body
// that was given, which may be released after Read.
type Request struct {
	Path   string // without the query
	Model  string
	Stream bool // the client wants a streamed answer

	// ModelSpans are the places of every top-level model value in the body to
	// be forwarded (quotes included), in order, for AppendModel.
	ModelSpans []Span
	// Form says that the body is multipart: the spans are bare form values,
	// not JSON strings.
	Form bool
	// Decoded is the body without its Content-Encoding, nil if it had none.
	// A rewritten body is made from it.
	Decoded []byte

	Text      []byte // affinity text
	Length    int64  // measured bytes of the whole prompt
	Digest    uint64 // identity of the whole prompt
	HasPrompt bool   // Text, Length and Digest mean something

	TokenIDs  []uint32 // the prompt as token ids, nil = unknown
	Session   string   // opaque session key, "" = absent
	CacheSalt string   // "" = absent
	KVOff     bool     // the request has no KV score

	spans   [2]Span  // memory of ModelSpans while they are few
	ids     []uint32 // memory of TokenIDs
	decoded []byte   // memory of Decoded
}

// Fault is why a request cannot be read. It is a value, compared with ==.
type Fault uint8

// The faults. Each is one code of the table in internal/wire.
const (
	MissingBody Fault = iota + 1
	InvalidJSON
	InvalidEncoding
	UnsupportedEncoding
	BodyTooLarge
	MissingModel
)

var faultText = [...]string{
	"", "the request has no body", "the body is not valid JSON", "the compressed body is corrupt",
	"the content encoding is not supported", "the decoded body is too large", "the body names no model",
}

// Error gives a sentence for the client. It holds nothing of the request.
func (f Fault) Error() string { return faultText[f] }

// Reset empties the request and keeps its buffers for the next Read, unless they
// are unusually large.
func (r *Request) Reset() {
	if cap(r.decoded) > keepBytes {
		r.decoded = nil
	}
	if cap(r.ids) > keepItems {
		r.ids = nil
	}
	if cap(r.ModelSpans) > keepItems {
		r.ModelSpans = nil
	}
	*r = Request{Text: r.Text[:0], ModelSpans: r.ModelSpans[:0], ids: r.ids, decoded: r.decoded}
}

// growSpans makes room for so many places of the model.
func (r *Request) growSpans(n int) {
	if cap(r.ModelSpans) == 0 && n <= len(r.spans) {
		r.ModelSpans = r.spans[:0]
	}
	r.ModelSpans = slices.Grow(r.ModelSpans, n)
}

// PromptTokens estimates the prompt's tokens: the known ids, else Length / 4.
func (r *Request) PromptTokens() int64 {
	if r.TokenIDs != nil {
		return int64(len(r.TokenIDs))
	}
	return r.Length / 4
}
