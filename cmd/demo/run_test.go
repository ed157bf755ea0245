package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The whole demo with real engines and a stand-in for pointsman and Envoy.
func TestRun(t *testing.T) {
	simulator := buildSimulator(t)
	tests := []struct {
		mode   string
		length time.Duration
		err    []string // nil = none
		out    []string
	}{
		{mode: "good", length: 5 * time.Second, out: []string{
			"conv-cache-aware", "  ca-mid", "  ca-mid and rr-mid killed", "  ca-mid and rr-mid alive again",
			"After 0:", "answered completely", "Its first tokens came",
		}},
		{mode: "broken", length: time.Minute, err: []string{"pointsman has ended unexpectedly (exit status 1)", "envoy: no such thing"}},
		{mode: "dies", length: time.Minute, err: []string{"pointsman has ended unexpectedly (exit status 3)", "the roof is on fire"}},
		{mode: "loses", length: 2 * time.Second, err: []string{"1 requests were lost", "lost: status 502"}},
		{mode: "cuts", length: 2 * time.Second, err: []string{"1 streams were cut on living engines", "which is alive: "}},
	}
	for _, tt := range tests {
		t.Run(tt.mode, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			var out bytes.Buffer
			o := options{pointsman: os.Args[0], enginesim: simulator, envoy: tt.mode, length: tt.length, tempDir: dir}
			err := run(t.Context(), o, &screen{w: &out})
			if (err == nil) != (tt.err == nil) {
				t.Errorf("error: %v", err)
			}
			for _, want := range tt.err {
				if err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("error without %q: %v", want, err)
				}
			}
			for _, want := range tt.out {
				if !strings.Contains(out.String(), want) {
					t.Errorf("nothing shown of %q", want)
				}
			}
			for line := range strings.Lines(out.String()) {
				if len(line) > 80 && strings.Contains(line, " ms") {
					t.Errorf("%d characters: %s", len(line), line)
				}
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			if t.Failed() {
				t.Log(out.String())
			}
		})
	}
}

// Ctrl-C ends it at any time, without an error and without children.
func TestInterrupt(t *testing.T) {
	simulator := buildSimulator(t)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out := &triggered{text: "conv-round-robin ", call: interrupt}
	begin := time.Now()
	if err := run(ctx, options{pointsman: os.Args[0], enginesim: simulator, envoy: "good"}, &screen{w: out}); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("ended after %v", took)
	}
	if !strings.Contains(out.buf.String(), "After 0:") {
		t.Errorf("no summary:\n%s", out.buf.String())
	}
	ctx, interrupt = context.WithCancel(t.Context())
	interrupt()
	if err := run(ctx, options{pointsman: os.Args[0], enginesim: simulator, envoy: "good"}, &screen{w: out}); err != nil {
		t.Errorf("interrupted before the start: %v", err)
	}
}

// triggered calls a function once a text was written for the second time.
type triggered struct {
	buf  bytes.Buffer
	text string
	call func()
}

func (w *triggered) Write(p []byte) (int, error) {
	w.buf.Write(p)
	if strings.Count(w.buf.String(), w.text) > 1 {
		w.call()
	}
	return len(p), nil
}

func TestMissingPrograms(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	err := run(t.Context(), options{pointsman: none, enginesim: none, envoy: "x"}, &screen{w: new(bytes.Buffer)})
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "start enginesim") {
		t.Errorf("%v", err)
	}
}

// A child that does not end when asked is killed with all it started, and a silent one times out.
func TestChild(t *testing.T) {
	c, err := startChild("shell", "/bin/sh", []string{"-c", "echo hello; echo $$; exec sleep 1000"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = c.await(t.Context(), 200*time.Millisecond, "not ready", func(context.Context) bool { return false })
	if err == nil || !strings.Contains(err.Error(), "shell: not ready after 200ms") || !strings.Contains(err.Error(), "hello") {
		t.Errorf("%v", err)
	}
	c.stop()
	pid := regexp.MustCompile(`\d+`).FindString(c.log.lines())
	if n, _ := strconv.Atoi(pid); n != c.cmd.Process.Pid {
		t.Errorf("pid %s, want %d", pid, c.cmd.Process.Pid)
	}
	select {
	case <-c.ended:
	default:
		t.Error("not ended")
	}
	c.stop() // again
}

func TestTailIsBounded(t *testing.T) {
	var l tail
	for range 1000 {
		_, _ = l.Write([]byte(strings.Repeat("x", 100) + "\n"))
	}
	_, _ = l.Write([]byte("the end\n"))
	if n := len(l.lines()); n > 2*tailBytes {
		t.Errorf("%d bytes kept", n)
	}
	if !strings.HasSuffix(l.lines(), "the end") {
		t.Error("not the end")
	}
}

func TestParse(t *testing.T) {
	env := func(pairs ...string) func(string) string {
		return func(key string) string {
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] == key {
					return pairs[i+1]
				}
			}
			return ""
		}
	}
	o, err := parse([]string{"--pointsman", "p", "--enginesim", "e"}, env("ENVOY_BIN", "v", "DEMO_SECONDS", "40"), new(bytes.Buffer))
	if err != nil || o != (options{"p", "e", "v", 40 * time.Second, ""}) {
		t.Errorf("%+v, %v", o, err)
	}
	o, err = parse([]string{"--envoy", "v"}, env(), new(bytes.Buffer))
	if err != nil || o.length != 0 || filepath.Base(o.pointsman) != "pointsman" || filepath.Base(o.enginesim) != "enginesim" {
		t.Errorf("%+v, %v", o, err)
	}
	for _, bad := range []string{"0", "-3", "x", "1.5"} {
		if _, err := parse(nil, env("ENVOY_BIN", "v", "DEMO_SECONDS", bad), new(bytes.Buffer)); err == nil {
			t.Errorf("DEMO_SECONDS=%s was accepted", bad)
		}
	}
	for _, args := range [][]string{{}, {"--envoy", "v", "x"}, {"--what"}} {
		if _, err := parse(args, env(), new(bytes.Buffer)); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
}
