package request

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// corpus makes the body of a chat of about size bytes out of one kind of text: turns
// of about a KiB, as conversations have.
func corpus(kind string, size int) []byte {
	var text string
	switch kind {
	case "ascii":
		text = "The quick brown fox jumps over the lazy dog, and then it asks what an inference engine is for. "
	case "code":
		text = "func (r *Reader) Read(path string) error {\n\tif path == \"\" {\n\t\treturn fmt.Errorf(\"no \\\"path\\\" given: %q\", path)\n\t}\n\treturn nil // done\n}\n"
	case "cjk":
		text = "什么是推理引擎？它把提示变成词元，😀然后一个接一个地生成答案。请用三句话解释一下缓存是如何工作的🚀。\n"
	}
	turn := strings.Repeat(text, 1024/len(text)+1)
	var b bytes.Buffer
	b.WriteString(`{"model":"llama-3.1-70b","stream":true,"temperature":0.7,"messages":[{"role":"system","content":"You are helpful."}`)
	for i := 0; ; i++ {
		quoted, _ := json.Marshal(turn)
		if kind != "code" {
			quoted = bytes.ReplaceAll(quoted, []byte(`\u0026`), []byte(`&`))
		}
		if room := size - b.Len() - 40; room < len(quoted) {
			quoted, _ = json.Marshal(strings.ToValidUTF8(turn[:max(0, min(room, len(turn)))/2], ""))
			fmt.Fprintf(&b, `,{"role":"user","content":%s}],"max_tokens":100}`, quoted)
			return b.Bytes()
		}
		fmt.Fprintf(&b, `,{"role":%q,"content":%s}`, [...]string{"user", "assistant"}[i%2], quoted)
	}
}

var (
	corpora = []string{"ascii", "code", "cjk"}
	sizes   = []struct {
		name string
		n    int
	}{{"4KiB", 4 << 10}, {"32KiB", 32 << 10}, {"220KiB", 220 << 10}, {"4MiB", 4 << 20}}
)

func BenchmarkRead(b *testing.B) {
	for _, kind := range corpora {
		for _, size := range sizes {
			body := corpus(kind, size.n)
			b.Run(kind+"/"+size.name, func(b *testing.B) {
				r := NewReader(DefaultOptions())
				h := header{"content-type": {"application/json"}}
				var q Request
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					if err := r.Read("/v1/chat/completions", h, body, &q); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
