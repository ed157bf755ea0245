package enginesim

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The engine's own work for one request, as benchmarks of the proxy see it. Contents
// without escapes are read once, not twice: best of six runs at 32 KiB, alternating on a busy
// machine, 501 us before and 215 us after.
func BenchmarkInstant(b *testing.B) {
	for name, size := range map[string]int{"4KiB": 4 << 10, "32KiB": 32 << 10} {
		b.Run(name, func(b *testing.B) {
			e, err := New(Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			body := chatBody(strings.Repeat("some words ", size/11), 16, true)
			b.ReportAllocs()
			for b.Loop() {
				w := httptest.NewRecorder()
				e.ServeHTTP(w, httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader(body)))
			}
		})
	}
}
