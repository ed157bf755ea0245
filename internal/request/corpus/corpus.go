// Package corpus makes bodies of chat requests to measure with: conversations of
// turns of about a KiB, out of plain ASCII, of code or of Chinese with emoji.
//
// It is used by benchmarks only and not by the program.
package corpus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// turnSize is the length of the text of one turn before quoting, in bytes.
const turnSize = 1 << 10

// texts are what turns are made of, repeated.
var texts = map[string]string{
	"ascii": "The quick brown fox jumps over the lazy dog, and then it asks what an inference engine is for. ",
	"code": "func (r *Reader) Read(path string) error {\n\tif path == \"\" {\n\t\treturn fmt.Errorf(\"no \\\"path\\\" given: %q\", path)\n" +
		"\t}\n\treturn nil // done\n}\n",
	"chinese": "什么是推理引擎？它把提示变成词元，😀然后一个接一个地生成答案。请用三句话解释一下缓存是如何工作的🚀。\n",
}

// Kinds are the texts there are, in the order of reports.
func Kinds() []string { return []string{"ascii", "code", "chinese"} }

// Size is a length of body to measure.
type Size struct {
	Name  string
	Bytes int
}

// Sizes are the lengths there are.
func Sizes() []Size {
	return []Size{{"4KiB", 4 << 10}, {"32KiB", 32 << 10}, {"220KiB", 220 << 10}, {"4MiB", 4 << 20}}
}

// Chat is the body of a chat of this kind, of this many bytes (at least 4 KiB).
func Chat(kind string, size int) []byte {
	text := texts[kind]
	turn := quote(strings.Repeat(text, turnSize/len(text)+1))
	const end = `"}],"max_tokens":100}`
	var b bytes.Buffer
	b.WriteString(`{"model":"llama-3.1-70b","stream":true,"temperature":0.7,"messages":[{"role":"system","content":"You are helpful."}`)
	for i := 0; ; i++ {
		head := fmt.Sprintf(`,{"role":%q,"content":"`, [...]string{"user", "assistant"}[i%2])
		room := size - b.Len() - len(head) - len(end)
		b.WriteString(head)
		if room < len(turn)+len(`"}`)+len(head)+1 { // the last turn, so short that it does not end in an escape
			cut := min(room, len(turn))
			for cut > 0 && (turn[cut-1] >= 0x80 || turn[cut-1] == '\\' || strings.HasSuffix(turn[:cut-1], `\`)) {
				cut--
			}
			b.WriteString(turn[:cut])
			b.WriteString(strings.Repeat("x", room-cut))
			b.WriteString(end)
			return b.Bytes()
		}
		b.WriteString(turn)
		b.WriteString(`"}`)
	}
}

// quote is s as it stands between the quotes of a JSON string.
func quote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err) // a string always encodes
	}
	return strings.TrimSuffix(strings.TrimPrefix(b.String(), `"`), "\"\n")
}
