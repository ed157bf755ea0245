// Package request reads an LLM request: headers and body in, what strategies
// and addressing may know out. It is the product's hottest path and the one
// that meets hostile input.
//
// It does not choose, forward or log anything, and it never changes the body
// it is given. extproc calls it, once per request, on the goroutine of the request's stream;
// a Reader is immutable and may be shared, a Request may not.
package request

// Options say how requests are read. The zero value is not useful: start from
// DefaultOptions.
type Options struct {
	// BodyLimit bounds the decoded size of a body, in bytes.
	BodyLimit int64
	// MaxText bounds the affinity text, in bytes.
	MaxText int
	// SessionHeaders are asked in order for the session key. Lower case.
	SessionHeaders []string
}

// DefaultOptions are the defaults of the specification.
func DefaultOptions() Options {
	return Options{BodyLimit: 32 << 20, MaxText: 32 << 10, SessionHeaders: []string{"x-session-id"}}
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

// Reader reads requests. Immutable after NewReader.
type Reader struct {
	opts Options
}

// NewReader gives a reader with these options.
func NewReader(opts Options) *Reader { return &Reader{opts: opts} }

// PromptTokens estimates the prompt's tokens: the known ids, else Length / 4.
func (r *Request) PromptTokens() int64 {
	if r.TokenIDs != nil {
		return int64(len(r.TokenIDs))
	}
	return r.Length / 4
}
