package envoy_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	logdatav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pointsman/pointsman/envoy"
	"github.com/pointsman/pointsman/envoy/envoytest"
	"github.com/pointsman/pointsman/internal/config"
	"github.com/pointsman/pointsman/internal/wire"
)

const (
	testBodyLimit = 128 << 10
	testIdle      = time.Second
	testClient    = time.Second
	readLimit     = 20 * time.Second
)

// staticBootstrap is the bootstrap with the resources written out in it, so that
// Envoy can validate and run them without an xDS server.
func staticBootstrap(t testing.TB, cfg *config.Config) []byte {
	t.Helper()
	text, err := envoy.Bootstrap(cfg)
	if err != nil {
		t.Fatal(err)
	}
	res, err := envoy.Build(cfg, upstreams(cfg))
	if err != nil {
		t.Fatal(err)
	}
	b := envoytest.ParseBootstrap(t, text)
	b.DynamicResources = nil
	for _, c := range res.Clusters {
		b.StaticResources.Clusters = append(b.StaticResources.Clusters, c)
	}
	l := proto.Clone(res.Listener).(*listenerv3.Listener)
	filter := l.FilterChains[0].Filters[0]
	hcm := connectionManager(t, res)
	hcm.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: res.Route}
	packed, err := anypb.New(hcm)
	if err != nil {
		t.Fatal(err)
	}
	filter.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: packed}
	b.StaticResources.Listeners = append(b.StaticResources.Listeners, l)
	raw, err := protojson.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// engine answers as its target's id says. It names what it saw in its headers.
func engine(t testing.TB, id string) string {
	t.Helper()
	if id == "refused" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return l.Addr().String()
	}
	gone := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		h := w.Header()
		h.Set("saw-host", r.Host)
		h.Set("saw-bytes", strconv.FormatInt(n, 10))
		h.Set("saw-attempt", r.Header.Get(wire.HeaderAttemptCount))
		h.Set("saw-cluster", r.Header.Get(wire.HeaderCluster))
		h.Set("saw-authorization", r.Header.Get("authorization"))
		h.Set(wire.HeaderServedTarget, "forged")
		wait := func(d time.Duration) {
			w.(http.Flusher).Flush()
			select {
			case <-time.After(d):
			case <-r.Context().Done():
			case <-gone:
			}
		}
		kind, status, _ := strings.Cut(id, "-")
		switch kind {
		case "status":
			code, _ := strconv.Atoi(status)
			h.Set("retry-after", "9")
			w.WriteHeader(code)
			fmt.Fprintf(w, "own %d", code)
		case "limited": // the header by which an Envoy upstream forbids retries
			h.Set("x-envoy-ratelimited", "true")
			h.Set("x-envoy-overloaded", "true")
			w.WriteHeader(http.StatusTooManyRequests)
		case "reset":
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				conn.Close()
			}
		case "silent":
			select {
			case <-r.Context().Done():
			case <-gone:
			}
		case "stream": // longer than every limit, never silent for as long
			for i := range 8 {
				fmt.Fprintf(w, "data: %d\n\n", i)
				wait(testIdle / 2)
			}
		case "hang": // after its headers
			code, _ := strconv.Atoi(status)
			w.WriteHeader(code)
			wait(readLimit)
		case "stall":
			fmt.Fprint(w, "data: 0\n\n")
			wait(readLimit)
		case "server":
			h.Set("server", "engine")
			fmt.Fprint(w, "good")
		default:
			fmt.Fprint(w, "good")
		}
	}))
	t.Cleanup(func() {
		close(gone)
		s.CloseClientConnections()
		s.Close()
	})
	return strings.TrimPrefix(s.URL, "http://")
}

