package metrics

import (
	"strconv"

	"github.com/pointsman/pointsman/internal/ledger"
	"github.com/pointsman/pointsman/internal/routing"
)

// Decided implements ledger.Sink.
func (m *Metrics) Decided(d *routing.Decision) {
	m.decision.Observe(d.Took.Seconds())
	m.mu.RLock()
	defer m.mu.RUnlock()
	pool, known := d.Pool.Name, m.mu.known
	if c := (choice{pool, d.Pool.Strategy, d.Entry(0).ID}); known.choices[c] {
		m.decisions.WithLabelValues(c.pool, c.strategy, c.target).Inc()
	}
	if !known.pools[pool] {
		return
	}
	if d.FailOpen {
		m.failOpen.WithLabelValues(pool).Inc()
	}
	if d.TextBytes > 0 {
		m.prefixText.WithLabelValues(pool).Add(float64(d.TextBytes))
		m.prefixMatched.WithLabelValues(pool).Add(float64(d.MatchedBytes))
	}
}

// Attempted implements ledger.Sink.
func (m *Metrics) Attempted(pool, target string, a *ledger.Attempt, parked bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if a.Number > 1 && m.mu.known.pools[pool] {
		m.retries.WithLabelValues(pool).Inc()
	}
	if !m.mu.known.targets[target] {
		return
	}
	m.outcomes.WithLabelValues(target, a.Outcome.String()).Inc()
	switch a.Outcome {
	case ledger.AuthError:
		m.authFailures.WithLabelValues(target).Inc()
	case ledger.ErrorStatus, ledger.NoResponse, ledger.Timeout, ledger.Cut, ledger.Refused:
		m.upstreamErrors.WithLabelValues(target, a.Outcome.String()).Inc()
	}
	if parked {
		m.cooldowns.WithLabelValues(target).Inc()
	}
}

// Answered implements ledger.Sink. An answer that names a decision is counted when
// the decision is closed.
func (m *Metrics) Answered(a ledger.Answer) {
	if a.Decision != "" {
		return
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if a.Pool == "" || m.mu.known.pools[a.Pool] {
		m.requests.WithLabelValues(a.Pool, code(a.Status)).Inc()
	}
}

// Closed implements ledger.Sink.
func (m *Metrics) Closed(r ledger.Record) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if !m.mu.known.pools[r.Pool] {
		return
	}
	m.requests.WithLabelValues(r.Pool, code(r.Status)).Inc()
	m.duration.WithLabelValues(r.Pool).Observe(r.Duration.Seconds())
	if r.TTFT > 0 {
		m.ttft.WithLabelValues(r.Pool).Observe(r.TTFT.Seconds())
	}
}

// Late implements ledger.Sink.
func (m *Metrics) Late() { m.late.Inc() }

// code is the label of a status. A request whose end was never heard has the word of such
// attempts.
func code(status int) string {
	switch {
	case status == 0:
		return ledger.Unknown.String()
	case status < 100 || status > 999: // an upstream must not create series either
		return "other"
	}
	return strconv.Itoa(status)
}
