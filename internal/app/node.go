package app

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxNodeID bounds a node id, in characters: it is in a header of every request.
const maxNodeID = 128

// NodeID gives the first of the names that can be the id of a replica, without the
// white space around it, or "".
func NodeID(names ...string) string {
	for _, name := range names {
		name = strings.TrimSpace(name)
		if n := utf8.RuneCountInString(name); n > 0 && n <= maxNodeID && !strings.ContainsFunc(name, unicode.IsControl) {
			return name
		}
	}
	return ""
}

// nodePart makes a node id fit for a header: every character other than
// [a-z0-9-] becomes "-".
func nodePart(id string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, id)
}
