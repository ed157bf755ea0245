package logs

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/pointsman/pointsman/internal/ledger"
	"github.com/pointsman/pointsman/internal/routing"
	"github.com/pointsman/pointsman/internal/tracker"
)

// Requests writes the lines of single requests while it is switched on. It is a
// ledger.Sink. No line holds anything that a client made up, and a field without a value
// is left out.
type Requests struct {
	on  atomic.Bool
	log *slog.Logger
}

// NewRequests gives a sink that is switched off.
func NewRequests(log *slog.Logger) *Requests { return &Requests{log: log} }

// Switch turns the lines on or off.
func (r *Requests) Switch(on bool) { r.on.Store(on) }

// off also spares the work for lines that the level leaves out.
func (r *Requests) off() bool {
	return !r.on.Load() || !r.log.Enabled(context.Background(), slog.LevelInfo)
}

// Decided implements ledger.Sink.
func (r *Requests) Decided(d *routing.Decision) {
	if r.off() {
		return
	}
	targets := make([]string, d.Len())
	for k := range targets {
		targets[k] = d.Entry(k).ID
	}
	r.line("decision",
		slog.String("decision", d.ID), slog.String("pool", d.Pool.Name), slog.String("strategy", d.Pool.Strategy),
		slog.String("kind", d.Kind.String()), slog.Int64("prompt_tokens", d.Tokens), slog.Any("targets", targets),
		slog.Bool("fail_open", d.FailOpen), slog.Float64("took_us", float64(d.Took)/float64(time.Microsecond)))
}

// Attempted implements ledger.Sink.
func (r *Requests) Attempted(_, target string, a *ledger.Attempt, _ bool) {
	if r.off() {
		return
	}
	attrs := make([]slog.Attr, 0, 8)
	attrs = append(attrs, slog.String("decision", a.Decision), slog.String("target", target),
		slog.Int("attempt", a.Number), slog.String("outcome", a.Outcome.String()))
	if a.Status != 0 {
		attrs = append(attrs, slog.Int("status", a.Status))
	}
	if a.FirstBody > 0 {
		attrs = append(attrs, slog.Float64("first_byte_ms", ms(a.FirstBody)))
	}
	if a.Total > 0 {
		attrs = append(attrs, slog.Float64("duration_ms", ms(a.Total)))
	}
	if a.RetryAfter != tracker.NoHint {
		attrs = append(attrs, slog.Float64("retry_after_secs", a.RetryAfter.Seconds()))
	}
	r.line("outcome", attrs...)
}

// Answered implements ledger.Sink. An answer that has a decision and no code came from an
// upstream: its line is that of the attempt.
func (r *Requests) Answered(a ledger.Answer) {
	if r.off() || a.Decision != "" && a.Code == "" {
		return
	}
	attrs := make([]slog.Attr, 0, 3)
	if a.Decision != "" {
		attrs = append(attrs, slog.String("decision", a.Decision))
	}
	if a.Status != 0 {
		attrs = append(attrs, slog.Int("status", a.Status))
	}
	if a.Code != "" {
		attrs = append(attrs, slog.String("code", a.Code))
	}
	r.line("answer", attrs...)
}

// Closed implements ledger.Sink.
func (r *Requests) Closed(ledger.Record) {}

// Late implements ledger.Sink.
func (r *Requests) Late() {}

func (r *Requests) line(msg string, attrs ...slog.Attr) {
	r.log.LogAttrs(context.Background(), slog.LevelInfo, msg, attrs...)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
