// Command testlog turns the events of `go test -json` into a short report: one
// line per package, the slow tests, the whole output of every failed test, and
// every skipped test with its reason.
//
// It is the last stage of a pipe in scripts/test and decides what the rung's
// result is together with go test's own exit code. It is not a test runner:
// what does not look like an event is passed through unchanged.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

// maxLine bounds one input line. Events are cut at line ends by go test, so only
// a test that prints one enormous line comes near it.
const maxLine = 64 << 20

func main() {
	noSkips := flag.Bool("no-skips", false, "fail if any test was skipped")
	summary := flag.String("summary", "", "file to write the closing line to")
	flag.Parse()

	if err := run(os.Stdin, os.Stdout, *summary, *noSkips); err != nil {
		fmt.Fprintln(os.Stderr, "testlog:", err)
		os.Exit(1)
	}
}

// run reports everything read from in and returns an error when the result is
// not good.
func run(in io.Reader, out io.Writer, summary string, noSkips bool) error {
	w := bufio.NewWriter(out)
	rep := newReport(w)
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var ev event
		if err := json.Unmarshal(lines.Bytes(), &ev); err != nil || ev.Action == "" {
			fmt.Fprintf(w, "%s\n", lines.Bytes())
		} else {
			rep.add(ev)
		}
		// A person watches: no line waits for the next one.
		if err := w.Flush(); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read events: %w", err)
	}

	rep.close()
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	if summary != "" {
		if err := os.WriteFile(summary, []byte(rep.totals()+"\n"), 0o644); err != nil {
			return fmt.Errorf("write summary: %w", err)
		}
	}
	return rep.verdict(noSkips)
}

// verdict is nil for a good run. A run without any test is not good: a pattern
// that matches nothing must not pass for a tested program.
func (r *report) verdict(noSkips bool) error {
	switch {
	case r.failed > 0:
		return fmt.Errorf("%d failed", r.failed)
	case noSkips && len(r.skips) > 0:
		return fmt.Errorf("%d skipped where none may be", len(r.skips))
	case r.passed == 0:
		return errors.New("no test ran")
	}
	return nil
}
