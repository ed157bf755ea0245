package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

const byteOrderMark = "\uFEFF"

// parseTree turns text into the node that a configuration is decoded from. It
// gives nil after telling why it cannot.
func parseTree(data []byte, faults *collector) *yaml.Node {
	if len(data) > maxFileBytes {
		faults.add(1, "", "larger than %d MiB: not a configuration", maxFileBytes>>20)
		return nil
	}
	data = bytes.TrimPrefix(data, []byte(byteOrderMark))
	if line, msg := badText(data); line > 0 {
		faults.add(line, "", "%s", msg)
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	first, err := nextDocument(dec)
	switch {
	case errors.Is(err, io.EOF):
		faults.add(1, "", "empty: a configuration has at least one provider")
		return nil
	case err != nil:
		line, msg := syntaxError(err, data)
		faults.add(line, "", "%s", msg)
		return nil
	}
	second, err := nextDocument(dec)
	switch {
	case err == nil:
		faults.add(second.Line, "", "a second YAML document begins here: a configuration is one document")
	case !errors.Is(err, io.EOF):
		line, msg := syntaxError(err, data)
		faults.add(line, "", "%s", msg)
	}
	return first.Content[0]
}

// badText finds what no YAML may contain, which the library reports without a
// line: bytes that are not UTF-8, and control characters.
func badText(data []byte) (line int, msg string) {
	line = 1
	for len(data) > 0 {
		r, n := utf8.DecodeRune(data)
		switch {
		case r == utf8.RuneError && n == 1:
			return line, fmt.Sprintf("not UTF-8 text: byte 0x%02x", data[0])
		case r == '\n', r == '\r' && !bytes.HasPrefix(data, []byte("\r\n")):
			line++
		case r == '\t', r == '\r', r == 0x85:
		case r < ' ', r >= 0x7f && r < 0xa0, r == 0xfeff, r == 0xfffe, r == 0xffff:
			return line, fmt.Sprintf("control character U+%04X", r)
		}
		data = data[n:]
	}
	return 0, ""
}

// nextDocument gives the next document node, or io.EOF. The library is known to
// have panicked on odd input; a file must never end the process that reloads it.
func nextDocument(dec *yaml.Decoder) (n *yaml.Node, err error) {
	defer func() {
		if r := recover(); r != nil {
			n, err = nil, fmt.Errorf("yaml: cannot be parsed: %v", r)
		}
	}()
	n = &yaml.Node{}
	if err := dec.Decode(n); err != nil {
		return nil, err
	}
	return n, nil
}

var (
	syntaxLine    = regexp.MustCompile(`^line (\d+): `)
	unknownAnchor = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
	// parserMessage matches errors of the library's parser, as opposed to its scanner:
	// their lines count from 0.
	parserMessage = regexp.MustCompile(`^did not find expected (<|node content|'-' indicator|key|',' or)`)
)

// syntaxError finds the line and the message in an error of the library.
func syntaxError(err error, data []byte) (line int, msg string) {
	msg = strings.TrimPrefix(err.Error(), "yaml: ")
	if m := syntaxLine.FindStringSubmatch(msg); m != nil {
		line, _ = strconv.Atoi(m[1])
		msg = msg[len(m[0]):]
	}
	if parserMessage.MatchString(msg) {
		line++
	}
	if m := unknownAnchor.FindStringSubmatch(msg); m != nil {
		if i := bytes.Index(data, []byte("*"+m[1])); i >= 0 {
			line = 1 + bytes.Count(data[:i], []byte("\n"))
		}
	}
	line = max(line, 1)
	if tabIndented(data, line) {
		msg = "indented with a tab: YAML wants spaces"
	}
	return line, "YAML syntax: " + msg
}

// tabIndented tells whether that line begins with white space that holds a tab.
func tabIndented(data []byte, line int) bool {
	for range line - 1 {
		_, after, ok := bytes.Cut(data, []byte("\n"))
		if !ok {
			return false
		}
		data = after
	}
	text, _, _ := bytes.Cut(data, []byte("\n"))
	indent := text[:len(text)-len(bytes.TrimLeft(text, " \t"))]
	return bytes.ContainsRune(indent, '\t')
}
