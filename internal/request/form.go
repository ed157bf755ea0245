package request

import (
	"bytes"
	"mime"
	"strings"
)

// formWindow is how far into a form its model field is looked for, in bytes.
const formWindow = 1 << 20

// contentType is what the Content-Type says about how a body is read.
type contentType uint8

const (
	otherType contentType = iota
	jsonType
	formType
)

// contentTypeOf reads the Content-Type. A body without one is JSON.
func contentTypeOf(value string) contentType {
	name, _, _ := strings.Cut(value, ";")
	name = strings.TrimSpace(name)
	switch {
	case name == "" || strings.EqualFold(name, "application/json") || strings.EqualFold(name, "text/json"):
		return jsonType
	case strings.EqualFold(name, "multipart/form-data"):
		return formType
	case len(name) > len("+json") && strings.EqualFold(name[len(name)-len("+json"):], "+json"):
		return jsonType
	}
	return otherType
}

// appendFormModels appends the places of the values of all form fields named
// model that lie in the window. A value without a delimiter behind it is none.
func appendFormModels(dst []Span, body []byte, contentType string) []Span {
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil || params["boundary"] == "" {
		return dst
	}
	f := form{body: body, delimiter: []byte("--" + params["boundary"])}
	const delimiterRoom = 128 // what may lie outside of the window: a delimiter with its line ends
	if len(f.body) > formWindow+delimiterRoom {
		f.body = f.body[:formWindow+delimiterRoom]
	}
	_, i, more := f.next(0)
	for more {
		var named bool
		if i, named = f.header(i, "model"); i < 0 {
			break
		}
		start := i
		var end int
		if end, i, more = f.next(start); end < 0 || end > formWindow {
			break
		}
		if named {
			dst = append(dst, Span{start, end - start})
		}
	}
	return dst
}

// form is a walk over the parts of a multipart body.
type form struct {
	body      []byte
	delimiter []byte // with its leading dashes
}

// next finds the first delimiter line from i on: where the content before it ends
// (-1 = there is no such line), what follows it, and whether that is a part.
func (f form) next(i int) (end, after int, more bool) {
	start := i
	for {
		n := bytes.Index(f.body[i:], f.delimiter)
		if n < 0 {
			return -1, 0, false
		}
		end = i + n
		i = end + len(f.delimiter)
		if end > 0 && f.body[end-1] != '\n' {
			continue
		}
		if end > start && f.body[end-1] == '\n' {
			if end--; end > start && f.body[end-1] == '\r' {
				end--
			}
		}
		if bytes.HasPrefix(f.body[i:], []byte("--")) {
			return end, i + 2, false
		}
		after = i
		for c := at(f.body, after); c == ' ' || c == '\t' || c == '\r'; c = at(f.body, after) {
			after++
		}
		if at(f.body, after) == '\n' {
			return end, after + 1, true
		}
	}
}

// header reads a part's header: where its content begins (-1 = nowhere), and
// whether it is a field of this name and no file.
func (f form) header(i int, name string) (content int, named bool) {
	for {
		n := bytes.IndexByte(f.body[i:], '\n')
		if n < 0 {
			return -1, false
		}
		line := bytes.TrimSuffix(f.body[i:i+n], []byte("\r"))
		i += n + 1
		if len(line) == 0 {
			return i, named
		}
		key, value, _ := bytes.Cut(line, []byte(":"))
		if bytes.EqualFold(key, []byte("content-disposition")) && bytes.Contains(value, []byte(name)) {
			_, params, err := mime.ParseMediaType(string(value))
			_, file := params["filename"]
			named = err == nil && params["name"] == name && !file
		}
	}
}
