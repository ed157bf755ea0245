package enginesim

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The engine's own work for one request, as benchmarks of the proxy see it.
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
