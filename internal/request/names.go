package request

// maxShared is how long the strings of a request may be together, in bytes, to be made
// with one allocation. Each then keeps the others in memory as long as it lives, and
// some live long: a session is remembered.
const maxShared = 1 << 10

// names collects the strings that a request keeps, so that they cost one allocation.
type names struct {
	buf  []byte
	list [3]name // model, salt, session
	n    int
}

// name is a string to be made.
type name struct {
	to       *string
	from, by int // its place in buf
}

// add gives *to the value b, at once if the request before had the same, else when
// settle is called.
func (s *names) add(to *string, was string, b []byte) {
	if was == string(b) {
		*to = was
		return
	}
	from := len(s.buf)
	s.buf = append(s.buf, b...)
	s.list[s.n] = name{to, from, len(s.buf)}
	s.n++
}

// settle makes the strings.
func (s *names) settle() {
	shared := ""
	if len(s.buf) <= maxShared {
		shared = string(s.buf)
	}
	for i := range s.n {
		v := &s.list[i]
		if shared != "" {
			*v.to = shared[v.from:v.by]
		} else {
			*v.to = string(s.buf[v.from:v.by])
		}
		v.to = nil // the request is not to be kept
	}
	s.buf, s.n = s.buf[:0], 0
}
