package metrics

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/ledger"
)

var update = flag.Bool("update", false, "write testdata/exposition.txt anew")

func attempt(number int, o ledger.Outcome) *ledger.Attempt {
	return &ledger.Attempt{Number: number, Outcome: o}
}

// Everything that a scrape gets after a little of everything: names, types, labels, units and
// buckets as the specification has them.
func TestExposition(t *testing.T) {
	w := newWorld(t)
	w.proxies = proxies{2, 1, map[string]uint64{"cluster": 3, "listener": 0, "route": 0}}
	w.dropped = 4
	w.load(route{"llama", "round_robin", []string{"gpu-a", "gpu-b"}}, route{"qwen", "cache_aware", []string{"gpu-b"}})

	m := w.metrics
	d := w.decide("llama", "hello") // on gpu-a; stays in flight
	m.Attempted("llama", d.Entry(0).ID, attempt(1, ledger.ErrorStatus), true)
	m.Attempted("llama", "gpu-b/up", attempt(2, ledger.Complete), false)
	m.Closed(ledger.Record{Pool: "llama", Status: 200, Attempts: 2, Duration: 1200 * time.Millisecond, TTFT: 300 * time.Millisecond})
	w.tracker.Target("gpu-b/up").Sample(time.Now(), 1500)
	w.tracker.Target("gpu-a/up").Park(time.Now(), time.Hour)
	q := w.decide("qwen", strings.Repeat("q", 100))
	w.router.Free(q)
	q = w.decide("qwen", strings.Repeat("q", 100)) // known by now
	w.router.Free(q)
	w.tracker.Target("gpu-b/up").Park(time.Now(), time.Hour)
	w.router.Free(w.decide("qwen", "fails open"))
	m.Attempted("qwen", "gpu-b/up", attempt(1, ledger.AuthError), false)
	m.Answered(ledger.Answer{Status: 404, Code: "model_not_found"})
	m.Answered(ledger.Answer{Pool: "qwen", Status: 503, Code: "no_target"})
	m.Late()
	m.ReloadRefused()

	const golden = "testdata/exposition.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(w.text()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(w.text(), "\n")); diff != "" {
		t.Errorf("(go test -update writes it anew) %s", diff)
	}
}

// Every outcome is counted, and those that are failures as errors too.
func TestOutcomes(t *testing.T) {
	w := newWorld(t)
	w.load(route{"m", "round_robin", []string{"a"}})
	for _, o := range ledger.Outcomes() {
		w.metrics.Attempted("m", "a/up", attempt(1, o), false)
	}
	var outcomes []string
	for _, word := range []string{"auth_error", "client_error", "client_gone", "client_left", "complete", "cut",
		"error_status", "no_response", "refused", "timeout", "unknown"} {
		outcomes = append(outcomes, `pointsman_outcomes_total{outcome="`+word+`",target="a/up"} 1`)
	}
	w.want("outcomes", []string{"pointsman_outcomes_total"}, outcomes...)
	w.want("errors", []string{"pointsman_upstream_errors_total", "pointsman_upstream_auth_failures_total"},
		`pointsman_upstream_auth_failures_total{target="a/up"} 1`,
		`pointsman_upstream_errors_total{reason="cut",target="a/up"} 1`,
		`pointsman_upstream_errors_total{reason="error_status",target="a/up"} 1`,
		`pointsman_upstream_errors_total{reason="no_response",target="a/up"} 1`,
		`pointsman_upstream_errors_total{reason="refused",target="a/up"} 1`,
		`pointsman_upstream_errors_total{reason="timeout",target="a/up"} 1`)
}

// The code of a request: the status that the client got, and a word where none is known.
func TestCodes(t *testing.T) {
	w := newWorld(t)
	w.load(route{"m", "round_robin", []string{"a"}})
	for _, status := range []int{0, 200, 499, 504, 1, 1000, 123456} {
		w.metrics.Closed(ledger.Record{Pool: "m", Status: status})
	}
	w.metrics.Answered(ledger.Answer{Status: 413})
	w.metrics.Answered(ledger.Answer{Decision: "x-1", Pool: "m", Status: 504}) // counted when it is closed
	w.metrics.Answered(ledger.Answer{Pool: "gone", Status: 503})
	w.want("codes", []string{"pointsman_requests_total"},
		`pointsman_requests_total{code="200",model="m"} 1`,
		`pointsman_requests_total{code="413",model=""} 1`,
		`pointsman_requests_total{code="499",model="m"} 1`,
		`pointsman_requests_total{code="504",model="m"} 1`,
		`pointsman_requests_total{code="other",model="m"} 3`,
		`pointsman_requests_total{code="unknown",model="m"} 1`)
}

// A request whose first byte was not heard of has no time to it.
func TestTTFTUnknown(t *testing.T) {
	w := newWorld(t)
	w.load(route{"m", "round_robin", []string{"a"}})
	w.metrics.Closed(ledger.Record{Pool: "m", Status: 502, Duration: time.Second})
	w.want("histograms", []string{"pointsman_request_duration_seconds_count", "pointsman_request_ttft_seconds_count"},
		`pointsman_request_duration_seconds_count{model="m"} 1`,
		`pointsman_request_ttft_seconds_count{model="m"} 0`)
}

