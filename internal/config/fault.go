package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Fault is one thing that is wrong with a configuration.
type Fault struct {
	File  string
	Line  int    // from 1; 0 when the file could not be read at all
	Field string // as routes[2].targets[0].provider; "" when it is not about one
	Msg   string
}

// String gives "file:line: field: what is wrong".
func (f Fault) String() string {
	s := f.File
	if f.Line > 0 {
		s += ":" + strconv.Itoa(f.Line)
	}
	if f.Field != "" {
		s += ": " + f.Field
	}
	return s + ": " + f.Msg
}

// Faults is the error of Load and Parse: all faults of a file, by line.
type Faults []Fault

// Error gives one line per fault.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, fault := range f {
		lines[i] = fault.String()
	}
	return strings.Join(lines, "\n")
}

// maxFaults is how many faults of one file are told. Nobody reads more at once, and a file
// that is not a configuration at all has as many as it has lines.
const maxFaults = 100

// collector gathers faults and keeps the first maxFaults by line, so that it
// needs no more memory however many there are.
type collector struct {
	file  string
	kept  []Fault
	total int
	full  int // from this line on nothing is kept any more; 0 = no such line yet
}

func (c *collector) add(line int, field, format string, args ...any) {
	c.total++
	if c.full > 0 && line >= c.full {
		return
	}
	c.kept = append(c.kept, Fault{File: c.file, Line: max(line, 1), Field: field, Msg: fmt.Sprintf(format, args...)})
	if len(c.kept) >= 2*maxFaults {
		c.trim()
	}
}

func (c *collector) trim() {
	slices.SortStableFunc(c.kept, func(a, b Fault) int { return cmp.Compare(a.Line, b.Line) })
	if len(c.kept) >= maxFaults {
		c.kept = c.kept[:maxFaults]
		c.full = c.kept[maxFaults-1].Line
	}
}

// all gives the faults by line; the last one tells how many were left out, if any.
func (c *collector) all() Faults {
	c.trim()
	if more := c.total - len(c.kept); more > 0 {
		last := c.kept[len(c.kept)-1].Line
		c.kept = append(c.kept, Fault{File: c.file, Line: last, Msg: fmt.Sprintf("%d more faults from here on", more)})
	}
	return c.kept
}
