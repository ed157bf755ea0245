package e2e

import (
	"context"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// relay stands between Envoy and pointsman's socket. It can refuse the access-log
// stream alone, which shares its connection with ext_proc and xDS.
type relay struct {
	path   string
	refuse atomic.Bool

	mu   sync.Mutex
	logs map[int]context.CancelFunc // running log streams
	next int
}

func newRelay(t testing.TB, target string) *relay {
	t.Helper()
	r := &relay{path: filepath.Join(filepath.Dir(target), "relay.sock"), logs: make(map[int]context.CancelFunc)}
	lis, err := net.Listen("unix", r.path)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: "http", Host: "pointsman"})
			p.Out.Header["Te"] = []string{"trailers"} // hop by hop, but gRPC wants it
		},
		FlushInterval: -1,
		Transport: &http.Transport{Protocols: plainHTTP2(), DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", target)
		}},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusServiceUnavailable) },
	}
	server := &http.Server{ReadHeaderTimeout: patience, Protocols: plainHTTP2(), HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 1 << 20}, Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if strings.HasSuffix(req.URL.Path, "/StreamAccessLogs") {
			if r.refuse.Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			ctx, cancel := context.WithCancel(req.Context())
			defer r.track(cancel)()
			req = req.WithContext(ctx)
		}
		proxy.ServeHTTP(w, req)
	})}
	go func() { _ = server.Serve(lis) }()
	t.Cleanup(func() { _ = server.Close() })
	return r
}

func (r *relay) track(cancel context.CancelFunc) (untrack func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := r.next
	r.next++
	r.logs[id] = cancel
	return func() {
		cancel()
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.logs, id)
	}
}

// cut ends the running log streams.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, cancel := range r.logs {
		cancel()
	}
}
