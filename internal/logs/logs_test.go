package logs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// gate is an output that takes nothing while it is closed.
type gate struct {
	mu  sync.Mutex // held while it is closed
	buf bytes.Buffer
	err error
}

func (g *gate) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return 0, g.err
	}
	return g.buf.Write(p)
}

func count(out *gate, msg string) int {
	out.mu.Lock()
	defer out.mu.Unlock()
	return strings.Count(out.buf.String(), `"msg":"`+msg+`"`)
}

// Every line is an object with time, level and msg; in text form likewise.
func TestFormats(t *testing.T) {
	for format, want := range map[string]string{
		"json": `"level":"WARN","msg":"configuration","warning":"a \"quoted\" one"}` + "\n",
		"text": `level=WARN msg=configuration warning="a \"quoted\" one"` + "\n",
	} {
		var out gate
		l := New(&out, format)
		l.Events().Warn("configuration", "warning", `a "quoted" one`)
		l.Flush()
		if got := out.buf.String(); !strings.HasSuffix(got, want) || strings.Count(got, "\n") != 1 || !strings.Contains(got, "time") {
			t.Errorf("%s: %q, want it to end with %q", format, got, want)
		}
		if format == "json" && !json.Valid(out.buf.Bytes()) {
			t.Errorf("no JSON: %s", out.buf.String())
		}
	}
}

// The level follows SetLevel, also of loggers that were made before.
func TestLevel(t *testing.T) {
	var out gate
	l := New(&out, "json")
	events := l.Events()
	all := func() {
		events.Debug("debug")
		events.Info("info")
		events.Warn("warn")
		events.Error("error")
		l.Flush()
	}
	for _, test := range []struct{ level, want string }{
		{"info", "0111"}, {"debug", "1111"}, {"warn", "0011"}, {"error", "0001"}, {"no level", "0001"},
	} {
		out.buf.Reset()
		l.SetLevel(test.level)
		all()
		got := fmt.Sprint(count(&out, "debug")) + fmt.Sprint(count(&out, "info")) + fmt.Sprint(count(&out, "warn")) + fmt.Sprint(count(&out, "error"))
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.level, got, test.want)
		}
	}
}

// An output that is stuck holds nobody up: lines of requests are dropped when half of the
// queue is taken, events when all of it is, and both are counted. What was taken is written
// once the output goes on.
func TestStuckOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out gate
		out.mu.Lock()
		l := New(&out, "json")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		events, requests := l.Events(), l.Requests()
		const more = 10
		for range queueLines {
			requests.Info("request")
		}
		if n := l.Dropped(); n < queueLines/2-1 || n > queueLines/2 { // one is with the writer, perhaps
			t.Errorf("%d lines of requests dropped", n)
		}
		dropped := l.Dropped()
		for range queueLines/2 + more {
			events.Info("event")
		}
		if n := l.Dropped() - dropped; n < more-1 || n > more {
			t.Errorf("%d events dropped", n)
		}
		dropped = l.Dropped()
		requests.Info("request")
		events.Info("event")
		if n := l.Dropped() - dropped; n != 2 {
			t.Errorf("%d of 2 dropped when all is full", n)
		}
		cancel()
		out.mu.Unlock()
		if err := <-done; err != nil {
			t.Error(err)
		}
		written := count(&out, "request") + count(&out, "event")
		if total := uint64(2*queueLines - queueLines/2 + more + 2); uint64(written)+l.Dropped() != total {
			t.Errorf("%d written and %d dropped of %d", written, l.Dropped(), total)
		}
	})
}

// When Run ends, everything that was said before is written, in order.
func TestRunFlushes(t *testing.T) {
	var out gate
	l := New(&out, "json")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	events := l.Events()
	const lines = 1000
	for i := range lines {
		events.Info("event", "n", i)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	i := 0
	for text := range strings.Lines(out.buf.String()) {
		var line struct{ N int }
		if err := json.Unmarshal([]byte(text), &line); err != nil || line.N != i {
			t.Fatalf("line %d: %s", i, text)
		}
		i++
	}
	if i != lines || l.Dropped() != 0 {
		t.Errorf("%d lines, %d dropped", i, l.Dropped())
	}
}

// A line that the output refuses is counted, and the next one is tried.
func TestBrokenOutput(t *testing.T) {
	out := gate{err: errors.New("broken pipe")}
	l := New(&out, "json")
	l.Events().Info("lost")
	l.Flush()
	out.err = nil
	l.Events().Info("kept")
	l.Flush()
	if l.Dropped() != 1 || count(&out, "lost") != 0 || count(&out, "kept") != 1 {
		t.Errorf("%d dropped: %s", l.Dropped(), out.buf.String())
	}
}

// Lines from many goroutines stay whole.
func TestConcurrent(t *testing.T) {
	var out gate
	l := New(&out, "text")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	var wg sync.WaitGroup
	for i := range 8 {
		log := []*slog.Logger{l.Events(), l.Requests()}[i%2]
		wg.Go(func() {
			for range 200 {
				log.Info("event", "text", strings.Repeat("x", 300))
			}
		})
	}
	wg.Wait()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	n := 0
	for text := range strings.Lines(out.buf.String()) {
		n++
		if !strings.HasPrefix(text, "time=") || !strings.HasSuffix(text, strings.Repeat("x", 300)+"\n") {
			t.Fatalf("a torn line: %q", text)
		}
	}
	if n != 8*200 {
		t.Errorf("%d lines", n)
	}
}
