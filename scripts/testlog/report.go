package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// slowTest is the time from which on a passed top-level test gets a line of its own:
// it shows that a long run moves, and where the time goes.
const slowTest = 5 * time.Second

// event is one line of `go test -json`; see `go doc test2json`.
type event struct {
	Action      string
	Package     string
	Test        string // empty for what concerns the package
	Elapsed     float64
	Output      string
	FailedBuild string
}

// testKey names one test, or with an empty test the package.
type testKey struct{ pkg, test string }

// report collects events. It holds the output of unfinished tests only, so its size
// follows what runs at the same time and not the length of the run.
type report struct {
	out            io.Writer
	passed, failed int
	skips          []string
	pending        map[testKey]*strings.Builder
	failedIn       map[string]int // failed tests by package
}

func newReport(out io.Writer) *report {
	return &report{
		out:      out,
		pending:  make(map[testKey]*strings.Builder),
		failedIn: make(map[string]int),
	}
}

// add takes the next event.
func (r *report) add(ev event) {
	key := testKey{ev.Package, ev.Test}
	switch ev.Action {
	case "build-output":
		fmt.Fprint(r.out, ev.Output)
	case "output":
		r.output(key, ev.Output)
	case "pass", "fail", "skip":
		if ev.Test == "" {
			r.endPackage(ev)
		} else {
			r.endTest(key, ev)
		}
	}
}

func (r *report) output(key testKey, text string) {
	if key.test == "" && (strings.HasPrefix(text, "ok  \t") || strings.HasPrefix(text, "FAIL\t")) {
		fmt.Fprint(r.out, text)
		return
	}
	b := r.pending[key]
	if b == nil {
		b = new(strings.Builder)
		r.pending[key] = b
	}
	b.WriteString(text)
}

func (r *report) endTest(key testKey, ev event) {
	text := r.take(key)
	switch ev.Action {
	case "pass":
		r.passed++
		took := time.Duration(ev.Elapsed * float64(time.Second))
		if took >= slowTest && !strings.Contains(key.test, "/") {
			fmt.Fprintf(r.out, "    %s %.0fs\n", key.test, took.Seconds())
		}
	case "fail":
		r.failed++
		r.failedIn[key.pkg]++
		fmt.Fprint(r.out, text)
	case "skip":
		r.skips = append(r.skips, fmt.Sprintf("%s %s: %s", key.pkg, key.test, reason(text)))
	}
}

// endPackage prints what a failed package said outside its finished tests: the panic,
// the time-out, the exit of TestMain. A package that failed without a failed
// test (it did not build, say) counts as one.
func (r *report) endPackage(ev event) {
	unfinished := slices.SortedFunc(maps.Keys(r.pending), func(a, b testKey) int {
		return strings.Compare(a.test, b.test)
	})
	for _, key := range unfinished {
		if key.pkg != ev.Package {
			continue
		}
		text := r.take(key)
		if ev.Action == "fail" {
			fmt.Fprint(r.out, text)
		}
	}
	if ev.Action == "fail" && r.failedIn[ev.Package] == 0 {
		r.failed++
	}
}

// close ends the report: a stream that stops in mid-package was cut, and what its
// tests had said is all there is to find out why.
func (r *report) close() {
	cut := make(map[string]bool)
	for key := range r.pending {
		cut[key.pkg] = true
	}
	for _, pkg := range slices.Sorted(maps.Keys(cut)) {
		fmt.Fprintf(r.out, "FAIL\t%s [no result]\n", pkg)
		r.endPackage(event{Action: "fail", Package: pkg})
	}
	for _, s := range r.skips {
		fmt.Fprintf(r.out, "skipped: %s\n", s)
	}
}

// totals is the closing line.
func (r *report) totals() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", r.passed, r.failed, len(r.skips))
}

func (r *report) take(key testKey) string {
	b := r.pending[key]
	delete(r.pending, key)
	if b == nil {
		return ""
	}
	return b.String()
}

// reason finds what a skipped test said about it: its last line of output that is
// not the runner's own ("=== RUN", "--- SKIP").
func reason(output string) string {
	found := "no reason given"
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "===") && !strings.HasPrefix(line, "---") {
			found = line
		}
	}
	return found
}
