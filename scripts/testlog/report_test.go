package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReport(t *testing.T) {
	tests := []struct {
		name    string
		noSkips bool
		events  string
		want    string
		totals  string
		err     string
	}{
		{
			name: "passed: output is dropped, slow tests are shown",
			events: `{"Action":"start","Package":"m/a"}
{"Action":"output","Package":"m/a","Test":"TestA","Output":"noise\n"}
{"Action":"pass","Package":"m/a","Test":"TestA/sub","Elapsed":9}
{"Action":"pass","Package":"m/a","Test":"TestA","Elapsed":9}
{"Action":"output","Package":"m/a","Output":"PASS\n"}
{"Action":"output","Package":"m/a","Output":"ok  \tm/a\t9.1s\n"}
{"Action":"pass","Package":"m/a","Elapsed":9.1}`,
			want:   "    TestA 9s\nok  \tm/a\t9.1s\n",
			totals: "2 passed, 0 failed, 0 skipped",
		},
		{
			name: "failed: the whole output of the failed test only",
			events: `{"Action":"output","Package":"m/a","Test":"TestA","Output":"fine\n"}
{"Action":"pass","Package":"m/a","Test":"TestA"}
{"Action":"output","Package":"m/a","Test":"TestB","Output":"=== RUN   TestB\n"}
{"Action":"output","Package":"m/a","Test":"TestB","Output":"    b_test.go:3: wrong\n"}
{"Action":"fail","Package":"m/a","Test":"TestB"}
{"Action":"output","Package":"m/a","Output":"FAIL\tm/a\t0.1s\n"}
{"Action":"fail","Package":"m/a"}`,
			want:   "=== RUN   TestB\n    b_test.go:3: wrong\nFAIL\tm/a\t0.1s\n",
			totals: "1 passed, 1 failed, 0 skipped",
			err:    "1 failed",
		},
		{
			name: "a panic: output of the package and of unfinished tests",
			events: `{"Action":"output","Package":"m/a","Test":"TestA","Output":"panic: oh\n"}
{"Action":"output","Package":"m/a","Output":"exit status 2\n"}
{"Action":"fail","Package":"m/a"}`,
			want:   "exit status 2\npanic: oh\n",
			totals: "0 passed, 1 failed, 0 skipped",
			err:    "1 failed",
		},
		{
			name: "does not build",
			events: `{"ImportPath":"m/a","Action":"build-output","Output":"a.go:1: undefined: x\n"}
{"ImportPath":"m/a","Action":"build-fail"}
{"Action":"output","Package":"m/a","Output":"FAIL\tm/a [build failed]\n"}
{"Action":"fail","Package":"m/a","FailedBuild":"m/a"}`,
			want:   "a.go:1: undefined: x\nFAIL\tm/a [build failed]\n",
			totals: "0 passed, 1 failed, 0 skipped",
			err:    "1 failed",
		},
		{
			name: "skipped with its reason",
			events: `{"Action":"pass","Package":"m/a","Test":"TestA"}
{"Action":"output","Package":"m/a","Test":"TestB","Output":"    b_test.go:3: no Envoy\n"}
{"Action":"output","Package":"m/a","Test":"TestB","Output":"--- SKIP: TestB (0.00s)\n"}
{"Action":"skip","Package":"m/a","Test":"TestB"}
{"Action":"pass","Package":"m/a"}
{"Action":"skip","Package":"m/without-tests"}`,
			want:   "skipped: m/a TestB: b_test.go:3: no Envoy\n",
			totals: "1 passed, 0 failed, 1 skipped",
		},
		{
			name:    "skipped where none may be",
			noSkips: true,
			events: `{"Action":"pass","Package":"m/a","Test":"TestA"}
{"Action":"skip","Package":"m/a","Test":"TestB"}`,
			want:   "skipped: m/a TestB: no reason given\n",
			totals: "1 passed, 0 failed, 1 skipped",
			err:    "1 skipped where none may be",
		},
		{
			name:   "cut in mid-package",
			events: `{"Action":"output","Package":"m/a","Test":"TestA","Output":"begun\n"}`,
			want:   "FAIL\tm/a [no result]\nbegun\n",
			totals: "0 passed, 1 failed, 0 skipped",
			err:    "1 failed",
		},
		{
			name:   "no event at all is passed through",
			events: "go: no such package\n{\"half\":",
			want:   "go: no such package\n{\"half\":\n",
			totals: "0 passed, 0 failed, 0 skipped",
			err:    "no test ran",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "summary")
			var out strings.Builder
			err := run(strings.NewReader(test.events), &out, file, test.noSkips)
			if diff := cmp.Diff(test.want, out.String()); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
			said := ""
			if err != nil {
				said = err.Error()
			}
			if said != test.err {
				t.Errorf("verdict %q, want %q", said, test.err)
			}
			totals, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.TrimSpace(string(totals)); got != test.totals {
				t.Errorf("totals %q, want %q", got, test.totals)
			}
		})
	}
}
