package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	// headersLimit is how long the client waits for response headers before
	// it calls a request lost; pointsman gives up earlier.
	headersLimit = 90 * time.Second
	// errorBytes of an error's body are shown.
	errorBytes = 300
	// maxEvent bounds a line of a stream.
	maxEvent = 64 << 10
)

// client sends requests as a user's program would.
type client struct {
	http   *http.Client
	target string
	board  *board
}

func newClient(target string, b *board) *client {
	return &client{
		http: &http.Client{Transport: &http.Transport{
			MaxIdleConnsPerHost:   maxInFlight,
			DisableCompression:    true,
			ResponseHeaderTimeout: headersLimit,
		}},
		target: target,
		board:  b,
	}
}

// close ends the idle connections.
func (c *client) close() { c.http.CloseIdleConnections() }

// chatRequest is the body of a request.
type chatRequest struct {
	Model         string        `json:"model"`
	MaxTokens     int           `json:"max_tokens"`
	Stream        bool          `json:"stream"`
	StreamOptions streamOptions `json:"stream_options"`
	Messages      []chatMessage `json:"messages"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type chatMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// body makes the body of a request to a route.
func body(model, prompt string, tokens int) ([]byte, error) {
	return json.Marshal(chatRequest{
		Model: model, MaxTokens: tokens, Stream: true, StreamOptions: streamOptions{IncludeUsage: true},
		Messages: []chatMessage{{Role: "user", Content: prompt}},
	})
}

// send sends one request to a route, follows its answer to the end, and has it
// counted.
func (c *client) send(ctx context.Context, route int, body []byte, session string) {
	c.board.sent(route)
	c.board.done(route, c.follow(ctx, route, body, session))
}

// follow is send without the counting of begin and end.
func (c *client) follow(ctx context.Context, route int, body []byte, session string) result {
	res := result{sent: time.Now()}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.target+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return res.ended(ctx, lost, err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Session-Id", session)
	answer, err := c.http.Do(req)
	if err != nil {
		return res.ended(ctx, lost, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, errorBytes)) // what can be read is shown
		return res.ended(ctx, lost, fmt.Errorf("status %d: %s", answer.StatusCode, bytes.TrimSpace(text)))
	}
	res.engine = answer.Header.Get("X-Served-By")
	c.board.answered(route, res.engine)
	if err := res.read(answer.Body); err != nil {
		return res.ended(ctx, broken, err)
	}
	return res
}

// ended is a request that went wrong, unless the demo itself ended it.
func (r result) ended(ctx context.Context, o outcome, err error) result {
	r.outcome, r.reason = o, err.Error()
	if ctx.Err() != nil {
		r.outcome = abandoned
	}
	return r
}

// errNoDone says that a stream ended in good order but too early.
var errNoDone = errors.New("the stream ended without [DONE]")

// read follows a stream to its end: the time of its first event, the tokens in
// its usage, and [DONE].
func (r *result) read(stream io.Reader) error {
	lines := bufio.NewReaderSize(stream, maxEvent)
	done := false
	for {
		text, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			if !done {
				return errNoDone
			}
			return nil
		}
		if err != nil {
			return err
		}
		data, isData := bytes.CutPrefix(bytes.TrimSpace(text), []byte("data: "))
		if !isData {
			continue
		}
		if r.ttft == 0 {
			r.ttft = time.Since(r.sent)
		}
		switch {
		case string(data) == "[DONE]":
			done = true
		case bytes.Contains(data, []byte(`"usage":{`)):
			if err := r.readUsage(data); err != nil {
				return err
			}
		}
	}
}

func (r *result) readUsage(data []byte) error {
	var chunk struct {
		Usage struct {
			PromptTokens int `json:"prompt_tokens"`
			Details      struct {
				CachedTokens int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	if err := json.Unmarshal(data, &chunk); err != nil {
		return fmt.Errorf("usage: %w", err)
	}
	r.prompt, r.cached = chunk.Usage.PromptTokens, chunk.Usage.Details.CachedTokens
	return nil
}
