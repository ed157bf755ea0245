// Package metrics is pointsman's Prometheus series: counters fed by what the ledger
// tells, and gauges read from the tracker when they are asked for.
//
// Label values come from the configuration only, so a caller cannot create
// series, and series of removed targets and pools disappear. Names and meaning stand in
// the specification (adaptive, Prometheus). It serves nothing: admin does.
// Everything may be called from any goroutine.
package metrics

import (
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pointsman/pointsman/internal/ledger"
	"github.com/pointsman/pointsman/internal/routing"
)

// Metrics holds the series that are counted. It is a ledger.Sink.
type Metrics struct {
	known atomic.Pointer[names] // nil before the first snapshot

	decisions, failOpen, requests, upstreamErrors, authFailures *prometheus.CounterVec
	retries, cooldowns, outcomes, prefixText, prefixMatched     *prometheus.CounterVec
	duration, ttft                                              *prometheus.HistogramVec
	decision                                                    prometheus.Histogram
	late, reloads, reloadFailures                               prometheus.Counter
	version                                                     prometheus.Gauge
}

// names are the label values that the configuration in force allows.
type names struct{ pools, targets map[string]bool }

var (
	durationBuckets = []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}
	decisionBuckets = []float64{5e-6, 10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3}
)

// New registers all counted series with reg.
func New(reg prometheus.Registerer) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		reg.MustRegister(v)
		return v
	}
	single := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		reg.MustRegister(c)
		return c
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: durationBuckets}, []string{"model"})
		reg.MustRegister(v)
		return v
	}
	m := &Metrics{
		decisions:      counter("pointsman_decisions_total", "First choices.", "model", "strategy", "target"),
		failOpen:       counter("pointsman_fail_open_total", "First choices made by failing open.", "model"),
		requests:       counter("pointsman_requests_total", "Finished requests by the status the client got.", "model", "code"),
		upstreamErrors: counter("pointsman_upstream_errors_total", "Attempts that failed, by outcome.", "target", "reason"),
		authFailures:   counter("pointsman_upstream_auth_failures_total", "Attempts answered 401 or 403.", "target"),
		retries:        counter("pointsman_retries_total", "Attempts after the first.", "model"),
		cooldowns:      counter("pointsman_cooldowns_tripped_total", "Times a target was parked.", "target"),
		outcomes:       counter("pointsman_outcomes_total", "Attempts by outcome.", "target", "outcome"),
		prefixText:     counter("pointsman_prefix_text_bytes_total", "Affinity text seen, in bytes.", "model"),
		prefixMatched: counter("pointsman_prefix_matched_bytes_total",
			"Affinity text that was known on the chosen target before, in bytes.", "model"),
		duration: histogram("pointsman_request_duration_seconds", "Time from the decision to the end of the answer."),
		ttft:     histogram("pointsman_request_ttft_seconds", "Time from the decision to the first byte of the answer's body."),
		decision: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "pointsman_decision_seconds",
			Help: "Time that choosing took.", Buckets: decisionBuckets}),
		late:           single("pointsman_outcomes_late_total", "Log entries that came after their decision was closed."),
		reloads:        single("pointsman_config_reloads_total", "Changed configurations put into force."),
		reloadFailures: single("pointsman_config_reload_failures_total", "Changed configurations that were refused."),
		version: prometheus.NewGauge(prometheus.GaugeOpts{Name: "pointsman_config_version",
			Help: "Number of the configuration in force, 1 for the first."}),
	}
	reg.MustRegister(m.decision, m.version)
	return m
}

// Configured says which pools and targets exist now. Series of others disappear.
func (m *Metrics) Configured(s *routing.Snapshot) {
	now := names{pools: make(map[string]bool)}
	now.targets, _ = s.Targets()
	for _, p := range s.Pools() {
		now.pools[p.Name] = true
	}
	before := m.known.Swap(&now)
	m.version.Inc()
	if before == nil {
		return
	}
	m.reloads.Inc()
	for t := range before.targets {
		if !now.targets[t] {
			for _, v := range []*prometheus.CounterVec{m.decisions, m.upstreamErrors, m.authFailures, m.cooldowns, m.outcomes} {
				v.DeletePartialMatch(prometheus.Labels{"target": t})
			}
		}
	}
	for p := range before.pools {
		if now.pools[p] {
			continue
		}
		label := prometheus.Labels{"model": p}
		for _, v := range []*prometheus.CounterVec{m.decisions, m.failOpen, m.requests, m.retries, m.prefixText, m.prefixMatched} {
			v.DeletePartialMatch(label)
		}
		m.duration.DeletePartialMatch(label)
		m.ttft.DeletePartialMatch(label)
	}
}

// ReloadRefused counts a changed configuration that was refused.
func (m *Metrics) ReloadRefused() { m.reloadFailures.Inc() }

// Decided implements ledger.Sink.
func (m *Metrics) Decided(d *routing.Decision) {
	m.decision.Observe(d.Took.Seconds())
	if !m.pool(d.Pool.Name) {
		return
	}
	if target := d.Entry(0).ID; m.target(target) {
		m.decisions.WithLabelValues(d.Pool.Name, d.Pool.Strategy, target).Inc()
	}
	if d.FailOpen {
		m.failOpen.WithLabelValues(d.Pool.Name).Inc()
	}
	if d.TextBytes > 0 {
		m.prefixText.WithLabelValues(d.Pool.Name).Add(float64(d.TextBytes))
		m.prefixMatched.WithLabelValues(d.Pool.Name).Add(float64(d.MatchedBytes))
	}
}

// Attempted implements ledger.Sink.
func (m *Metrics) Attempted(pool, target string, a *ledger.Attempt, parked bool) {
	if a.Number > 1 && m.pool(pool) {
		m.retries.WithLabelValues(pool).Inc()
	}
	if !m.target(target) {
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
	pool := a.Pool
	if !m.pool(pool) {
		pool = ""
	}
	m.requests.WithLabelValues(pool, code(a.Status)).Inc()
}

// Closed implements ledger.Sink.
func (m *Metrics) Closed(r ledger.Record) {
	if !m.pool(r.Pool) {
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

func (m *Metrics) pool(name string) bool {
	k := m.known.Load()
	return k != nil && k.pools[name]
}

func (m *Metrics) target(id string) bool {
	k := m.known.Load()
	return k != nil && k.targets[id]
}

// code is the label of a status. Nothing was heard of a request whose status is 0.
func code(status int) string {
	if status == 0 {
		return "unknown"
	}
	return strconv.Itoa(status)
}
