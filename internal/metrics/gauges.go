package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pointsman/pointsman/internal/routing"
)

// Proxies is what the control plane knows of the connected Envoys.
type Proxies interface {
	// Proxies gives the numbers of connected Envoys and of those that count.
	Proxies() (connected, counting int)
	// Rejections gives the number of rejected resources by resource type.
	Rejections() map[string]uint64
}

// Gauges reads its values when it is collected: from the snapshot in force and the
// tracker's handles in it, the proxies, and the log.
type Gauges struct {
	Snapshot func() *routing.Snapshot // gives one from the first collection on
	Proxies  Proxies
	Dropped  func() uint64 // log lines dropped
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	inFlightDesc  = desc("pointsman_in_flight", "Attempts dispatched and not yet ended, of this replica.", "endpoint")
	loadDesc      = desc("pointsman_load", "The load that strategies compare.", "target")
	eligibleDesc  = desc("pointsman_target_eligible", "1 if the target may be chosen without failing open.", "target")
	reachableDesc = desc("pointsman_target_reachable", "1 if every proxy that counts can route to the target.", "target")
	latencyDesc   = desc("pointsman_latency_seconds", "Mean latency; absent while unknown.", "target")
	proxiesDesc   = desc("pointsman_proxies", "Connected Envoys, and those that count.", "state")
	rejectedDesc  = desc("pointsman_xds_rejections_total", "Resources that a proxy, or the check before it, rejected.", "type")
	droppedDesc   = desc("pointsman_log_dropped_total", "Log lines dropped because the output did not keep up.")
)

// Describe implements prometheus.Collector.
func (g *Gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{inFlightDesc, loadDesc, eligibleDesc, reachableDesc, latencyDesc,
		proxiesDesc, rejectedDesc, droppedDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (g *Gauges) Collect(ch chan<- prometheus.Metric) {
	collectTargets(ch, g.Snapshot(), time.Now())
	connected, counting := g.Proxies.Proxies()
	gauge(ch, proxiesDesc, float64(connected), "connected")
	gauge(ch, proxiesDesc, float64(counting), "counting")
	for kind, n := range g.Proxies.Rejections() {
		counter(ch, rejectedDesc, n, kind)
	}
	counter(ch, droppedDesc, g.Dropped())
}

// collectTargets gives each target and endpoint once, in however many pools it is.
func collectTargets(ch chan<- prometheus.Metric, s *routing.Snapshot, now time.Time) {
	eligible := make(map[string]bool) // by target, in any pool
	endpoints := make(map[string]bool)
	for _, p := range s.Pools() {
		for i := range p.Targets() {
			t := &p.Targets()[i]
			_, seen := eligible[t.ID]
			eligible[t.ID] = eligible[t.ID] || t.Eligible(now)
			if seen {
				continue
			}
			gauge(ch, loadDesc, float64(t.Endpoint.Load()), t.ID)
			gauge(ch, reachableDesc, bit(t.State.Reachable()), t.ID)
			if ms, ok := t.State.Latency(now); ok {
				gauge(ch, latencyDesc, ms/1000, t.ID)
			}
			if name := t.Endpoint.Name(); !endpoints[name] {
				endpoints[name] = true
				gauge(ch, inFlightDesc, float64(t.Endpoint.InFlight()), name)
			}
		}
	}
	for id, ok := range eligible {
		gauge(ch, eligibleDesc, bit(ok), id)
	}
}

func gauge(ch chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func counter(ch chan<- prometheus.Metric, d *prometheus.Desc, v uint64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
}

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
