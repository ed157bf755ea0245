package request

// work is what reading one body takes: the tape and everything that rendering it
// needs. It refers to the body until the end of the read and is pooled.
type work struct {
	tape   tape
	prompt prompt
	dups   dups
	room   int              // nodes that arrays may add to the tape at once
	body   [numBodyKeys]int // the tape index of each member of the body, 0 = absent

	batch     bool // the list that is rendered is one of sequences
	sequences int  // of them, so far
	tokens    []uint32
	keep      bool // the token ids are wanted in tokens

	buf  [4096]byte
	held int // bytes of buf that wait to be taken

	scratch []byte // a decoded value
	names   names
	inflate inflater
}

// field is the body's member of this name, if it has one.
func (w *work) field(k key) (node, bool) {
	if i := w.body[k]; i > 0 {
		return w.tape.nodes[i], true
	}
	return node{}, false
}

// given tells whether the body has a member of this name that is not null.
func (w *work) given(k key) bool {
	v, ok := w.field(k)
	return ok && v.kind != 'n'
}

// render renders the prompt of the body and tells whether what the API demands is
// there. It is the table of the specification, "Per API path".
func (w *work) render(a api) bool {
	switch a {
	case chatCompletions:
		messages := w.body[keyMessages]
		if !w.is(messages, '[') {
			return false
		}
		w.array(messages, items)
		return true
	case messagesAPI:
		w.system(keySystem)
		if messages := w.body[keyMessages]; w.is(messages, '[') {
			w.array(messages, items)
		}
		return true
	case responses:
		return w.responses()
	case completions:
		return w.list(keyPrompt)
	case embeddings:
		return w.list(keyInput)
	case generateTokens:
		if !w.tokenPrompt(keyTokenIDs) {
			return false
		}
		for _, k := range [...]key{keyFeatures, keyContentParts} {
			if w.given(k) {
				w.absorb(w.tape.nodes[w.body[k]], silent)
			}
		}
		return true
	case generateText:
		return w.list(keyText) || w.tokenPrompt(keyInputIDs)
	}
	return false
}

func (w *work) responses() bool {
	input := w.body[keyInput]
	if !w.is(input, '[') && !w.is(input, '"') {
		return false
	}
	w.system(keyInstructions)
	if w.is(input, '[') {
		w.array(input, items)
		return true
	}
	w.prompt.addString("user: ")
	w.string(w.tape.nodes[input], push)
	w.prompt.addString("\n")
	return true
}

// list renders a prompt: a string, or an array of strings or of token ids.
func (w *work) list(k key) bool {
	i := w.body[k]
	switch {
	case w.is(i, '"'):
		w.string(w.tape.nodes[i], push)
		return true
	case w.is(i, '['):
		if !w.tokenPrompt(k) {
			w.array(i, list)
		}
		return true
	}
	return false
}

// is tells whether the tape has a value at i (0 = absent) and its first byte is c.
func (w *work) is(i int, c byte) bool { return i > 0 && w.tape.nodes[i].kind == c }

// system is a turn of the role system, if the body has this member.
func (w *work) system(k key) {
	if w.given(k) {
		w.prompt.addString("system: ")
		w.content(w.body[k])
		w.prompt.addString("\n")
	}
}

// array renders the elements of the array at i. Elements that did not fit on the
// tape are read again, as many at once as fit.
func (w *work) array(i int, s shape) {
	end := int(w.tape.nodes[i].next)
	for i++; i < end; i = int(w.tape.nodes[i].next) {
		if w.tape.nodes[i].kind != rest {
			w.element(i, s)
			continue
		}
		mark := len(w.tape.nodes)
		at, more := int(w.tape.nodes[i].start), true
		for more {
			w.tape.nodes = w.tape.nodes[:mark]
			w.tape.full = mark + w.room
			at, more = w.tape.resume(at, s)
			read := len(w.tape.nodes)
			for j := mark; j < read; j = int(w.tape.nodes[j].next) {
				w.element(j, s)
			}
		}
		w.tape.nodes = w.tape.nodes[:mark]
	}
}

// element renders one element of an array of this shape.
func (w *work) element(i int, s shape) {
	v := w.tape.nodes[i]
	switch s {
	case items:
		w.item(i)
	case parts:
		w.part(i)
	case blocks:
		w.block(i)
	case calls:
		w.call(i)
	case list:
		switch {
		case v.kind == '"':
			w.string(v, push)
		case w.batch:
			w.sequence(v)
		}
	}
}

// members are the last members of each name in an object, as tape indexes; 0 = absent.
type members [numInnerKeys]int

func (m *members) get(k key) int { return m[k-firstInnerKey] }

// members finds those of the object at i. Anything else has none.
func (w *work) members(i int) (m members) {
	if w.tape.nodes[i].kind == '{' {
		end := int(w.tape.nodes[i].next)
		for i++; i < end; i = int(w.tape.nodes[i].next) {
			m[w.tape.nodes[i].key-firstInnerKey] = i
		}
	}
	return m
}
