package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pointsman/pointsman/internal/trace"
)

func TestRun(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "out.gz")
	source := `{"timestamp":0,"input_length":600,"output_length":1,"hash_ids":[0,1]}
{"timestamp":0,"input_length":600,"output_length":2,"hash_ids":[0,2]}
{"timestamp":3000,"input_length":1100,"output_length":3,"hash_ids":[0,1,3]}
`
	if err := os.WriteFile(in, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	if err := run([]string{"--in", in, "--out", out, "--min-turns", "2"}, &stderr); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(stderr.String(), "excerpt: 2 requests in 1 conversations over 3s") {
		t.Errorf("report: %s", stderr.String())
	}
	f, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var outputs []int
	for row, err := range trace.Rows(f) {
		if err != nil {
			t.Fatal(err)
		}
		outputs = append(outputs, row.OutputLength)
	}
	if len(outputs) != 2 || outputs[0] != 1 || outputs[1] != 3 {
		t.Errorf("rows with outputs %v, want 1 and 3", outputs)
	}
	for _, args := range [][]string{
		{}, {"--in", in}, {"--in", in, "--out", out, "x"}, {"--in", in + "x", "--out", out}, {"--what"},
		{"--in", in, "--out", out, "--min-turns", "9"}, {"--in", in, "--out", filepath.Join(dir, "no", "x")},
	} {
		if err := run(args, io.Discard); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
}
