package lint

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// drawnIn is the file that draws the import edges: a fenced block with the info string
// "edges", one line per package, "extproc -> internal/wire internal/request". A package
// that imports nothing of ours may have a line with an empty right side, or none.
const drawnIn = "ARCHITECTURE.md"

func TestImportEdges(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, drawnIn))
	if err != nil {
		t.Fatalf("the import edges are drawn nowhere: %v", err)
	}
	drawn, err := parseEdges(string(text))
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string][]string)
	for pkg, imports := range packageImports(t) {
		found[pkg] = nil
		for _, imp := range imports {
			if strings.HasPrefix(imp, modulePath+"/") {
				found[pkg] = append(found[pkg], shortName(imp))
			}
		}
	}
	for _, fault := range compareEdges(drawn, found) {
		t.Error(fault)
	}
}

// parseEdges reads the block of edges out of a Markdown text.
func parseEdges(text string) (map[string][]string, error) {
	edges := make(map[string][]string)
	inside, seen := false, false
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		switch {
		case !inside:
			inside = line == "```edges"
			seen = seen || inside
			continue
		case line == "```":
			inside = false
			continue
		case line == "":
			continue
		}
		from, to, ok := strings.Cut(line, "->")
		from = strings.TrimSpace(from)
		if !ok || from == "" || strings.Contains(from, " ") {
			return nil, fmt.Errorf("%s:%d: want 'package -> imports', got %q", drawnIn, number, line)
		}
		if _, twice := edges[from]; twice {
			return nil, fmt.Errorf("%s:%d: %s is drawn twice", drawnIn, number, from)
		}
		edges[from] = strings.Fields(to)
	}
	if !seen {
		return nil, fmt.Errorf("%s has no block that begins with ```edges", drawnIn)
	}
	if inside {
		return nil, fmt.Errorf("%s: the block of edges has no end", drawnIn)
	}
	return edges, nil
}

// compareEdges names every difference between the drawing and the code.
func compareEdges(drawn, found map[string][]string) []string {
	var faults []string
	for _, pkg := range slices.Sorted(maps.Keys(found)) {
		to, ok := drawn[pkg]
		if !ok && len(found[pkg]) > 0 {
			faults = append(faults, fmt.Sprintf("missing package: %s does not draw %s -> %s",
				drawnIn, pkg, strings.Join(found[pkg], " ")))
			continue
		}
		for _, imp := range found[pkg] {
			if !slices.Contains(to, imp) {
				faults = append(faults, fmt.Sprintf("missing edge: %s imports %s, %s does not say so", pkg, imp, drawnIn))
			}
		}
		for _, imp := range to {
			if !slices.Contains(found[pkg], imp) {
				faults = append(faults, fmt.Sprintf("surplus edge: %s says that %s imports %s", drawnIn, pkg, imp))
			}
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(drawn)) {
		if _, ok := found[pkg]; !ok {
			faults = append(faults, fmt.Sprintf("surplus package: %s draws %s, which has no code", drawnIn, pkg))
		}
	}
	return faults
}

func TestParseEdges(t *testing.T) {
	tests := []struct {
		name, text string
		want       map[string][]string
		err        string
	}{
		{
			name: "block among text",
			text: "# A\nx -> y\n```edges\nwire ->\n\nextproc -> wire request\n```\n```\nz -> q\n```\n",
			want: map[string][]string{"wire": {}, "extproc": {"wire", "request"}},
		},
		{name: "no block", text: "wire ->\n", err: "ARCHITECTURE.md has no block that begins with ```edges"},
		{name: "no end", text: "```edges\nwire ->\n", err: "ARCHITECTURE.md: the block of edges has no end"},
		{name: "no arrow", text: "```edges\nwire\n```\n", err: `ARCHITECTURE.md:2: want 'package -> imports', got "wire"`},
		{name: "two packages on the left", text: "```edges\na b -> c\n```\n", err: `ARCHITECTURE.md:2: want 'package -> imports', got "a b -> c"`},
		{name: "twice", text: "```edges\na -> c\na -> d\n```\n", err: "ARCHITECTURE.md:3: a is drawn twice"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := parseEdges(test.text)
			said := ""
			if err != nil {
				said = err.Error()
			}
			if said != test.err {
				t.Errorf("error %q, want %q", said, test.err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("edges (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCompareEdges(t *testing.T) {
	drawn := map[string][]string{"a": {"b", "c"}, "b": {}, "gone": {"a"}}
	found := map[string][]string{"a": {"b", "d"}, "b": nil, "d": {"b"}, "leaf": nil}
	want := []string{
		"missing edge: a imports d, ARCHITECTURE.md does not say so",
		"surplus edge: ARCHITECTURE.md says that a imports c",
		"missing package: ARCHITECTURE.md does not draw d -> b",
		"surplus package: ARCHITECTURE.md draws gone, which has no code",
	}
	if diff := cmp.Diff(want, compareEdges(drawn, found)); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}
