package enginesim

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// start serves an engine for the length of the test.
func start(t *testing.T, opts Options) *Engine {
	t.Helper()
	e, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- e.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return e
}

// newClient makes a client with connections of its own.
func newClient(t *testing.T) *http.Client {
	t.Helper()
	tr := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// newH2Client speaks HTTP/2 without TLS.
func newH2Client(t *testing.T) *http.Client {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: protocols}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// chatBody is a request for tokens tokens.
func chatBody(text string, tokens int, stream bool) string {
	b, err := json.Marshal(map[string]any{
		"model": "m", "messages": []any{map[string]any{"role": "user", "content": text}},
		"max_tokens": tokens, "stream": stream, "stream_options": map[string]any{"include_usage": true},
	})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// chatTokens is what a prompt of chatBody counts as.
func chatTokens(text string) int {
	return (len("user: ") + len(text) + len("\nassistant: ") + BytesPerToken - 1) / BytesPerToken
}

func post(t *testing.T, c *http.Client, url, body string) *http.Response {
	t.Helper()
	res, err := send(t.Context(), c, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func send(ctx context.Context, c *http.Client, url, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return c.Do(req)
}

// streamed is a decoded SSE answer.
type streamed struct {
	roles  int
	tokens int
	text   string
	finish string
	usage  *Usage
	done   bool
}

// readStream decodes an SSE answer; the error is that of the connection.
func readStream(r io.Reader) (streamed, error) {
	var s streamed
	scan := bufio.NewScanner(r)
	for scan.Scan() {
		data, ok := bytes.CutPrefix(scan.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		if string(data) == "[DONE]" {
			s.done = true
			continue
		}
		var chunk struct {
			Choices []struct {
				Delta        *struct{ Role, Content string }
				Text         string
				FinishReason string `json:"finish_reason"`
			}
			Usage *Usage
		}
		if err := json.Unmarshal(data, &chunk); err != nil {
			return s, err
		}
		s.usage = chunk.Usage
		for _, c := range chunk.Choices {
			text := c.Text
			if c.Delta != nil {
				text = c.Delta.Content
				if c.Delta.Role != "" {
					s.roles++
				}
			}
			if text != "" {
				s.tokens++
			}
			s.text += text
			s.finish = c.FinishReason
		}
	}
	return s, scan.Err()
}

// eventually waits for a condition that another goroutine brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
