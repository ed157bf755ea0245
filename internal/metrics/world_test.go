package metrics

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pointsman/pointsman/internal/config"
	"github.com/pointsman/pointsman/internal/request"
	"github.com/pointsman/pointsman/internal/routing"
	"github.com/pointsman/pointsman/internal/tracker"
)

// world is a registry with all series of this package, and what they are about.
type world struct {
	*testing.T
	registry *prometheus.Registry
	tracker  *tracker.Tracker
	router   *routing.Router
	metrics  *Metrics
	proxies  proxies
	dropped  uint64
}

type proxies struct {
	connected, counting int
	rejections          map[string]uint64
}

func (p *proxies) Proxies() (connected, counting int) { return p.connected, p.counting }
func (p *proxies) Rejections() map[string]uint64      { return p.rejections }

func newWorld(t *testing.T) *world {
	w := &world{T: t, registry: prometheus.NewPedanticRegistry()}
	w.tracker = tracker.New(tracker.Settings{LatencyAlpha: 0.3, CooldownBase: time.Hour, CooldownMax: time.Hour})
	w.router = routing.NewRouter(w.tracker, time.Now().Add(-time.Hour))
	w.metrics = New(w.registry)
	w.registry.MustRegister(&Gauges{Snapshot: w.router.Snapshot, Proxies: &w.proxies, Dropped: func() uint64 { return w.dropped }})
	return w
}

// route is a model with the providers it is served by.
type route struct {
	model, strategy string
	providers       []string
}

// load puts a configuration with these routes into force.
func (w *world) load(routes ...route) {
	w.Helper()
	var text, seen strings.Builder
	text.WriteString("providers:\n")
	for _, r := range routes {
		for _, p := range r.providers {
			if !strings.Contains(seen.String(), "<"+p+">") {
				fmt.Fprintf(&seen, "<%s>", p)
				fmt.Fprintf(&text, "  - {name: %s, url: \"http://127.0.0.1:1\"}\n", p)
			}
		}
	}
	text.WriteString("routes:\n")
	for _, r := range routes {
		fmt.Fprintf(&text, "  - model: %q\n    strategy: %s\n    targets:\n", r.model, r.strategy)
		for _, p := range r.providers {
			fmt.Fprintf(&text, "      - {provider: %s, model: up}\n", p)
		}
	}
	cfg, err := config.Parse("test.yaml", []byte(text.String()))
	if err != nil {
		w.Fatal(err)
	}
	s, err := routing.NewSnapshot(cfg, w.tracker, w.router.Snapshot())
	if err != nil {
		w.Fatal(err)
	}
	w.router.Swap(s)
	targets, _ := s.Targets()
	for id := range targets {
		w.tracker.SetReachable(id, true)
	}
	w.metrics.Configured(s)
}

// decide makes a decision, and tells of it.
func (w *world) decide(model, prompt string) *routing.Decision {
	w.Helper()
	q := &request.Request{Model: model, Text: []byte(prompt), Length: int64(len(prompt)), HasPrompt: true}
	d, err := w.router.Decide(w.Context(), w.router.Snapshot(), q, "")
	if err != nil {
		w.Fatal(err)
	}
	d.Took = 30 * time.Microsecond
	w.metrics.Decided(d)
	return d
}

// text is what a scrape gets.
func (w *world) text() string {
	w.Helper()
	rec := httptest.NewRecorder()
	h := promhttp.HandlerFor(w.registry, promhttp.HandlerOpts{})
	h.ServeHTTP(rec, httptest.NewRequestWithContext(w.Context(), "GET", "/metrics", nil))
	if rec.Code != 200 {
		w.Fatalf("scrape: %d %s", rec.Code, rec.Body)
	}
	return rec.Body.String()
}

// want compares the samples of these series, without histograms' buckets and without
// those of provider pins, which every configuration has, with lines.
func (w *world) want(step string, names []string, lines ...string) {
	w.Helper()
	var got []string
	for text := range strings.Lines(w.text()) {
		name, _, _ := strings.Cut(strings.TrimRight(text, "\n"), " ")
		base, _, _ := strings.Cut(name, "{")
		for _, n := range names {
			if base == n && !strings.Contains(name, `/*"`) {
				got = append(got, strings.TrimRight(text, "\n"))
			}
		}
	}
	if diff := cmp.Diff(lines, got); diff != "" {
		w.Errorf("%s: %s", step, diff)
	}
}
