package enginesim

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestFaultStatus(t *testing.T) {
	e := start(t, Options{Name: "a"})
	c := newClient(t)
	set := post(t, c, e.URL()+"/sim/faults", `[
		{"status": 503, "retry_after": "9", "headers": {"X-Pointsman-Target": "x"}, "body": "own", "count": 2},
		{"status": 429, "path": "/v1/completions"},
		{"headers": {"X-Other": "y"}, "path": "/v1/chat", "count": 1}]`)
	if raw := readAllOf(t, set); set.StatusCode != 200 {
		t.Fatalf("%d %s", set.StatusCode, raw)
	}
	chatURL, completionsURL := e.URL()+"/v1/chat/completions", e.URL()+"/v1/completions"
	for range 2 {
		res := post(t, c, chatURL, chatBody("x", 1, true))
		if raw := readAllOf(t, res); res.StatusCode != 503 || raw != "own" || res.Header.Get("Retry-After") != "9" ||
			res.Header.Get("X-Pointsman-Target") != "x" || res.Header.Get("X-Served-By") != "a" {
			t.Errorf("%d %v %s", res.StatusCode, res.Header, raw)
		}
	}
	res := post(t, c, chatURL, chatBody("x", 1, false))
	if readAllOf(t, res); res.StatusCode != 200 || res.Header.Get("X-Other") != "y" {
		t.Errorf("headers alone: %d %v", res.StatusCode, res.Header)
	}
	for range 3 { // no count: for ever
		res := post(t, c, completionsURL, `{"model":"m","prompt":"a"}`)
		if raw := readAllOf(t, res); res.StatusCode != 429 || !strings.Contains(raw, "SimulatedFault") {
			t.Errorf("%d %s", res.StatusCode, raw)
		}
	}
	if s := e.Stats(); s.Faulted != 6 || s.Requests != 6 {
		t.Errorf("stats: %+v", s)
	}
	if err := e.SetFaults(); err != nil {
		t.Fatal(err)
	}
	if res := post(t, c, completionsURL, `{"model":"m","prompt":"a"}`); res.StatusCode != 200 {
		t.Errorf("after the end of the faults: %d", res.StatusCode)
	} else {
		res.Body.Close()
	}
}

