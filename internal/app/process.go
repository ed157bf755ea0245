package app

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// registerProcess registers what every Go service tells of itself.
func registerProcess(reg prometheus.Registerer, b Build) {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "pointsman_build_info", Help: "The running build.",
		ConstLabels: prometheus.Labels{"version": b.Version, "revision": b.Revision, "goversion": b.Go},
	})
	info.Set(1)
	reg.MustRegister(info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
}
