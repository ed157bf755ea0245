package main

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/config"
)

// played is a board after a scripted demo of 40 seconds.
func played() *board {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return begin.Add(time.Duration(s) * time.Second) }
	b := newBoard(theRoutes(), begin)
	request := func(route int, engine string, r result) {
		b.sent(route)
		if engine != "" {
			b.answered(route, engine)
		}
		r.engine = engine
		b.done(route, r)
	}
	for range 3 {
		request(0, "ca-fast", result{ttft: 100 * time.Millisecond, prompt: 1000, cached: 640})
		request(1, "rr-fast", result{ttft: 200 * time.Millisecond, prompt: 1000, cached: 320})
	}
	request(1, "rr-slow", result{ttft: 1234 * time.Millisecond, prompt: 500, cached: 0})
	b.sent(0) // waits for headers
	b.sent(0)
	b.answered(0, "ca-mid") // is being answered
	b.killed(0, 1, at(16))
	b.event(at(16), "ca-mid and rr-mid killed")
	request(0, "ca-mid", result{outcome: broken, sent: at(15), reason: "reset"})
	request(0, "ca-mid", result{outcome: broken, sent: at(17), reason: "reset"}) // while it dies
	return b
}

// Quantiles are right to 2 %: 1,234 ms shows as 1241.
func TestTable(t *testing.T) {
	b := played()
	v := b.look(b.start.Add(20 * time.Second))
	want := `
0:20  Mooncake conversations, 30 times as fast, to both routes at once

route / engine     requests in flight    hits lost  cut TTFT p50      p95
conv-cache-aware          7         2  64.0 %    0    2   100 ms   100 ms
  ca-fast                 3         0  64.0 %         0   100 ms   100 ms
  ca-mid                  3         1       -         2        -        -  DEAD
  ca-slow                 0         0       -         0        -        -
conv-round-robin          4         0  27.4 %    0    0   201 ms  1241 ms
  rr-fast                 3         0  32.0 %         0   201 ms   201 ms
  rr-mid                  0         0       -         0        -        -
  rr-slow                 1         0   0.0 %         0  1241 ms  1241 ms
0:16  ca-mid and rr-mid killed
`
	if diff := cmp.Diff(want[1:], v.table()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSummary(t *testing.T) {
	b := played()
	v := b.look(b.start.Add(40 * time.Second))
	want := `
After 0:40

                                          cache_aware        round_robin
requests sent                                       7                  4
answered completely                                 3                  4
cut with the engine that died                       2                  0
cut on a living engine                              0                  0
lost                                                0                  0
not over at the end                                 2                  0
prompt tokens found in a cache                 64.0 %             27.4 %
prompt tokens computed                         0.00 M             0.00 M
time to first token, median                    100 ms             201 ms
time to first token, p95                       100 ms            1241 ms

cache_aware found 64.0 % of all prompt tokens in a cache, round_robin 27.4 %.
Its first tokens came 2.0 times faster at the median, 12.4 times faster at p95.
`
	got := v.summary()
	if diff := cmp.Diff(want[1:], got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := v.verdict(); err != nil {
		t.Errorf("verdict: %v", err)
	}
}

func TestVerdict(t *testing.T) {
	now := time.Now()
	tests := []struct {
		name   string
		engine string
		result result
		err    string
	}{
		{"complete", "rr-mid", result{}, ""},
		{"abandoned", "", result{outcome: abandoned}, ""},
		{"lost", "", result{outcome: lost, reason: "refused"}, "1 requests were lost\n    conv-round-robin: lost: refused"},
		{"cut by a kill", "rr-slow", result{outcome: broken, sent: now.Add(-time.Second)}, ""},
		{"sent before, cut after the revival", "rr-fast", result{outcome: broken, sent: now.Add(-time.Second)}, ""},
		{"sent and cut after the revival", "rr-fast", result{outcome: broken, sent: now.Add(time.Second), reason: "eof"}, "cut on rr-fast, which is alive: eof"},
		{"cut on a living engine", "rr-mid", result{outcome: broken, sent: now, reason: "eof"}, "1 streams were cut on living engines"},
		{"cut, from nobody", "what", result{outcome: broken, sent: now, reason: "eof"}, "lost: from what: eof"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBoard(theRoutes(), now)
			b.killed(1, 0, now)
			b.revived(1, 0)
			b.killed(1, 2, now)
			b.sent(1)
			if tt.engine != "" {
				b.answered(1, tt.engine)
			}
			tt.result.engine = tt.engine
			b.done(1, tt.result)
			v := b.look(now)
			got := v.verdict()
			if (got == nil) != (tt.err == "") || got != nil && !strings.Contains(got.Error(), tt.err) {
				t.Errorf("%v, want %q", got, tt.err)
			}
			if v.routes[1].inFlight != 0 || v.routes[1].sent != 1 {
				t.Errorf("in flight %d", v.routes[1].inFlight)
			}
		})
	}
}

func TestWordsAreBounded(t *testing.T) {
	b := newBoard(theRoutes(), time.Now())
	for range 100 {
		b.event(time.Now(), "x")
		b.sent(0)
		b.done(0, result{outcome: lost, reason: "x"})
	}
	if v := b.look(time.Now()); len(v.events) != maxEvents || len(v.reasons) != maxReasons {
		t.Errorf("%d events, %d reasons", len(v.events), len(v.reasons))
	}
}

func TestHistogram(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var h, first histogram
	all := make([]time.Duration, 5000)
	for i := range all {
		all[i] = time.Duration(rng.ExpFloat64() * float64(80*time.Millisecond))
		h.add(all[i])
		if i == 0 {
			first.add(all[i])
		}
	}
	slices.Sort(all)
	for _, q := range []float64{0, 0.5, 0.95, 1} {
		got, want := h.quantile(q), all[max(0, int(q*float64(len(all)))-1)]
		if want > histogramLow && (float64(got) < float64(want)*0.999 || float64(got) > float64(want)*1.021) {
			t.Errorf("quantile %v: %v, want %v", q, got, want)
		}
	}
	if new(histogram).quantile(0.5) != 0 {
		t.Error("a quantile of nothing")
	}
	h.add(time.Hour)
	h.plus(&first)
	if h.total != 5002 || h.quantile(1) < 90*time.Second {
		t.Errorf("%d, longest %v", h.total, h.quantile(1))
	}
}

// pointsman accepts the configuration that the demo writes.
func TestConfiguration(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "pointsman.yaml")
	addrs := make(map[string]string)
	for i, name := range []string{"ca-fast", "ca-mid", "ca-slow", "rr-fast", "rr-mid", "rr-slow"} {
		addrs[name] = "127.0.0.1:" + string(rune('1'+i)) + "000"
	}
	if err := os.WriteFile(path, []byte(configuration("/x", "127.0.0.1:81", "127.0.0.1:82", theRoutes(), addrs)), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Routes) != 2 || len(c.Providers) != 6 || c.Routes[0].Strategy != "cache_aware" || c.Routes[1].Targets[2].Model != upstreamModel ||
		c.Envoy.Listener != "127.0.0.1:81" || c.Listen.Admin != "127.0.0.1:82" || c.Listen.GRPC.Addr != "/x/grpc.sock" || c.Drain.Timeout != time.Second {
		t.Errorf("%+v", c)
	}
	// The sets of engines are disjoint.
	seen := map[string]bool{}
	for _, r := range c.Routes {
		for _, target := range r.Targets {
			if seen[target.Provider] {
				t.Errorf("%s serves two routes", target.Provider)
			}
			seen[target.Provider] = true
		}
	}
}

func TestOutages(t *testing.T) {
	o, ok := outageAt(0, 40*time.Second, 3)
	if want := (outage{engine: 1, kill: 16 * time.Second, back: 26 * time.Second}); !ok || o != want {
		t.Errorf("%+v, %v", o, ok)
	}
	if _, ok := outageAt(1, 40*time.Second, 3); ok {
		t.Error("two outages in a demo of limited length")
	}
	seen := map[int]bool{}
	for n := range 3 {
		o, ok := outageAt(n, 0, 3)
		if !ok || o.back <= o.kill || o.kill < time.Duration(n)*outagePeriod {
			t.Errorf("outage %d: %+v, %v", n, o, ok)
		}
		seen[o.engine] = true
	}
	if len(seen) != 3 {
		t.Error("not every engine has its turn")
	}
}

func TestScreen(t *testing.T) {
	var b bytes.Buffer
	s := &screen{w: &b, terminal: true}
	s.draw("a\nb\n")
	s.draw("c\n")
	s.say("end")
	s.draw("d\n")
	if want := "a\nb\n\x1b[2A\x1b[Jc\nend\nd\n"; b.String() != want {
		t.Errorf("terminal: %q, want %q", b.String(), want)
	}
	b.Reset()
	s = &screen{w: &b}
	s.draw("a\nb\n")
	s.draw("c\n")
	if want := "a\nb\n\nc\n\n"; b.String() != want {
		t.Errorf("log: %q, want %q", b.String(), want)
	}
}