// Faults strike paths that generate, others only when named.
func TestFaultPath(t *testing.T) {
	e := start(t, Options{})
	c := newClient(t)
	get := func() int {
		res, err := c.Get(e.URL() + "/health")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	_ = e.SetFaults(Fault{Status: 500})
	if got := get(); got != 200 {
		t.Errorf("health: %d, want 200", got)
	}
	_ = e.SetFaults(Fault{Status: 500, Path: "/health"})
	if got := get(); got != 500 {
		t.Errorf("health: %d, want 500", got)
	}
}

func TestBreakingOff(t *testing.T) {
	e := start(t, Options{})
	tests := []struct {
		name   string
		fault  Fault
		h2     bool
		whole  bool
		tokens int // seen by the client
		done   bool
		before bool  // no response at all
		err    error // nil = the answer ended in good order
	}{
		{name: "reset before headers", fault: Fault{Action: Reset}, before: true, err: syscall.ECONNRESET},
		{name: "close before headers", fault: Fault{Action: Close}, before: true, err: io.EOF},
		{name: "reset after headers", fault: Fault{Action: Reset, AfterTokens: new(0)}, err: syscall.ECONNRESET},
		{name: "reset after 3 tokens", fault: Fault{Action: Reset, AfterTokens: new(3)}, tokens: 3, err: syscall.ECONNRESET},
		{name: "close after 3 tokens", fault: Fault{Action: Close, AfterTokens: new(3)}, tokens: 3, err: io.ErrUnexpectedEOF},
		{name: "end after 3 tokens", fault: Fault{Action: End, AfterTokens: new(3)}, tokens: 3},
		{name: "reset after the last token", fault: Fault{Action: Reset, AfterTokens: new(5)}, tokens: 5, err: syscall.ECONNRESET},
		{name: "shorter than the fault", fault: Fault{Action: Reset, AfterTokens: new(6)}, tokens: 5, done: true},
		{name: "whole answer closed", fault: Fault{Action: Close, AfterTokens: new(3)}, whole: true, err: io.ErrUnexpectedEOF},
		{name: "whole answer ended", fault: Fault{Action: End, AfterTokens: new(3)}, whole: true},
		{name: "HTTP/2 reset before headers", fault: Fault{Action: Reset}, h2: true, before: true, err: errAny},
		{name: "HTTP/2 reset after 3 tokens", fault: Fault{Action: Reset, AfterTokens: new(3)}, h2: true, tokens: 3, err: errAny},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.fault.Count = 1
			if err := e.SetFaults(tt.fault); err != nil {
				t.Fatal(err)
			}
			c := newClient(t)
			if tt.h2 {
				c = newH2Client(t)
			}
			res, err := send(t.Context(), c, e.URL()+"/v1/chat/completions", chatBody("x", 5, !tt.whole))
			if tt.before {
				if !errors.Is(err, tt.err) && (err == nil || !errors.Is(tt.err, errAny)) {
					t.Errorf("error %v, want %v", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if tt.whole {
				_, err = io.ReadAll(res.Body)
			} else {
				var got streamed
				got, err = readStream(res.Body)
				// After a reset the client's kernel may drop what it had not read yet.
				if got.tokens > tt.tokens || got.tokens < tt.tokens && !errors.Is(err, syscall.ECONNRESET) || got.done != tt.done {
					t.Errorf("%d tokens, done %v, want %d, %v", got.tokens, got.done, tt.tokens, tt.done)
				}
			}
			if !errors.Is(err, tt.err) && (err == nil || !errors.Is(tt.err, errAny)) {
				t.Errorf("error %v, want %v", err, tt.err)
			}
		})
	}
	eventually(t, "nothing is in flight", func() bool { return e.Stats().InFlight == 0 && e.Stats().Running == 0 })
	if s := e.Stats(); s.Aborted != 0 || s.Faulted != int64(len(tests)) || s.Completed != 1 {
		t.Errorf("stats: %+v", s)
	}
}

// errAny stands for any error.
var errAny = errors.New("any")

func TestHangUntilTheClientLeaves(t *testing.T) {
	e := start(t, Options{})
	c := newClient(t)
	for name, f := range map[string]Fault{"before headers": {Action: Hang}, "in the stream": {Action: Hang, AfterTokens: new(2)}} {
		t.Run(name, func(t *testing.T) {
			e.Reset()
			f.Count = 1
			if err := e.SetFaults(f); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				res, err := send(ctx, c, e.URL()+"/v1/chat/completions", chatBody("x", 5, true))
				if err == nil {
					_, err = io.ReadAll(res.Body)
					res.Body.Close()
				}
				ended <- err
			}()
			eventually(t, "the request hangs", func() bool { s := e.Stats(); return s.InFlight == 1 && s.Faulted == 1 })
			select {
			case err := <-ended:
				t.Fatalf("did not hang: %v", err)
			case <-time.After(20 * time.Millisecond):
			}
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the client got %v", err)
			}
			eventually(t, "the engine notices", func() bool { s := e.Stats(); return s.InFlight == 0 && s.Aborted == 1 })
		})
	}
}

func TestFaultsAreChecked(t *testing.T) {
	e := start(t, Options{})
	c := newClient(t)
	for _, body := range []string{
		``, `{`, `[]x`, `{"stat": 500}`, `{"status": 99}`, `{"status": 600}`, `{"action": "explode"}`, `{"action": "end"}`,
		`{"after_tokens": 3}`, `{"action": "reset", "after_tokens": -1}`, `{"status": 500, "action": "reset", "after_tokens": 1}`,
		`{"body": "x"}`, `{"count": -1}`, `{"slow": -2}`, `{"headers": {"a b": "c"}}`, `{"delay_ms": -1}`,
	} {
		res := post(t, c, e.URL()+"/sim/faults", body)
		if res.Body.Close(); res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d, want 400", body, res.StatusCode)
		}
	}
	if err := e.SetFaults(make([]Fault, maxFaults+1)...); err == nil {
		t.Error("no limit to the number of faults")
	}
}
