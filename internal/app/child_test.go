package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startChild starts an App whose Envoy is this shell script.
func startChild(t *testing.T, script string) *world {
	t.Helper()
	w := newWorld(t)
	w.replace("listen: {admin: \"127.0.0.1:0\"}\n" + external + twoTargets)
	opts := w.options()
	opts.EnvoyPath = filepath.Join(w.dir, "envoy")
	if err := os.WriteFile(opts.EnvoyPath, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	w.startWith(opts)
	return w
}

// pid waits until the script has told its process id and trapped what it traps.
func (w *world) pid() int {
	w.Helper()
	var pid int
	w.eventually("the child runs", func() error {
		for text := range strings.Lines(w.out.String()) {
			if _, err := fmt.Sscanf(text, "child %d", &pid); err == nil {
				return nil
			}
		}
		return fmt.Errorf("nothing said")
	})
	return pid
}

// running tells whether a process exists.
func running(pid int) bool { return syscall.Kill(pid, 0) == nil }

// Envoy is started with a bootstrap that leads to our socket, ends by SIGTERM with
// pointsman, and nothing is left.
func TestChild(t *testing.T) {
	w := startChild(t, `trap 'echo was asked to end; kill $!; exit 0' TERM
cat "$2"
echo "child $$ $@"
while :; do sleep 1 & wait $!; done
`)
	pid := w.pid()
	dir := w.app.tempDir
	for _, want := range []string{"path: " + filepath.Join(dir, "grpc.sock"), "--drain-time-s 3600", "--use-dynamic-base-id"} {
		if !strings.Contains(w.out.String(), want) {
			t.Errorf("the child was not given %q", want)
		}
	}
	if status, body := w.get("/readyz"); status != 200 {
		t.Errorf("not ready: %s", body)
	}
	w.signals <- syscall.SIGINT
	if err := w.wait(); err != nil {
		t.Errorf("ended with %v", err)
	}
	if running(pid) {
		t.Error("Envoy outlives pointsman")
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the temporary folder is left: %v", err)
	}
	if l := w.out.lines("Envoy ended"); len(l) != 1 || l[0]["state"] != "exit status 0" || !strings.Contains(w.out.String(), "was asked to end") {
		t.Errorf("log: %v", l)
	}
}

// An Envoy that dies ends pointsman with an error that says so.
func TestChildDies(t *testing.T) {
	for name, test := range map[string]struct{ script, want string }{
		"by itself": {"exit 3", "the Envoy child has died: exit status 3"},
		"killed":    {"kill -9 $$", "the Envoy child has died: signal: killed"},
	} {
		t.Run(name, func(t *testing.T) {
			w := startChild(t, test.script)
			if err := w.wait(); err == nil || err.Error() != test.want {
				t.Errorf("ended with %v, want %s", err, test.want)
			}
			if l := w.out.lines("ended"); len(l) != 1 || l[0]["error"] != test.want {
				t.Errorf("log: %v", l)
			}
		})
	}
}

// One that does not obey is killed.
func TestChildIgnoresTerm(t *testing.T) {
	t.Parallel()
	w := startChild(t, "trap '' TERM\necho \"child $$\"\nwhile :; do sleep 0.1; done\n")
	pid := w.pid()
	begin := time.Now()
	w.signals <- syscall.SIGINT
	if err := w.wait(); err != nil {
		t.Errorf("ended with %v", err)
	}
	if took := time.Since(begin); took < childStop || took > childStop+20*time.Second {
		t.Errorf("it took %s", took)
	}
	if running(pid) {
		t.Error("Envoy outlives pointsman")
	}
	if l := w.out.lines("Envoy ended"); len(l) != 1 || l[0]["state"] != "signal: killed" {
		t.Errorf("log: %v", l)
	}
}

// SIGTERM ends Envoy after pointsman's own last request.
func TestChildDrains(t *testing.T) {
	t.Parallel()
	w := startChild(t, "trap 'exit 0' TERM\necho \"child $$\"\nwhile :; do sleep 0.1; done\n")
	w.socket = w.app.grpcLis.Addr().String()
	pid := w.pid()
	x := w.ask(w.envoy(), "m")
	w.signals <- syscall.SIGTERM
	w.eventually("draining", func() error {
		if status, body := w.get("/readyz"); status != 503 {
			return fmt.Errorf("%d %q", status, body)
		}
		return nil
	})
	if !running(pid) {
		t.Error("Envoy ended before the request")
	}
	if err := x.End(); err != nil {
		t.Error(err)
	}
	if err := w.wait(); err != nil {
		t.Errorf("ended with %v", err)
	}
	if running(pid) {
		t.Error("Envoy outlives pointsman")
	}
}