func realConfig(t testing.TB, socket string, ids ...string) *config.Config {
	cfg := testConfig()
	cfg.Envoy.Listener, cfg.Envoy.Admin = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Listen.GRPC = config.Address{Network: "unix", Addr: socket}
	cfg.Providers, cfg.Routes = nil, nil
	for i, id := range ids {
		addr := engine(t, id)
		cfg.Providers = append(cfg.Providers, config.Provider{Name: id, Slug: id, Host: "host-of-" + id, Addr: addr})
		cfg.Routes = append(cfg.Routes, config.Route{Model: id, Targets: []config.Target{
			{Provider: id, Model: "model-of-" + id, ID: id, ProviderIndex: i, Weight: 1},
		}})
	}
	cfg.Timeouts = config.Timeouts{Connect: time.Second, Idle: testIdle, Client: testClient}
	cfg.Limits.Body = testBodyLimit
	cfg.Retry.BaseBackoff, cfg.Retry.MaxBackoff = 10*time.Millisecond, 50*time.Millisecond
	return cfg
}

// call makes one request over a connection of its own and reads it to its end.
// A response with an error is one that was cut.
func call(t *testing.T, addr, path string, body io.Reader, header ...string) (*http.Response, string, error) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+path, body)
	if err != nil {
		return nil, "", err
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: readLimit}
	resp, err := client.Do(req)
	if err != nil {
		return &http.Response{Header: http.Header{}}, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp, string(text), err
}

func clusters(ids ...string) string {
	for i := range ids {
		ids[i] = wire.ClusterName(ids[i])
	}
	return strings.Join(ids, " ")
}

// together runs tests that mostly wait side by side, however few cores there are.
func together(t *testing.T, tests map[string]func(t *testing.T)) {
	t.Helper()
	var wg sync.WaitGroup
	for name, test := range tests {
		wg.Go(func() { t.Run(name, test) })
	}
	wg.Wait()
}

// wantError checks status, type and body of an error of the table.
func wantError(t *testing.T, resp *http.Response, body string, want wire.Error, d wire.Dialect) {
	t.Helper()
	var got struct {
		Error struct{ Message string }
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Errorf("status %d, body %q: %v", resp.StatusCode, body, err)
		return
	}
	if resp.StatusCode != want.Status || resp.Header.Get("content-type") != "application/json" {
		t.Errorf("got %d %s, want %d", resp.StatusCode, resp.Header.Get("content-type"), want.Status)
	}
	if body != string(want.Body(d, got.Error.Message)) {
		t.Errorf("body %s, want that of %s in dialect %d", body, want.Code, d)
	}
}

