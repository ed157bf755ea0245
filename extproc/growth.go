package extproc

import "github.com/pointsman/pointsman/internal/routing"

// maxGrowth is how far a body may outgrow limits.body by being rewritten, in bytes: far
// more than an honest request needs, which names its model once. A body of ten-byte
// members that are all called model would be rewritten to 26 times its size.
const maxGrowth = 1 << 20

// outgrows tells whether the body, rewritten for any target of the list, becomes larger
// than is ever sent.
func (s *scratch) outgrows(d *routing.Decision, body []byte, limit int64) bool {
	if s.request.Decoded != nil {
		body = s.request.Decoded
	}
	if len(s.request.ModelSpans) <= 1 {
		return false
	}
	for k := range d.Len() {
		if model := d.Entry(k).Model; model != s.request.Model && int64(s.request.RewrittenLen(len(body), model)) > limit+maxGrowth {
			return true
		}
	}
	return false
}
