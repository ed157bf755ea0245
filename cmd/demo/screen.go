package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// How often the table is shown: a terminal redraws it in its place, a log gets
// a new one each time.
const (
	terminalPeriod = time.Second
	logPeriod      = 5 * time.Second
	// firstTable is when the first one is due, in a log too.
	firstTable = 2 * time.Second
)

// screen shows the table. One goroutine uses it.
type screen struct {
	w        io.Writer
	terminal bool
	drawn    int // lines to go up to draw over the last table
}

// newScreen finds out whether f is a terminal.
func newScreen(f *os.File) *screen {
	info, err := f.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	return &screen{w: f, terminal: terminal}
}

// period is the time between two tables.
func (s *screen) period() time.Duration {
	if s.terminal {
		return terminalPeriod
	}
	return logPeriod
}

// draw shows a table, on a terminal over the one before.
func (s *screen) draw(table string) {
	if s.terminal && s.drawn > 0 {
		fmt.Fprintf(s.w, "\x1b[%dA\x1b[J", s.drawn)
	}
	fmt.Fprint(s.w, table)
	s.drawn = strings.Count(table, "\n")
	if !s.terminal {
		fmt.Fprintln(s.w)
	}
}

// say shows a text that stays.
func (s *screen) say(text string) {
	fmt.Fprintln(s.w, text)
	s.drawn = 0
}
