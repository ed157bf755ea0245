// Package metrics is pointsman's Prometheus series: counters fed by what the ledger
// tells, and gauges read from the tracker when they are asked for.
//
// Label values come from the configuration only, so a caller cannot create
// series, and series of removed targets and pools disappear. Names and meaning stand in
// the specification (adaptive, Prometheus). It serves nothing: admin does.
// Everything may be called from any goroutine.
package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pointsman/pointsman/internal/routing"
)

// Metrics holds the series that are counted. It is a ledger.Sink.
type Metrics struct {
	// mu is read-locked while something is counted, so that no series of a target
	// comes back after Configured has taken it out.
	mu struct {
		sync.RWMutex
		known *names // never nil; without maps before the first snapshot
	}

	decisions, failOpen, requests, upstreamErrors, authFailures *prometheus.CounterVec
	retries, cooldowns, outcomes, prefixText, prefixMatched     *prometheus.CounterVec
	duration, ttft                                              *prometheus.HistogramVec
	decision                                                    prometheus.Histogram
	late, reloads, reloadFailures                               prometheus.Counter
	version                                                     prometheus.Gauge
}

// names are the label values that the configuration in force allows.
type names struct {
	pools, targets map[string]bool
	choices        map[choice]bool
}

// choice is the labels of a first choice.
type choice struct{ pool, strategy, target string }

func namesOf(s *routing.Snapshot) *names {
	n := &names{pools: make(map[string]bool), choices: make(map[choice]bool)}
	n.targets, _ = s.Targets()
	for _, p := range s.Pools() {
		n.pools[p.Name] = true
		for i := range p.Targets() {
			n.choices[choice{p.Name, p.Strategy, p.Targets()[i].ID}] = true
		}
	}
	return n
}

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
	m.mu.known = &names{}
	return m
}

// Configured says which pools and targets exist now. Series of others disappear. Those
// whose labels are known from the configuration alone begin at 0, so that their first event
// is an increase.
func (m *Metrics) Configured(s *routing.Snapshot) {
	now := namesOf(s)
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.mu.known
	m.mu.known = now
	m.begin(now)
	m.forget(before, now)
	m.version.Inc()
	if before.pools != nil {
		m.reloads.Inc()
	}
}

func (m *Metrics) begin(now *names) {
	for p := range now.pools {
		for _, v := range []*prometheus.CounterVec{m.failOpen, m.retries, m.prefixText, m.prefixMatched} {
			v.WithLabelValues(p)
		}
		m.duration.WithLabelValues(p)
		m.ttft.WithLabelValues(p)
	}
	for t := range now.targets {
		m.authFailures.WithLabelValues(t)
		m.cooldowns.WithLabelValues(t)
	}
	for c := range now.choices {
		m.decisions.WithLabelValues(c.pool, c.strategy, c.target)
	}
}

func (m *Metrics) forget(before, now *names) {
	for p := range before.pools {
		if now.pools[p] {
			continue
		}
		label := prometheus.Labels{"model": p}
		for _, v := range []*prometheus.CounterVec{m.failOpen, m.requests, m.retries, m.prefixText, m.prefixMatched} {
			v.DeletePartialMatch(label)
		}
		m.duration.DeletePartialMatch(label)
		m.ttft.DeletePartialMatch(label)
	}
	for t := range before.targets {
		if now.targets[t] {
			continue
		}
		for _, v := range []*prometheus.CounterVec{m.upstreamErrors, m.authFailures, m.cooldowns, m.outcomes} {
			v.DeletePartialMatch(prometheus.Labels{"target": t})
		}
	}
	for c := range before.choices {
		if !now.choices[c] {
			m.decisions.DeleteLabelValues(c.pool, c.strategy, c.target)
		}
	}
}

// ReloadRefused counts a changed configuration that was refused.
func (m *Metrics) ReloadRefused() { m.reloadFailures.Inc() }
