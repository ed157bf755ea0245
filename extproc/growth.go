package extproc

import "github.com/pointsman/pointsman/internal/routing"

// outgrows tells whether the body becomes larger than limits.body by being rewritten for
// any target of the list. Envoy's buffer has that size, and Envoy fails in an ugly way
// over a larger one; and a body of ten-byte members that are all called model would
// be rewritten to 26 times its size.
func (s *scratch) outgrows(d *routing.Decision, body []byte, limit int64) bool {
	if s.request.Decoded != nil {
		body = s.request.Decoded
	}
	known := s.request.Model
	for k := range d.Len() {
		model := d.Model(k)
		if model == known || model == s.request.Model {
			continue // as most entries: there may be a million places to count
		}
		if known = model; int64(s.request.RewrittenLen(len(body), model)) > limit {
			return true
		}
	}
	return false
}
