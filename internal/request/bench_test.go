package request

import (
	"testing"

	"github.com/pointsman/pointsman/internal/request/corpus"
)

// BenchmarkRead reads chats of three kinds and four sizes. How others do is measured in the
// module below bench.
func BenchmarkRead(b *testing.B) {
	for _, kind := range corpus.Kinds() {
		for _, size := range corpus.Sizes() {
			body := corpus.Chat(kind, size.Bytes)
			b.Run(kind+"/"+size.Name, func(b *testing.B) {
				r := NewReader(DefaultOptions())
				h := header{"content-type": {"application/json"}}
				var q Request
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					if err := r.Read(chatPath, h, body, &q); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
