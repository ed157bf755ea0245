// Package logs is pointsman's own log: structured lines on standard error, and the
// optional lines of single requests.
//
// Nothing that writes a line ever waits for the output: lines go through a
// bounded queue to one writer. Lines of requests are dropped when half of the queue is
// taken, events only when all of it is; both are counted. Everything may be called
// from any goroutine.
package logs

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"sync/atomic"
)

// queueLines bounds the lines waiting for the output: a second of 4,000 requests
// a second with two lines each.
const queueLines = 8192

// Log is the destination of all lines.
type Log struct {
	out     io.Writer
	format  string
	queue   chan []byte
	level   slog.LevelVar
	dropped atomic.Uint64
}

// New gives a log that writes to out once Run runs. Format is "json" or "text".
func New(out io.Writer, format string) *Log {
	return &Log{out: out, queue: make(chan []byte, queueLines), format: format}
}

// SetLevel changes the level of all loggers: debug, info, warn or error.
func (l *Log) SetLevel(level string) {
	var v slog.Level
	if err := v.UnmarshalText([]byte(level)); err == nil {
		l.level.Set(v)
	}
}

// Events gives the logger for what an operator acts on: its lines are dropped only when the
// queue is full.
func (l *Log) Events() *slog.Logger { return slog.New(l.handler(queueLines)) }

// Requests gives the logger for lines of single requests, which leave half of the queue to
// the events.
func (l *Log) Requests() *slog.Logger { return slog.New(l.handler(queueLines / 2)) }

// Dropped counts the lines that were dropped.
func (l *Log) Dropped() uint64 { return l.dropped.Load() }

// Run writes lines until ctx ends, and then those that wait.
func (l *Log) Run(ctx context.Context) error {
	for {
		select {
		case line := <-l.queue:
			l.write(line)
		case <-ctx.Done():
			l.Flush()
			return nil
		}
	}
}

// Flush writes the lines that wait, for a program that ends before it could Run.
func (l *Log) Flush() {
	for {
		select {
		case line := <-l.queue:
			l.write(line)
		default:
			return
		}
	}
}

func (l *Log) write(line []byte) {
	if _, err := l.out.Write(line); err != nil {
		l.dropped.Add(1) // nowhere else to say it; the process goes on
	}
}

func (l *Log) handler(limit int) slog.Handler {
	w := writer{l, limit}
	opts := &slog.HandlerOptions{Level: &l.level}
	if l.format == "text" {
		return slog.NewTextHandler(w, opts)
	}
	return slog.NewJSONHandler(w, opts)
}

// writer puts the lines of a logger into the queue while fewer than so many wait.
type writer struct {
	log   *Log
	limit int
}

// Write implements io.Writer. It never blocks and never fails.
func (w writer) Write(line []byte) (int, error) {
	l := w.log
	if len(l.queue) >= w.limit {
		l.dropped.Add(1)
		return len(line), nil
	}
	select {
	case l.queue <- bytes.Clone(line): // the handler reuses its buffer
	default:
		l.dropped.Add(1)
	}
	return len(line), nil
}