// TestRealEnvoy runs the configuration on Envoy, with a stub that decides as the
// client's headers say.
func TestRealEnvoy(t *testing.T) {
	ids := []string{
		"good", "server", "reset", "silent", "refused", "stream", "stall", "limited", "hang-200", "hang-400",
		"status-400", "status-401", "status-404", "status-408", "status-409", "status-425", "status-429",
		"status-500", "status-501", "status-503", "status-529", "status-599",
	}
	socket := envoytest.SocketPath(t)
	cfg := realConfig(t, socket, ids...)
	bootstrap := staticBootstrap(t, cfg)
	if err := envoytest.Validate(t, bootstrap); err != nil {
		t.Fatal(err)
	}
	s := startStub(t, socket)
	addr := envoytest.Start(t, bootstrap).Listener(wire.ListenerName)

	t.Run("served", func(t *testing.T) {
		tests := map[string]func(t *testing.T){}
		for name, c := range map[string]struct {
			list    []string
			want    string // id of the target that serves
			status  int
			body    string
			attempt int
		}{
			"first":       {[]string{"good"}, "good", 200, "good", 1},
			"case 377":    {[]string{"status-503", "reset", "good"}, "good", 200, "good", 3},
			"refused":     {[]string{"refused", "good"}, "good", 200, "good", 2},
			"silent":      {[]string{"silent", "good"}, "good", 200, "good", 2},
			"case 379":    {[]string{"reset", "status-503"}, "status-503", 503, "own 503", 2},
			"case 387":    {[]string{"limited", "good"}, "good", 200, "good", 2},
			"case 388a":   {[]string{"status-408", "status-429", "status-500", "good"}, "good", 200, "good", 4},
			"case 388b":   {[]string{"status-501", "status-529", "status-599", "good"}, "good", 200, "good", 4},
			"case 388c":   {[]string{"status-400", "good"}, "status-400", 400, "own 400", 1},
			"case 388d":   {[]string{"status-401", "good"}, "status-401", 401, "own 401", 1},
			"case 388e":   {[]string{"status-404", "good"}, "status-404", 404, "own 404", 1},
			"case 388f":   {[]string{"status-409", "good"}, "status-409", 409, "own 409", 1},
			"case 388g":   {[]string{"status-425", "good"}, "status-425", 425, "own 425", 1},
			"end of list": {[]string{"status-503", "status-500"}, "status-500", 500, "own 500", 2},
		} {
			tests[name] = func(t *testing.T) {
				resp, body, err := call(t, addr, "/v1/chat/completions", strings.NewReader("{}"),
					headerList, clusters(c.list...),
					wire.HeaderCluster, "pm|forged", wire.HeaderMaxRetries, "9", "authorization", "secret")
				if err != nil {
					t.Fatal(err)
				}
				if resp.StatusCode != c.status || body != c.body {
					t.Errorf("got %d %q, want %d %q", resp.StatusCode, body, c.status, c.body)
				}
				for h, want := range map[string]string{
					wire.HeaderServedTarget:   c.want,
					wire.HeaderServedProvider: c.want,
					wire.HeaderServedModel:    "model-of-" + c.want,
					wire.HeaderServedAttempts: strconv.Itoa(c.attempt),
					wire.HeaderServedVariant:  "",
					"saw-host":                "host-of-" + c.want,
					"saw-attempt":             strconv.Itoa(c.attempt),
					"saw-bytes":               "2",
					"saw-cluster":             "",
					"saw-authorization":       "",
				} {
					if got := resp.Header.Values(h); strings.Join(got, ",") != want {
						t.Errorf("%s: %q, want %q", h, got, want)
					}
				}
				if c.status == 503 && resp.Header.Get("retry-after") != "9" {
					t.Error("the upstream's Retry-After is gone")
				}
			}
		}
		together(t, tests)
	})

	// Case 378, and what no engine answered.
	t.Run("local replies", func(t *testing.T) {
		big := strings.Repeat("x", testBodyLimit+1)
		tests := map[string]func(t *testing.T){}
		for name, c := range map[string]struct {
			list string
			body string
			want wire.Error
		}{
			"refused":              {clusters("refused"), "{}", wire.ErrUpstreamFailed},
			"silent":               {clusters("silent"), "{}", wire.ErrUpstreamTimeout},
			"silent, then refused": {clusters("silent", "refused"), "{}", wire.ErrUpstreamFailed},
			"refused, then silent": {clusters("refused", "silent"), "{}", wire.ErrUpstreamTimeout},
			"503, then reset":      {clusters("status-503", "reset"), "{}", wire.ErrUpstreamFailed},
			"no host":              {wire.ClusterNone, "{}", wire.ErrNoTarget},
			"unknown cluster":      {clusters("unknown"), "{}", wire.ErrNoTarget},
			"case 381":             {clusters("good"), big, wire.ErrBodyTooLarge},
		} {
			for path, d := range map[string]wire.Dialect{
				"/v1/chat/completions":                       wire.OpenAI,
				"/v1/messages?beta=true":                     wire.Anthropic,
				"/prefix/v1/messages/count_tokens":           wire.Anthropic,
				"/v1/messages/render":                        wire.Anthropic,
				"/v1/messages_of_another_kind/chat?x=/v1/me": wire.OpenAI,
			} {
				tests[name+path] = func(t *testing.T) {
					resp, body, err := call(t, addr, path, strings.NewReader(c.body), headerList, c.list)
					if err != nil {
						t.Fatal(err)
					}
					wantError(t, resp, body, c.want, d)
				}
			}
		}
		together(t, tests)
	})

	t.Run("our own answers pass untouched", func(t *testing.T) {
		resp, body, err := call(t, addr, "/v1/chat/completions", strings.NewReader("{}"))
		if err != nil || resp.StatusCode != 404 || body != `{"own":"answer"}` {
			t.Errorf("got %d %q %v", resp.StatusCode, body, err)
		}
	})

	t.Run("server header of an engine", func(t *testing.T) {
		resp, _, _ := call(t, addr, "/", strings.NewReader("{}"), headerList, clusters("server"))
		if got := resp.Header.Get("server"); got != "engine" {
			t.Errorf("server: %q", got)
		}
	})

	// Case 381 and report 021: the limit itself passes, with a length and chunked, and a failed
	// attempt does not cost the body. The connection's smaller buffer does not matter.
	t.Run("body at the limit", func(t *testing.T) {
		for _, n := range []int{32768, 32769, testBodyLimit} {
			for _, chunked := range []bool{false, true} {
				var body io.Reader = bytes.NewReader(make([]byte, n))
				if chunked {
					body = io.MultiReader(body)
				}
				resp, _, err := call(t, addr, "/v1/chat/completions", body, headerList, clusters("status-503", "good"))
				if err != nil || resp.StatusCode != 200 || resp.Header.Get("saw-bytes") != strconv.Itoa(n) {
					t.Errorf("%d bytes, chunked %v: %d, saw %s, %v", n, chunked, resp.StatusCode, resp.Header.Get("saw-bytes"), err)
				}
			}
		}
		asked, _, _ := s.heard()
		resp, body, err := call(t, addr, "/", io.MultiReader(bytes.NewReader(make([]byte, testBodyLimit+1))), headerList, clusters("good"))
		if err != nil {
			t.Fatal(err)
		}
		wantError(t, resp, body, wire.ErrBodyTooLarge, wire.OpenAI)
		if now, _, _ := s.heard(); now > asked+1 {
			t.Errorf("asked %d times", now-asked)
		}
	})

	// Case 384 and report 035.
	times := func(t *testing.T) {
		together(t, map[string]func(t *testing.T){
			"stream": func(t *testing.T) {
				start := time.Now()
				_, body, err := call(t, addr, "/", strings.NewReader("{}"),
					headerList, clusters("stream"), headerHeaders, wire.HeaderPerTryTimeoutMS+"=300")
				if err != nil || strings.Count(body, "data:") != 8 {
					t.Errorf("after %v: %q %v", time.Since(start), body, err)
				}
			},
			"stalled": func(t *testing.T) {
				start := time.Now()
				_, body, err := call(t, addr, "/", strings.NewReader("{}"), headerList, clusters("stall"))
				if took := time.Since(start); err == nil || !strings.Contains(body, "data: 0") || took < testIdle || took > 5*testIdle {
					t.Errorf("after %v: %q %v", took, body, err)
				}
			},
			// With a time of the attempt to its headers Envoy gives up the attempt's idle limit, also
			// when they come; that of the whole request cuts, and only the request log knows why.
			"hangs after its headers": func(t *testing.T) {
				for _, status := range []int{200, 400} {
					id := fmt.Sprint("hang-", status)
					start := time.Now()
					resp, body, err := call(t, addr, "/", strings.NewReader("{}"),
						headerList, clusters(id), headerHeaders, wire.HeaderPerTryTimeoutMS+"=300")
					if took := time.Since(start); err == nil || resp.StatusCode != status || body != "" || took < testIdle || took > 5*testIdle {
						t.Errorf("%s: after %v: %d %q %v", id, took, resp.StatusCode, body, err)
					}
					silent := &logdatav3.ResponseFlags{StreamIdleTimeout: true}
					envoytest.Eventually(t, readLimit, "two entries", func() error {
						_, attempts, requests := s.heard()
						for _, log := range []struct {
							entries []*logdatav3.HTTPAccessLogEntry
							want    *logdatav3.ResponseFlags
						}{{attempts, nil}, {requests, silent}} {
							e := entryOf(log.entries, wire.ClusterName(id))
							if e == nil {
								return errors.New("one is missing")
							}
							if got := int(e.GetResponse().GetResponseCode().GetValue()); got != status {
								t.Errorf("%s: logged with %d", id, got)
							}
							if diff := cmp.Diff(log.want, e.GetCommonProperties().GetResponseFlags(), protocmp.Transform()); diff != "" {
								t.Errorf("%s: flags (-want +got):\n%s", id, diff)
							}
						}
						return nil
					})
				}
			},
			"per try": func(t *testing.T) {
				start := time.Now()
				resp, _, err := call(t, addr, "/", strings.NewReader("{}"),
					headerList, clusters("silent", "good"), headerHeaders, wire.HeaderPerTryTimeoutMS+"=200")
				if took := time.Since(start); err != nil || resp.StatusCode != 200 || took > testIdle {
					t.Errorf("after %v: %d %v", took, resp.StatusCode, err)
				}
			},
			"all tries": func(t *testing.T) {
				resp, body, err := call(t, addr, "/", strings.NewReader("{}"),
					headerList, clusters("silent", "good"), headerHeaders, wire.HeaderTimeoutMS+"=200")
				if err != nil {
					t.Fatal(err)
				}
				wantError(t, resp, body, wire.ErrUpstreamTimeout, wire.OpenAI)
			},
		})
	}

	together(t, map[string]func(t *testing.T){
		"time of an answer": times,
		"raw":               func(t *testing.T) { testRaw(t, addr) },
	})
	t.Run("logs", func(t *testing.T) { testLogs(t, s, addr) })
}

