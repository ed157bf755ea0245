package request

// absorb feeds a value to the digest: a string as its decoded bytes, anything else
// as its source bytes without insignificant white space and without the members
// that a later one of the same name makes absent.
func (w *work) absorb(v node, u use) {
	raw := w.tape.b[v.start:v.end]
	switch {
	case v.kind == '"':
		w.string(v, u)
	case v.kind == run:
		w.scalars(raw, u)
	case v.flags&multi != 0 && w.dups.find(raw):
		w.compact(raw, u, &w.dups)
	case v.flags&spaced != 0:
		w.compact(raw, u, nil)
	default:
		w.prompt.add(raw, u)
	}
}

// string takes the decoded bytes of a string.
func (w *work) string(v node, u use) {
	raw := w.tape.b[v.start+1 : v.end-1]
	same, valid := plain(raw, v.flags)
	if same {
		w.prompt.add(raw, u)
		return
	}
	for len(raw) > 0 {
		n, done := chunk(w.buf[:], raw, valid)
		w.prompt.add(w.buf[:n], u)
		raw = raw[done:]
	}
}

// scalars takes the elements of a run: its bytes but for what separates them.
func (w *work) scalars(raw []byte, u use) {
	from := 0
	for i, c := range raw {
		if c == ',' || c <= ' ' {
			w.gather(raw[from:i], u)
			from = i + 1
		}
	}
	w.gather(raw[from:], u)
	w.flush(u)
}

// compact takes a container without insignificant white space and, if d is not
// nil, without the members that d has found absent.
func (w *work) compact(raw []byte, u use, d *dups) {
	from := 0    // raw[from:i] is still to be taken
	depth := 0   // containers open at i
	mute := 0    // depth of the absent member that i lies in, or 0
	ordinal := 0 // of the next key
	for i := 0; i < len(raw); {
		switch c := raw[i]; {
		case c == '"':
			end, _ := scanString(raw, i+1)
			if d != nil && at(raw, space(raw, end+1)) == ':' {
				absent := d.isDead(ordinal)
				ordinal++
				switch {
				case absent && mute == 0:
					w.gather(raw[from:i], u)
					mute = depth
				case !absent && mute == depth: // a later member follows every absent one
					from = i
					mute = 0
				}
			}
			i = end + 1
		case c <= ' ':
			if mute == 0 {
				w.gather(raw[from:i], u)
			}
			i = space(raw, i)
			from = i
		case c == '{' || c == '[':
			depth++
			i++
		case c == '}' || c == ']':
			depth--
			i++
		default:
			i++
		}
	}
	w.gather(raw[from:], u)
	w.flush(u)
}

// gather takes small pieces by way of a buffer, as every piece of its own costs the hasher.
func (w *work) gather(b []byte, u use) {
	if len(b) >= len(w.buf) {
		w.flush(u)
		w.prompt.add(b, u)
		return
	}
	if len(b) > len(w.buf)-w.held {
		w.flush(u)
	}
	w.held += copy(w.buf[w.held:], b)
}

func (w *work) flush(u use) {
	w.prompt.add(w.buf[:w.held], u)
	w.held = 0
}
