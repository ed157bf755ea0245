// Package logs is pointsman's own log: structured lines on standard error, and the
// optional lines of single requests.
//
// Nothing that writes a line ever waits for the output: lines go through a
// bounded queue to one writer. Lines of requests are dropped when half of the queue is
// taken, events only when all of it is; both are counted. Everything may be called
// from any goroutine.
package logs

import (
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
	queue   chan []byte
	dropped atomic.Uint64
	level   slog.LevelVar
	format  string
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

// Events gives the logger for what an operator acts on.
func (l *Log) Events() *slog.Logger { return slog.New(l.handler(events{l})) }

// Requests gives the logger for lines of single requests.
func (l *Log) Requests() *slog.Logger { return slog.New(l.handler(requests{l})) }

// Dropped counts the lines that were dropped.
func (l *Log) Dropped() uint64 { return l.dropped.Load() }

// Run writes lines until ctx ends, and then those that wait.
func (l *Log) Run(ctx context.Context) error {
	for {
		select {
		case line := <-l.queue:
			if _, err := l.out.Write(line); err != nil {
				l.dropped.Add(1) // nowhere else to say it; the process goes on
			}
		case <-ctx.Done():
			for {
				select {
				case line := <-l.queue:
					_, _ = l.out.Write(line)
				default:
					return nil
				}
			}
		}
	}
}

func (l *Log) handler(w io.Writer) slog.Handler {
	opts := &slog.HandlerOptions{Level: &l.level}
	if l.format == "text" {
		return slog.NewTextHandler(w, opts)
	}
	return slog.NewJSONHandler(w, opts)
}

// events takes lines as long as there is room.
type events struct{ l *Log }

func (w events) Write(line []byte) (int, error) { return w.l.put(line, queueLines) }

// requests takes lines while half of the queue is free.
type requests struct{ l *Log }

func (w requests) Write(line []byte) (int, error) { return w.l.put(line, queueLines/2) }

func (l *Log) put(line []byte, limit int) (int, error) {
	if len(l.queue) >= limit {
		l.dropped.Add(1)
		return len(line), nil
	}
	select {
	case l.queue <- append([]byte(nil), line...): // the handler reuses its buffer
	default:
		l.dropped.Add(1)
	}
	return len(line), nil
}