// entryOf gives the first entry about this cluster, nil if there is none.
func entryOf(entries []*logdatav3.HTTPAccessLogEntry, cluster string) *logdatav3.HTTPAccessLogEntry {
	for _, e := range entries {
		if e.GetCommonProperties().GetUpstreamCluster() == cluster {
			return e
		}
	}
	return nil
}

// testRaw is about what no HTTP client would send: cases 382 and 383.
func testRaw(t *testing.T, addr string) {
	good := headerList + ": " + clusters("good") + "\r\n"
	stream := headerList + ": " + clusters("stream") + "\r\n"
	tests := map[string]func(t *testing.T){}
	for name, c := range map[string]struct {
		send string
		want int
		err  *wire.Error
		says string
	}{
		"HTTP/1.0 without Host": {"POST / HTTP/1.0\r\n" + good + "content-length: 2\r\n\r\n{}", 200, nil, "good"},
		"HTTP/1.0 with Host":    {"POST / HTTP/1.0\r\nhost: h\r\n" + good + "content-length: 2\r\n\r\n{}", 200, nil, "good"},
		"HTTP/1.0 streamed":     {"POST / HTTP/1.0\r\n" + stream + "content-length: 2\r\n\r\n{}", 200, nil, "data: 0\n\ndata: 1\n\n"},
		"stalled body":          {"POST / HTTP/1.1\r\nhost: h\r\n" + good + "content-length: 2\r\n\r\n{", 408, &wire.ErrRequestTimeout, ""},
		"large headers":         {"GET / HTTP/1.1\r\nhost: h\r\nbig: " + strings.Repeat("x", 70_000) + "\r\n\r\n", 431, &wire.ErrHeadersTooLarge, ""},
		"many headers":          {"POST / HTTP/1.1\r\nhost: h\r\n" + good + manyHeaders(1000) + "connection: close\r\ncontent-length: 2\r\n\r\n{}", 200, nil, "good"},
		"junk":                  {"JUNK\r\n\r\n", 400, &wire.ErrBadRequest, ""},
		"length and chunked":    {"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n{}", 400, &wire.ErrBadRequest, ""},
		"path that is none":     {"OPTIONS * HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n", 400, &wire.ErrBadRequest, ""},
		"upgrade":               {"GET / HTTP/1.1\r\nhost: h\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n", 501, &wire.ErrNotSupported, ""},
	} {
		tests[name] = func(t *testing.T) {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(readLimit)); err != nil {
				t.Fatal(err)
			}
			// Large headers may be refused, and the connection closed, in mid-write.
			_, _ = io.WriteString(conn, c.send)
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != c.want || !strings.Contains(string(body), c.says) {
				t.Errorf("got %d %q, want %d %q", resp.StatusCode, body, c.want, c.says)
			}
			if c.err != nil {
				wantError(t, resp, string(body), *c.err, wire.OpenAI)
			}
			if strings.HasPrefix(name, "HTTP/1.0") && (resp.Proto != "HTTP/1.0" || len(resp.TransferEncoding) != 0) {
				t.Errorf("answered in %s %v", resp.Proto, resp.TransferEncoding)
			}
		}
	}
	together(t, tests)
}

