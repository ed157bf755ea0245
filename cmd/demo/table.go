package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// table renders the live table: a line per route and per engine, at most 79
// characters wide.
func (v *view) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  Mooncake conversations, %d times as fast, to both routes at once\n\n", clock(v.elapsed), compression)
	fmt.Fprintf(&b, "%-18s %8s %9s %7s %4s %4s %8s %8s\n", "route / engine", "requests", "in flight", "hits", "lost", "cut", "TTFT p50", "p95")
	for i := range v.routes {
		r := &v.routes[i]
		t := r.total()
		t.requests, t.inFlight = r.sent, r.inFlight
		row(&b, r.route.model, &t, strconv.Itoa(r.lost), "")
		for j := range r.engines {
			e := &r.engines[j]
			mark := ""
			if e.dead {
				mark = "  DEAD"
			}
			row(&b, "  "+e.engine.name, e, "", mark)
		}
	}
	for _, e := range v.events {
		b.WriteString(e + "\n")
	}
	return b.String()
}

func row(b *strings.Builder, name string, e *engineCount, lost, mark string) {
	fmt.Fprintf(b, "%-18s %8d %9d %7s %4s %4d %8s %8s%s\n", name, e.requests, e.inFlight, percent(e), lost, e.cut,
		millis(e.ttft.quantile(0.5)), millis(e.ttft.quantile(0.95)), mark)
}

// summary renders the comparison at the end.
func (v *view) summary() string {
	var b strings.Builder
	fmt.Fprintf(&b, "After %s\n\n", clock(v.elapsed))
	totals := make([]engineCount, len(v.routes))
	for i := range v.routes {
		totals[i] = v.routes[i].total()
	}
	line := func(name string, value func(r *routeCount, t *engineCount) string) {
		fmt.Fprintf(&b, "%-34s", name)
		for i := range v.routes {
			fmt.Fprintf(&b, " %18s", value(&v.routes[i], &totals[i]))
		}
		b.WriteByte('\n')
	}
	line("", func(r *routeCount, _ *engineCount) string { return r.route.strategy })
	line("requests sent", func(r *routeCount, _ *engineCount) string { return strconv.Itoa(r.sent) })
	line("answered completely", func(_ *routeCount, t *engineCount) string { return strconv.Itoa(t.complete) })
	line("cut with the engine that died", func(_ *routeCount, t *engineCount) string { return strconv.Itoa(t.cut) })
	line("cut on a living engine", func(_ *routeCount, t *engineCount) string { return strconv.Itoa(t.broken) })
	line("lost", func(r *routeCount, _ *engineCount) string { return strconv.Itoa(r.lost) })
	line("not over at the end", func(r *routeCount, t *engineCount) string {
		return strconv.Itoa(r.sent - t.complete - t.cut - t.broken - r.lost)
	})
	line("prompt tokens found in a cache", func(_ *routeCount, t *engineCount) string { return percent(t) })
	line("prompt tokens computed", func(_ *routeCount, t *engineCount) string {
		return fmt.Sprintf("%.2f M", float64(t.prompt-t.cached)/1e6)
	})
	line("time to first token, median", func(_ *routeCount, t *engineCount) string { return millis(t.ttft.quantile(0.5)) })
	line("time to first token, p95", func(_ *routeCount, t *engineCount) string { return millis(t.ttft.quantile(0.95)) })
	if v.skipped > 0 {
		fmt.Fprintf(&b, "%d arrivals were skipped: too many requests were in flight\n", v.skipped)
	}
	if sentence := v.compare(totals); sentence != "" {
		b.WriteString("\n" + sentence)
	}
	return b.String()
}

// compare says in words how the first route did against the second; "" while
// there is nothing to compare.
func (v *view) compare(totals []engineCount) string {
	if len(totals) != 2 || totals[0].complete == 0 || totals[1].complete == 0 {
		return ""
	}
	ratio := func(q float64) string {
		a, b := totals[0].ttft.quantile(q), totals[1].ttft.quantile(q)
		if a <= b {
			return fmt.Sprintf("%.1f times faster", float64(b)/float64(a))
		}
		return fmt.Sprintf("%.1f times slower", float64(a)/float64(b))
	}
	return fmt.Sprintf("%s found %s of all prompt tokens in a cache, %s %s.\nIts first tokens came %s at the median, %s at p95.\n",
		v.routes[0].route.strategy, percent(&totals[0]), v.routes[1].route.strategy, percent(&totals[1]), ratio(0.5), ratio(0.95))
}

func percent(e *engineCount) string {
	share, known := e.hitShare()
	if !known {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*share)
}

// millis is a duration in milliseconds, "-" when there is none.
func millis(d time.Duration) string {
	switch {
	case d == 0:
		return "-"
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	default:
		return fmt.Sprintf("%.0f ms", float64(d)/1e6)
	}
}

// clock is a duration as minutes and seconds.
func clock(d time.Duration) string {
	s := int(d.Round(time.Second) / time.Second)
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
