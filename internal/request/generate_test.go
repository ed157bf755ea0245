package request

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// generator makes bodies that look like requests and abound in what is rare: known
// keys in odd places, duplicates, escapes, white space, values of the wrong kind.
type generator struct {
	*rand.Rand
	strings.Builder
}

var (
	generatedKeys = []string{
		"model", "stream", "cache_salt", "truncate_prompt_tokens", "extra_key", "prompt_logprobs", "features", "content_parts",
		"messages", "system", "instructions", "input", "prompt", "text", "token_ids", "input_ids", "user", "session_id", "metadata",
		"role", "content", "output", "arguments", "tool_calls", "function", "type", "user_id", "x", "y", "\u00e9", "", "Model",
	}
	generatedTypes  = []string{"tool_result", "tool_use", "text", "image_url"}
	generatedPieces = []string{
		"what is rust", " ", "\n", "什么是", "é", "😀", `"`, `\`, "\x00", "\u2028", strings.Repeat("long ", 20), "x", "/", "user: ",
	}
)

func (g *generator) pick(from []string) string { return from[g.IntN(len(from))] }

func (g *generator) space() {
	for g.IntN(6) == 0 {
		g.WriteString(g.pick([]string{" ", "\n", "\t", "\r", "          "}))
	}
}

// quoted writes a string, in one of the ways in which it can be written.
func (g *generator) quoted(s string) {
	g.WriteByte('"')
	for _, r := range s {
		switch {
		case g.IntN(12) == 0:
			g.WriteString(escapeAll(string(r)))
		case r == '"' || r == '\\':
			g.WriteByte('\\')
			g.WriteRune(r)
		case r == '\n':
			g.WriteString(`\n`)
		case r < ' ':
			fmt.Fprintf(g, `\u%04x`, r)
		default:
			g.WriteRune(r)
		}
	}
	g.WriteByte('"')
}

func (g *generator) text() {
	var s strings.Builder
	for range g.IntN(5) {
		s.WriteString(g.pick(generatedPieces))
	}
	g.quoted(s.String())
	if g.IntN(20) == 0 { // what is no character, in front of the closing quote
		body := strings.TrimSuffix(g.String(), `"`)
		g.Reset()
		g.WriteString(body + g.pick([]string{`\ud83d`, `\udc00`, "\xff", "\xe4\xbd", `\ud83d\ud83d\ude00`, "\xed\xa0\x80", "\xe0\x80\x80", "\xf4\x90\x80\x80"}) + `"`)
	}
}

func (g *generator) sequence(n int, element func()) {
	g.WriteByte('[')
	g.space()
	for i := range n {
		if i > 0 {
			g.WriteByte(',')
			g.space()
		}
		element()
		g.space()
	}
	g.WriteByte(']')
}

func (g *generator) object(n int, member func() (string, func())) {
	g.WriteByte('{')
	g.space()
	for i := range n {
		if i > 0 {
			g.WriteByte(',')
			g.space()
		}
		key, value := member()
		g.quoted(key)
		g.space()
		g.WriteByte(':')
		g.space()
		value()
		g.space()
	}
	g.WriteByte('}')
}

func (g *generator) number() {
	g.WriteString(g.pick([]string{"0", "7", "4294967295", "4294967296", "-1", "-0", "1.0", "1e2", "12345678901234567890", "42"}))
}

// any writes a value of any kind.
func (g *generator) any(depth int) {
	kind := g.IntN(8)
	if depth > 5 {
		kind %= 4
	}
	switch kind {
	case 0:
		g.number()
	case 1:
		g.WriteString(g.pick([]string{"true", "false", "null"}))
	case 2, 3:
		g.text()
	case 4, 5:
		g.sequence(g.IntN(4), func() { g.any(depth + 1) })
	default:
		g.members(depth, g.IntN(12))
	}
}

// members writes an object of known and unknown keys.
func (g *generator) members(depth, n int) {
	g.object(n, func() (string, func()) {
		key := g.pick(generatedKeys)
		return key, func() { g.value(key, depth+1) }
	})
}

// value writes what belongs behind a key, mostly.
func (g *generator) value(key string, depth int) {
	if g.IntN(6) == 0 || depth > 6 {
		g.any(depth)
		return
	}
	switch key {
	case "messages", "input", "content", "tool_calls", "system":
		if g.IntN(4) == 0 {
			g.text()
			return
		}
		g.sequence(g.IntN(5), func() {
			if g.IntN(5) == 0 {
				g.any(depth + 1)
				return
			}
			keys := []string{"role", "content", "output", "arguments", "tool_calls", "type", "text", "input", "function", "x"}
			g.object(g.IntN(6), func() (string, func()) {
				key := g.pick(keys)
				return key, func() { g.value(key, depth+1) }
			})
		})
	case "prompt", "token_ids", "input_ids", "text":
		switch g.IntN(4) {
		case 0:
			g.text()
		case 1:
			g.sequence(g.IntN(5), g.number)
		case 2:
			g.sequence(g.IntN(4), func() { g.sequence(g.IntN(4), func() { fmt.Fprint(g, g.IntN(1000)) }) })
		default:
			g.sequence(g.IntN(5), func() { fmt.Fprint(g, g.Uint32()) })
		}
	case "type":
		g.quoted(g.pick(generatedTypes))
	case "function", "metadata":
		g.members(depth, g.IntN(4))
	case "role", "arguments", "output", "user", "session_id", "user_id", "instructions", "model":
		g.text()
	default:
		g.any(depth)
	}
}

// generate makes a body; equal seeds make equal bodies.
func generate(seed uint64) []byte {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 1))}
	if g.IntN(10) == 0 {
		g.WriteString(bom)
	}
	g.space()
	g.members(0, 2+g.IntN(20))
	g.space()
	return []byte(g.String())
}