func manyHeaders(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "h%d: v\r\n", i)
	}
	return b.String()
}

// testLogs reads what the two logs say about one failover, and that the request
// log keeps silent about good answers.
func testLogs(t *testing.T, s *stub, addr string) {
	const decision = "log-test"
	resp, _, err := call(t, addr, "/", strings.NewReader("{}"),
		headerList, clusters("status-503", "good"), headerHeaders, wire.HeaderDecision+"="+decision)
	if err != nil || resp.StatusCode != 200 {
		t.Fatal(resp.StatusCode, err)
	}
	var entries []*logdatav3.HTTPAccessLogEntry
	envoytest.Eventually(t, readLimit, "two entries", func() error {
		entries = nil
		_, attempts, _ := s.heard()
		for _, e := range attempts {
			if e.GetRequest().GetRequestHeaders()[wire.HeaderDecision] == decision {
				entries = append(entries, e)
			}
		}
		if len(entries) != 2 {
			return fmt.Errorf("%d entries", len(entries))
		}
		return nil
	})
	for i, e := range entries {
		id, status := "status-503", uint32(503)
		if i == 1 {
			id, status = "good", 200
		}
		if got := e.GetCommonProperties().GetUpstreamCluster(); got != wire.ClusterName(id) {
			t.Errorf("entry %d: cluster %s", i, got)
		}
		if got := e.GetResponse().GetResponseCode().GetValue(); got != status {
			t.Errorf("entry %d: status %d", i, got)
		}
		headers := e.GetRequest().GetRequestHeaders()
		if headers[wire.HeaderAttemptCount] != strconv.Itoa(i+1) {
			t.Errorf("entry %d: headers %v", i, headers)
		}
		if i == 0 && e.GetResponse().GetResponseHeaders()[wire.HeaderRetryAfter] != "9" {
			t.Errorf("entry 0: no Retry-After")
		}
		tags := e.GetCommonProperties().GetCustomTags()
		for _, tag := range []string{wire.TagFirstHeaderUS, wire.TagFirstBodyUS, wire.TagTotalUS} {
			if _, err := strconv.Atoi(tags[tag]); i == 1 && err != nil {
				t.Errorf("entry 1: %s: %v", tag, err)
			}
		}
	}
	_, _, requests := s.heard()
	for _, e := range requests {
		code, flagged := e.GetResponse().GetResponseCode().GetValue(), e.GetCommonProperties().GetResponseFlags() != nil
		if code == 200 && !flagged {
			t.Errorf("an entry of the request log for a good answer: %v", e)
		}
	}
}

// TestRealEnvoyWithoutPointsman is what clients see while pointsman is away.
func TestRealEnvoyWithoutPointsman(t *testing.T) {
	cfg := realConfig(t, envoytest.SocketPath(t), "good")
	addr := envoytest.Start(t, staticBootstrap(t, cfg)).Listener(wire.ListenerName)
	for path, d := range map[string]wire.Dialect{"/v1/completions": wire.OpenAI, "/v1/messages": wire.Anthropic} {
		// The forged headers would choose a cluster if they were not removed.
		resp, body, err := call(t, addr, path, strings.NewReader("{}"),
			wire.HeaderDecision, "forged", wire.HeaderCluster, clusters("good"))
		if err != nil {
			t.Fatal(err)
		}
		wantError(t, resp, body, wire.ErrNoTarget, d)
	}
}
