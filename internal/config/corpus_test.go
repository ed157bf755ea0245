package config

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the expected messages and the reference")

// TestBadFiles holds every file of the corpus against its messages, which are
// all its faults. Numbered cases and reports are named in the files:
// case 9 and report 186 in strategies, case 246 in ids and pin-ids, case 231 in groups, case 415 in listen,
// report 056 in weights, report 187 in durations, numbers and listen, report 190 in unknown-keys.
func TestBadFiles(t *testing.T) {
	for _, file := range glob(t, "testdata/bad/*.yaml") {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			cfg, err := parseFile(t, file)
			var faults Faults
			if !errors.As(err, &faults) {
				t.Fatalf("accepted, or not Faults: %v", err)
			}
			if cfg != nil {
				t.Error("a refused configuration was returned")
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".txt", err.Error()+"\n")
		})
	}
}

// TestGoodFiles holds the warnings of files that are accepted, one golden file for all.
func TestGoodFiles(t *testing.T) {
	var got strings.Builder
	for _, file := range glob(t, "testdata/good/*.yaml") {
		cfg, err := parseFile(t, file)
		if err != nil {
			t.Errorf("refused: %v", err)
			continue
		}
		for _, w := range cfg.Warnings {
			got.WriteString(w + "\n")
		}
	}
	golden(t, "testdata/good/warnings.txt", got.String())
}

func parseFile(t *testing.T, file string) (*Config, error) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return Parse(filepath.Base(file), data)
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	return files
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got), -update rewrites it:\n%s", file, diff)
	}
}
