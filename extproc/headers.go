package extproc

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// headers are a request's headers as Envoy sent them: names in lower case, one
// element per value. They are searched, not indexed: a request has some fifteen, and
// few are asked for. They implement request.Header.
type headers struct{ list []*corev3.HeaderValue }

// Get implements request.Header.
func (h *headers) Get(name string) string {
	for _, v := range h.list {
		if v.GetKey() == name {
			return headerValue(v)
		}
	}
	return ""
}

// Values implements request.Header.
func (h *headers) Values(name string) []string {
	var all []string
	for _, v := range h.list {
		if v.GetKey() == name {
			all = append(all, headerValue(v))
		}
	}
	return all
}

// headerValue is the value, which newer Envoys send as bytes and older ones as text.
func headerValue(v *corev3.HeaderValue) string {
	if raw := v.GetRawValue(); len(raw) > 0 {
		return string(raw)
	}
	return v.GetValue()
}

// upgrade tells whether the client asks to change the protocol. An HTTP/2 extended
// CONNECT arrives in this form too.
func (h *headers) upgrade() bool {
	if h.Get("upgrade") == "" {
		return false
	}
	for _, v := range h.Values("connection") {
		for option := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(option), "upgrade") {
				return true
			}
		}
	}
	return false
}
