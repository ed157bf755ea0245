// Command benchwire measures what a decision costs on the wire: server CPU per
// request of pointsman, over that of an ext_proc server that answers "continue" to
// everything, in the same run.
//
// A client plays Envoy in mode BUFFERED over a Unix socket: headers, one body
// message, and the end of the stream, on few connections and with a fixed number of
// requests in progress. Rounds of both servers alternate, so that noise of the machine hits
// both; the figure is the median of the rounds' ratios. pointsman runs with
// cache_aware over eight targets and envoy.clusters: external, so no Envoy is
// needed; no access-log entries are sent.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"
)

func main() {
	var (
		kind     = flag.String("serve", "", "internal: serve as noop or pointsman")
		socket   = flag.String("socket", "", "internal: socket to serve on")
		profile  = flag.String("cpuprofile", "", "write pointsman's CPU profile of the last size to this file")
		requests = flag.Int("requests", 4000, "requests per round")
		rounds   = flag.Int("rounds", 7, "rounds per size")
	)
	flag.Parse()
	var err error
	if *kind != "" {
		err = serve(*kind, *socket, *profile)
	} else {
		err = measure(*requests, *rounds, *profile)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchwire:", err)
		os.Exit(1)
	}
}

// sizes are the body sizes compared, in bytes.
var sizes = []int{4 << 10, 32 << 10}

func measure(requests, rounds int, profile string) error {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "benchwire-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()

	fmt.Printf("%-8s %14s %14s %8s   (server CPU per request, median of %d rounds of %d)\n",
		"body", "no-op", "pointsman", "ratio", rounds, requests)
	for i, size := range sizes {
		prof := ""
		if i == len(sizes)-1 {
			prof = profile
		}
		if err := measureSize(ctx, dir, size, requests, rounds, prof); err != nil {
			return err
		}
	}
	return nil
}

func measureSize(ctx context.Context, dir string, size, requests, rounds int, profile string) error {
	noop, err := start(ctx, dir, "noop", "")
	if err != nil {
		return err
	}
	defer noop.stop()
	pm, err := start(ctx, dir, "pointsman", profile)
	if err != nil {
		return err
	}
	defer pm.stop()
	load := newLoad(size)
	for _, s := range []*server{noop, pm} { // warm: connections, pools, histories
		if _, err := s.round(ctx, load, requests); err != nil {
			return err
		}
	}
	var a, b []time.Duration
	var ratios []float64
	for range rounds {
		x, err := noop.round(ctx, load, requests)
		if err != nil {
			return err
		}
		y, err := pm.round(ctx, load, requests)
		if err != nil {
			return err
		}
		a, b = append(a, x), append(b, y)
		ratios = append(ratios, float64(y)/float64(x))
	}
	fmt.Printf("%5d KiB %14s %14s %8.2f\n", size>>10, median(a), median(b), median(ratios))
	return nil
}

func median[T interface{ ~int64 | ~float64 }](v []T) T {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
