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
	Snapshot func() *routing.Snapshot
	Proxies  Proxies
	Dropped  func() uint64 // log lines dropped
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	inFlightDesc  = desc("pointsman_in_flight", "Attempts dispatched and not yet ended, of this replica.", "endpoint")
	loadDesc      = desc("pointsman_load", "The load that strategies compare.", "target")
	eligibleDesc  = desc("pointsman_target_eligible", "1 if the target may be chosen.", "target")
	reachableDesc = desc("pointsman_target_reachable", "1 if every proxy that counts can route to the target.", "target")
	latencyDesc   = desc("pointsman_latency_seconds", "Mean latency; absent while unknown.", "target")
	proxiesDesc   = desc("pointsman_proxies", "Connected Envoys, and those that count.", "state")
	rejectedDesc  = desc("pointsman_xds_rejections_total", "Resources that a proxy rejected.", "type")
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
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	if s := g.Snapshot(); s != nil {
		now := time.Now()
		eligible := make(map[string]bool)
		endpoints := make(map[string]bool)
		for _, p := range s.Pools() {
			for i := range p.Targets() {
				t := &p.Targets()[i]
				_, seen := eligible[t.ID]
				eligible[t.ID] = eligible[t.ID] || t.Eligible(now)
				if !endpoints[t.Endpoint.Name()] {
					endpoints[t.Endpoint.Name()] = true
					gauge(inFlightDesc, float64(t.Endpoint.InFlight()), t.Endpoint.Name())
				}
				if seen {
					continue
				}
				gauge(loadDesc, float64(t.Endpoint.Load()), t.ID)
				gauge(reachableDesc, bit(t.State.Reachable()), t.ID)
				if ms, ok := t.State.Latency(now); ok {
					gauge(latencyDesc, ms/1000, t.ID)
				}
			}
		}
		for id, ok := range eligible {
			gauge(eligibleDesc, bit(ok), id)
		}
	}
	connected, counting := g.Proxies.Proxies()
	gauge(proxiesDesc, float64(connected), "connected")
	gauge(proxiesDesc, float64(counting), "counting")
	for kind, n := range g.Proxies.Rejections() {
		counter(rejectedDesc, n, kind)
	}
	counter(droppedDesc, g.Dropped())
}

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
