package envoy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/pointsman/pointsman/envoy/envoytest"
	"github.com/pointsman/pointsman/internal/config"
	"github.com/pointsman/pointsman/internal/wire"
)

// BenchmarkChain measures Envoy's CPU per request, of which the chains differ: none, the
// headers of credentials, with path and length, and with another model in the body.
func BenchmarkChain(b *testing.B) {
	for _, chain := range []string{"none", "keys", "rewrite", "splice"} {
		for _, size := range []int{4 << 10, 32 << 10, 220 << 10} {
			b.Run(fmt.Sprintf("%s/%dKiB", chain, size>>10), func(b *testing.B) { benchChain(b, chain, size) })
		}
	}
}

func benchChain(b *testing.B, chain string, size int) {
	socket := envoytest.SocketPath(b)
	cfg := realConfig(b, socket, "good")
	cfg.Limits.Body = 32 << 20
	switch chain {
	case "keys":
		cfg.Providers[0].Credentials = config.Credentials{Passthrough: true}
	case "rewrite", "splice":
		cfg.Providers[0].Prefix = "/x"
	}
	startStub(b, socket)
	e := envoytest.Start(b, staticBootstrap(b, cfg))
	addr := e.Listener(wire.ListenerName)

	body := append([]byte(`{"model":"asked","text":"`), bytes.Repeat([]byte("x"), size)...)
	body = append(body, `"}`...)
	meta := map[string]any{wire.KeyAuthorization: "Bearer x"}
	if chain == "splice" {
		meta[wire.KeySpans], meta[wire.KeyAsked] = [][]int{{9, 7}}, "asked"
	}
	raw, err := json.Marshal(meta)
	if err != nil {
		b.Fatal(err)
	}
	ask := func() error {
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "http://"+addr+"/v1/completions", bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set(headerList, clusters("good"))
		req.Header.Set(headerMeta, string(raw))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d, %w", resp.StatusCode, err)
		}
		return nil
	}
	for range 50 { // connections, and Lua's first look at the script
		if err := ask(); err != nil {
			b.Fatal(err)
		}
	}
	before := e.CPU()
	n := 0
	for b.Loop() {
		if err := ask(); err != nil {
			b.Fatal(err)
		}
		n++
	}
	b.ReportMetric(float64((e.CPU()-before).Microseconds())/float64(n), "envoy-µs/req")
}
