package request

import "unicode/utf8"

// AppendModel appends to dst the body with every model value replaced by this
// model, all else as it was. The body is the one that was read, or Decoded where
// that is set.
func (q *Request) AppendModel(dst, body []byte, model string) []byte {
	from := 0
	for _, s := range q.ModelSpans {
		dst = append(dst, body[from:s.Offset]...)
		if q.Form {
			dst = append(dst, model...)
		} else {
			dst = appendQuoted(dst, model)
		}
		from = s.Offset + s.Length
	}
	return append(dst, body[from:]...)
}

// RewrittenLen is the length of what AppendModel appends for a body of this length.
func (q *Request) RewrittenLen(bodyLen int, model string) int {
	size := len(model)
	if !q.Form {
		size = quotedLen(model)
	}
	for _, s := range q.ModelSpans {
		bodyLen += size - s.Length
	}
	return bodyLen
}

// appendQuoted appends s as a JSON string. What is no UTF-8 becomes U+FFFD.
func appendQuoted(dst []byte, s string) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r < ' ':
			dst = append(dst, '\\', 'u', '0', '0', digits[r>>4], digits[r&15])
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}

// quotedLen is the length of what appendQuoted appends.
func quotedLen(s string) int {
	n := len(`""`)
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			n += 2
		case r < ' ':
			n += len(`\u0000`)
		default:
			n += utf8.RuneLen(r)
		}
	}
	return n
}