// Report 122: 10 targets become 2, then 200 come and go. Only those that exist have series.
func TestRemovedTargets(t *testing.T) {
	w := newWorld(t)
	var ten []string
	for i := range 10 {
		ten = append(ten, fmt.Sprintf("n%d", i))
	}
	all := func(providers ...string) {
		t.Helper()
		w.load(route{"m", "round_robin", providers})
		for range providers {
			w.router.Free(w.decide("m", "x"))
		}
		for _, p := range providers {
			for _, o := range ledger.Outcomes() {
				w.metrics.Attempted("m", p+"/up", attempt(2, o), true)
			}
		}
	}
	all(ten...)
	all(ten[:2]...)
	for i := range 200 {
		all("n0", "n1", fmt.Sprintf("churn%d", i))
	}
	w.load(route{"m", "round_robin", ten[:2]})
	text := w.text()
	for _, gone := range []string{"churn", "n2", "n9"} {
		if strings.Contains(text, `"`+gone) {
			t.Errorf("series of %s are left", gone)
		}
	}
	// Those that stayed have counted on.
	w.want("n0", []string{"pointsman_upstream_auth_failures_total"},
		`pointsman_upstream_auth_failures_total{target="n0/up"} 202`, `pointsman_upstream_auth_failures_total{target="n1/up"} 202`)
	w.want("version", []string{"pointsman_config_version", "pointsman_config_reloads_total"},
		`pointsman_config_reloads_total 202`, `pointsman_config_version 203`)
}

// A route that goes takes its series along, also when its targets stay; so does a strategy.
func TestRemovedRoutes(t *testing.T) {
	w := newWorld(t)
	keep := route{"keep", "round_robin", []string{"a", "b"}}
	w.load(keep, route{"gone", "cache_aware", []string{"a"}})
	d := w.decide("gone", "x")
	w.metrics.Answered(ledger.Answer{Pool: "gone", Status: 503})
	w.load(keep)
	// What ends now was begun before.
	w.metrics.Decided(d)
	w.metrics.Attempted("gone", "a/up", attempt(2, ledger.Complete), false)
	w.metrics.Closed(ledger.Record{Pool: "gone", Status: 200, Duration: time.Second, TTFT: time.Second})
	if text := w.text(); strings.Contains(text, `"gone"`) {
		t.Errorf("series of a removed route:\n%s", text)
	}
	w.want("its target is still there", []string{"pointsman_outcomes_total"}, `pointsman_outcomes_total{outcome="complete",target="a/up"} 1`)

	w.router.Free(w.decide("keep", "x"))
	w.load(route{"keep", "cache_aware", []string{"b"}})
	w.want("another strategy, a target fewer", []string{"pointsman_decisions_total"},
		`pointsman_decisions_total{model="keep",strategy="cache_aware",target="b/up"} 0`)
}

// Report 119: 5,000 junk names create nothing, and the real one keeps its label.
func TestJunkModels(t *testing.T) {
	w := newWorld(t)
	w.load(route{`real "model"` + "\\", "round_robin", []string{"a"}})
	before := strings.Count(w.text(), "\n")
	for i := range 5000 {
		name := fmt.Sprintf("junk\n\"%d\xff", i) + strings.Repeat("x", 2000)
		w.metrics.Answered(ledger.Answer{Pool: "", Status: 404, Code: "model_not_found"})
		w.metrics.Answered(ledger.Answer{Pool: name, Status: 404})
		w.metrics.Attempted(name, name, attempt(2, ledger.Complete), true)
		w.metrics.Closed(ledger.Record{Pool: name, Status: 200, Duration: time.Second, TTFT: time.Second})
	}
	for range 100 {
		w.metrics.Closed(ledger.Record{Pool: `real "model"` + "\\", Status: 200})
	}
	text := w.text()
	if n := strings.Count(text, "\n") - before; n > 5 {
		t.Errorf("%d more lines", n)
	}
	if len(text) > 1<<20 || strings.Contains(text, "junk") {
		t.Errorf("%d bytes", len(text))
	}
	w.want("requests", []string{"pointsman_requests_total"},
		`pointsman_requests_total{code="200",model="real \"model\"\\"} 100`,
		`pointsman_requests_total{code="404",model=""} 5000`)
}

// Counting beside reloads brings no series of what is gone back.
func TestCountingBesideReloads(t *testing.T) {
	w := newWorld(t)
	w.load(route{"m", "round_robin", []string{"a"}})
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				w.metrics.Attempted("brief", "b/up", attempt(2, ledger.Complete), true)
				w.metrics.Closed(ledger.Record{Pool: "brief", Status: 200, TTFT: time.Second})
				w.metrics.Answered(ledger.Answer{Pool: "brief", Status: 503})
			}
		})
	}
	for range 40 {
		w.load(route{"m", "round_robin", []string{"a"}}, route{"brief", "cache_aware", []string{"b"}})
		w.load(route{"m", "round_robin", []string{"a"}})
		if text := w.text(); strings.Contains(text, "brief") || strings.Contains(text, "b/up") {
			t.Errorf("series that came back:\n%s", text)
			break
		}
	}
	close(done)
	wg.Wait()
}

// Before the first configuration there is nothing to count, and that is no fault.
func TestBeforeConfiguration(t *testing.T) {
	w := newWorld(t)
	w.metrics.Attempted("m", "a", attempt(2, ledger.Complete), true)
	w.metrics.Closed(ledger.Record{Pool: "m", Status: 200})
	w.metrics.Answered(ledger.Answer{Pool: "m", Status: 503})
}
