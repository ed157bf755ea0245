package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxShown is how many bytes of a value or key from the file a message repeats.
const maxShown = 60

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,60}$`)

// shownKey makes a key fit for a field's path.
func shownKey(key string) string {
	if plainKey.MatchString(key) {
		return key
	}
	return quote(key)
}

// quote shows a value from the file, cut to a length that fits a line.
func quote(s string) string { return fmt.Sprintf("%q", cut(s)) }

func cut(s string) string {
	if len(s) <= maxShown {
		return s
	}
	return strings.ToValidUTF8(s[:maxShown], "") + "..."
}

// describe names what a node is.
func describe(n *yaml.Node) string {
	switch n.ShortTag() {
	case "!!map":
		return "a mapping"
	case "!!seq":
		return "a list"
	case "!!null":
		return "null"
	case "!!str", "!!timestamp":
		return "the text " + quote(n.Value)
	case "!!int", "!!float":
		return "the number " + cut(n.Value)
	case "!!bool":
		return cut(n.Value)
	}
	return "a value with the tag " + quote(n.ShortTag())
}

// listed joins names for a message, the first few of them when they are many.
func listed(names []string) string {
	const most = 20
	if len(names) == 0 {
		return "none"
	}
	shown := slices.Clone(names[:min(len(names), most)])
	for i := range shown {
		shown[i] = cut(shown[i])
	}
	s := strings.Join(shown, ", ")
	if len(names) > most {
		s += ", ..."
	}
	return s
}

// nearest gives the candidate that was most likely meant by word, or "" when none is close.
func nearest(word string, candidates []string) string {
	if len(word) > maxShown {
		return ""
	}
	fold := func(s string) string { return strings.NewReplacer("-", "_", " ", "_").Replace(strings.ToLower(s)) }
	plain := fold(word)
	best, bestDistance := "", len(word)/4+2
	for _, c := range candidates {
		if len(c) > 2*maxShown {
			continue
		}
		folded := fold(c)
		d := distance(plain, folded)
		if len(plain) > 2 && len(folded) > 2 && (strings.HasPrefix(plain, folded) || strings.HasPrefix(folded, plain)) {
			d = min(d, 1) // as warning is to warn
		}
		if d < bestDistance && d < len(c) {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance is the number of insertions, deletions, substitutions and swaps of
// neighbours that make b of a (optimal string alignment).
func distance(a, b string) int {
	prev2, prev, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], prev2[j-2]+1)
			}
		}
		prev2, prev, row = prev, row, prev2
	}
	return prev[len(b)]
}
