package wire

import (
	"encoding/json"
	"strings"
)

// Error is one row of the table of answers that no upstream made
// (spec: targets, "Answers that no upstream made").
type Error struct {
	Status int
	Code   string // machine-readable, stable
	Type   string // the vocabulary of the OpenAI and Anthropic APIs
}

// Detail is the response-code detail by which Envoy tells our own answers from
// its own: its local reply mapper leaves details with this prefix untouched.
func (e Error) Detail() string { return DetailPrefix + e.Code }

// DetailPrefix begins the response-code details of pointsman's own answers.
const DetailPrefix = "pointsman_"

const (
	typeInvalid    = "invalid_request_error"
	typePermission = "permission_error"
	typeNotFound   = "not_found_error"
	typeAPI        = "api_error"
	typeRateLimit  = "rate_limit_error"
	typeOverloaded = "overloaded_error"
)

// The table. The errors of the first block are written by pointsman, those of the
// second by Envoy from the configuration that pointsman gave it; ErrInternal,
// ErrNotSupported, ErrNoTarget and ErrBodyTooLarge by both.
var (
	ErrMissingBody         = Error{400, "missing_body", typeInvalid}
	ErrInvalidJSON         = Error{400, "invalid_json", typeInvalid}
	ErrInvalidEncoding     = Error{400, "invalid_encoding", typeInvalid}
	ErrMissingModel        = Error{400, "missing_model", typeInvalid}
	ErrNoPermittedTarget   = Error{403, "no_permitted_target", typePermission}
	ErrModelNotFound       = Error{404, "model_not_found", typeNotFound}
	ErrUnsupportedEncoding = Error{415, "unsupported_encoding", typeInvalid}
	ErrSaturated           = Error{429, "saturated", typeRateLimit}
	ErrInternal            = Error{500, "internal", typeAPI}
	ErrNotSupported        = Error{501, "not_supported", typeInvalid}
	ErrNoTarget            = Error{503, "no_target", typeOverloaded}

	ErrBadRequest      = Error{400, "bad_request", typeInvalid}
	ErrRequestTimeout  = Error{408, "request_timeout", typeInvalid}
	ErrBodyTooLarge    = Error{413, "body_too_large", typeInvalid}
	ErrHeadersTooLarge = Error{431, "headers_too_large", typeInvalid}
	ErrUpstreamFailed  = Error{502, "upstream_connection_failed", typeAPI}
	ErrUpstreamTimeout = Error{504, "upstream_timeout", typeAPI}
)

// Dialect is the shape of an error body.
type Dialect uint8

// The two dialects.
const (
	OpenAI Dialect = iota
	Anthropic
)

// AnthropicPathRegex matches :path (with query) of requests that speak the
// Anthropic dialect, as a whole. Envoy's local replies use it; DialectOf agrees
// with it, also about a query that only looks like such a path, and so does request
// about which bodies are Messages: behind any prefix, with slashes at the end.
const AnthropicPathRegex = `[^?]*/v1/messages(/count_tokens)?(/render)?/*([?].*)?`

// DialectOf tells the dialect of a request path, with or without query.
func DialectOf(path string) Dialect {
	path, _, _ = strings.Cut(path, "?")
	path = strings.TrimRight(path, "/")
	path = strings.TrimSuffix(path, "/render")
	path = strings.TrimSuffix(path, "/count_tokens")
	if strings.HasSuffix(path, "/v1/messages") {
		return Anthropic
	}
	return OpenAI
}

type openAIBody struct {
	Error struct {
		Message string `json:"message"`
		Type    string `json:"type"`
		Code    string `json:"code"`
	} `json:"error"`
}

type anthropicBody struct {
	Type  string `json:"type"`
	Error struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
}

// Body is the JSON of the error in a dialect. It ends without a line end.
func (e Error) Body(d Dialect, message string) []byte {
	if d == Anthropic {
		body := anthropicBody{Type: "error"}
		body.Error.Type, body.Error.Message = e.Type, message
		return marshal(body)
	}
	var body openAIBody
	body.Error.Message, body.Error.Type, body.Error.Code = message, e.Type, e.Code
	return marshal(body)
}

// marshal encodes a struct of strings, which cannot fail.
func marshal(v any) []byte {
	b, _ := json.Marshal(v)
	return b
}
