package request

// item renders one message or other item (spec: prompt, "Items").
func (w *work) item(i int) {
	m := w.members(i)
	content, output, arguments := m.get(keyContent), m.get(keyOutput), m.get(keyArguments)
	switch {
	case content > 0:
		if role := m.get(keyRole); w.is(role, '"') {
			w.string(w.tape.nodes[role], push)
			w.prompt.addString(": ")
		} else {
			w.prompt.addString("item: ")
		}
		w.content(content)
		w.prompt.addString("\n")
	case output > 0:
		w.absorb(w.tape.nodes[output], measured)
	case arguments > 0:
		w.absorb(w.tape.nodes[arguments], measured)
	default:
		w.absorb(w.tape.nodes[i], silent)
	}
	if toolCalls := m.get(keyToolCalls); w.is(toolCalls, '[') {
		w.array(toolCalls, calls)
	}
}

// call renders an entry of tool_calls.
func (w *work) call(i int) {
	m := w.members(i)
	if f := m.get(keyFunction); f > 0 {
		of := w.members(f)
		if arguments := of.get(keyArguments); arguments > 0 {
			i = arguments
		}
	}
	w.absorb(w.tape.nodes[i], measured)
}

// content renders the content of a turn: a string, or an array of parts.
func (w *work) content(i int) {
	switch w.tape.nodes[i].kind {
	case '"':
		w.string(w.tape.nodes[i], push)
	case '[':
		w.array(i, parts)
	}
}

// part renders an element of an array of parts, which is a string or an object
// (spec: prompt, "Turns" and "Parts without text").
func (w *work) part(i int) {
	v := w.tape.nodes[i]
	if v.kind == '"' {
		w.string(v, push)
		return
	}
	m := w.members(i)
	text, content, input := m.get(keyText), m.get(keyContent), m.get(keyInput)
	switch {
	case w.is(text, '"'):
		w.string(w.tape.nodes[text], push)
	case w.reads(m.get(keyType), "tool_result"):
		switch {
		case w.is(content, '['):
			w.array(content, blocks)
		case content > 0:
			w.absorb(w.tape.nodes[content], measured)
		default:
			w.absorb(v, silent)
		}
	case w.reads(m.get(keyType), "tool_use"):
		if input > 0 {
			v = w.tape.nodes[input]
		}
		w.absorb(v, measured)
	default:
		w.absorb(v, silent)
	}
}

// block renders an element of a tool result's content.
func (w *work) block(i int) {
	m := w.members(i)
	if text := m.get(keyText); w.is(text, '"') {
		w.absorb(w.tape.nodes[text], measured)
		return
	}
	w.absorb(w.tape.nodes[i], silent)
}

// reads tells whether the value at i (0 = absent) is this short ASCII string.
func (w *work) reads(i int, word string) bool {
	if !w.is(i, '"') {
		return false
	}
	v := w.tape.nodes[i]
	raw := w.tape.b[v.start+1 : v.end-1]
	if v.flags&escaped == 0 {
		return string(raw) == word
	}
	if len(raw) > len(`\u0000`)*len(word) {
		return false
	}
	n, done := unescapeInvalid(w.buf[:], raw)
	return done == len(raw) && string(w.buf[:n]) == word
}
