package admin

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience bounds every wait: longer than anything takes on a loaded machine.
const patience = 30 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve serves until the test ends, and gives the address and what Serve returned.
func serve(t *testing.T, opts Options) (addr string, stop func() error) {
	t.Helper()
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.NotReady == nil {
		opts.NotReady = func() []string { return nil }
	}
	if opts.Metrics == nil {
		opts.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "series 1\n") })
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- New(opts).Serve(ctx, lis) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() { _ = stop() })
	return lis.Addr().String(), stop
}

// do gives status, body and headers.
func do(t *testing.T, method, url string) (int, string, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body), resp.Header
}

func TestPages(t *testing.T) {
	var mu sync.Mutex
	var why []string
	addr, stop := serve(t, Options{NotReady: func() []string {
		mu.Lock()
		defer mu.Unlock()
		return why
	}})
	for _, test := range []struct {
		name         string
		why          []string
		method, path string
		status       int
		body         string
	}{
		{"healthy", nil, "GET", "/healthz", 200, "ok\n"},
		{"healthy, whatever is not ready", []string{"draining"}, "GET", "/healthz", 200, "ok\n"},
		{"ready", nil, "GET", "/readyz", 200, "ok\n"},
		{"not ready", []string{"draining"}, "GET", "/readyz", 503, "draining\n"},
		{"a line for each reason", []string{"proxy: none has accepted the listener", "draining"}, "GET", "/readyz", 503,
			"proxy: none has accepted the listener\ndraining\n"},
		{"query", nil, "GET", "/readyz?verbose=1", 200, "ok\n"},
		{"HEAD", nil, "HEAD", "/healthz", 200, ""},
		{"HEAD, not ready", []string{"draining"}, "HEAD", "/readyz", 503, ""},
		{"POST", nil, "POST", "/healthz", 405, "method not allowed\n"},
		{"DELETE", nil, "DELETE", "/readyz", 405, "method not allowed\n"},
		{"OPTIONS", []string{"draining"}, "OPTIONS", "/readyz", 405, "method not allowed\n"},
		{"metrics", nil, "GET", "/metrics", 200, "series 1\n"},
		{"HEAD metrics", nil, "HEAD", "/metrics", 200, ""},
		{"POST metrics", nil, "POST", "/metrics", 405, "method not allowed\n"},
		{"elsewhere", nil, "GET", "/", 404, "404 page not found\n"},
		{"below", nil, "GET", "/healthz/x", 404, "404 page not found\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			mu.Lock()
			why = test.why
			mu.Unlock()
			status, body, header := do(t, test.method, "http://"+addr+test.path)
			if status != test.status || body != test.body {
				t.Errorf("%d %q, want %d %q", status, body, test.status, test.body)
			}
			if test.path == "/healthz" || strings.HasPrefix(test.path, "/readyz") {
				if header.Get("Cache-Control") != "no-store" || header.Get("Content-Type") != "text/plain; charset=utf-8" {
					t.Errorf("headers %v", header)
				}
			}
			if allow := header.Get("Allow"); (allow == "GET, HEAD") != (test.status == 405) {
				t.Errorf("Allow: %q", allow)
			}
		})
	}
	if err := stop(); err != nil {
		t.Errorf("ended with %v", err)
	}
	if c, err := net.Dial("tcp", addr); err == nil {
		_ = c.Close()
		t.Error("still listening")
	}
}

// The end waits for a running scrape, but not for ever.
func TestEnd(t *testing.T) {
	for _, test := range []struct {
		name    string
		release bool // the scrape can finish
	}{{"a scrape that ends", true}, {"one that does not", false}} {
		t.Run(test.name, func(t *testing.T) {
			begun, release := make(chan struct{}), make(chan struct{})
			addr, stop := serve(t, Options{Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				close(begun)
				<-release
				_, _ = io.WriteString(w, "series 1\n")
			})})
			body := make(chan string, 1)
			go func() {
				req, _ := http.NewRequestWithContext(context.WithoutCancel(t.Context()), "GET", "http://"+addr+"/metrics", nil)
				client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
				resp, err := client.Do(req)
				if err != nil {
					body <- "cut"
					return
				}
				defer resp.Body.Close()
				text, _ := io.ReadAll(resp.Body)
				body <- string(text)
			}()
			<-begun
			ended := make(chan error, 1)
			go func() { ended <- stop() }()
			want := "cut"
			if test.release {
				want = "series 1\n"
				close(release)
			}
			if got := <-body; got != want {
				t.Errorf("the scrape got %q, want %q", got, want)
			}
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("ended with %v", err)
				}
			case <-time.After(patience):
				t.Error("it does not end")
			}
			if !test.release {
				close(release)
			}
		})
	}
}

// Ended before it began.
func TestEndAtOnce(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := New(Options{Metrics: http.NotFoundHandler(), Log: slog.New(slog.DiscardHandler)}).Serve(ctx, lis); err != nil {
		t.Error(err)
	}
}

// A listener that breaks is an error.
func TestListenerBreaks(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = lis.Close()
	err = New(Options{Metrics: http.NotFoundHandler(), Log: slog.New(slog.DiscardHandler)}).Serve(t.Context(), lis)
	if !errors.Is(err, net.ErrClosed) || !strings.HasPrefix(err.Error(), "admin listener: ") {
		t.Errorf("error %v", err)
	}
}

// What goes wrong with a request is a line of our log, and headers are bounded.
func TestFaults(t *testing.T) {
	var out bytes.Buffer
	var mu sync.Mutex
	addr, stop := serve(t, Options{
		Log:     slog.New(slog.NewJSONHandler(writer(func(p []byte) { mu.Lock(); defer mu.Unlock(); out.Write(p) }), nil)),
		Metrics: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("a bug") }),
	})
	status := func(request string) string {
		t.Helper()
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(patience))
		if _, err := io.WriteString(c, request); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(c).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		return strings.TrimSpace(line)
	}
	if got := status("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"); got != "" {
		t.Errorf("a panic: %q", got)
	}
	if got := status(fmt.Sprintf("GET /healthz HTTP/1.1\r\nHost: x\r\nX: %s\r\n\r\n", strings.Repeat("y", 4*maxHeader))); !strings.Contains(got, " 431 ") {
		t.Errorf("large headers: %q", got)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if !strings.Contains(out.String(), `"level":"WARN"`) || !strings.Contains(out.String(), "a bug") {
		t.Errorf("log: %s", out.String())
	}
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}
