package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// patience bounds every wait: longer than anything takes on a loaded machine.
const patience = 30 * time.Second

// TestMain lets scripts and tests start the program by its name.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"pointsman": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script", RequireExplicitExec: true})
}

func TestFindEnvoy(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"envoy", "other"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	envoy, other := filepath.Join(dir, "envoy"), filepath.Join(dir, "other")
	const none = "no Envoy found: name it by --envoy or $ENVOY_BIN, or put envoy into PATH"
	for _, test := range []struct {
		name, flag, env, path string
		want, err             string
	}{
		{"flag first", other, envoy, dir, other, ""},
		{"then the environment", "", other, dir, other, ""},
		{"then the path", "", "", dir, envoy, ""},
		{"a name in the path", "other", "", dir, other, ""},
		{"nowhere", "", "", t.TempDir(), "", none},
		{"a flag that leads nowhere", filepath.Join(dir, "absent"), envoy, dir, "", "--envoy: "},
		{"an environment that leads nowhere", "", filepath.Join(dir, "absent"), dir, "", "$ENVOY_BIN: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("PATH", test.path)
			got, err := findEnvoy(test.flag, test.env)
			said := ""
			if err != nil {
				said = err.Error()
			}
			if got != test.want || !strings.HasPrefix(said, test.err) || (said == "") != (test.err == "") {
				t.Errorf("%q, error %q, want %q, error %q", got, said, test.want, test.err)
			}
		})
	}
}

// daemon is a pointsman that was started.
type daemon struct {
	*exec.Cmd
	admin string // http://host:port
}

var adminLine = regexp.MustCompile(`"msg":"started".*"admin":"([^"]+)"`)

// start starts pointsman with these arguments and waits until it says where its admin
// listener is. What it writes to standard error is read from a pipe until close is called.
func start(t *testing.T, args ...string) (d *daemon, closePipe func()) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	d = &daemon{Cmd: exec.Command("pointsman", args...)}
	d.Stderr = w
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	t.Cleanup(func() {
		_ = d.Process.Kill()
		_ = d.Wait()
		_ = r.Close()
	})
	admin := make(chan string, 1)
	go func() {
		var said bytes.Buffer
		var once sync.Once
		buf := make([]byte, 4096)
		for {
			n, err := r.Read(buf)
			said.Write(buf[:n])
			if m := adminLine.FindSubmatch(said.Bytes()); m != nil {
				once.Do(func() { admin <- string(m[1]) })
			}
			if err != nil {
				return
			}
		}
	}()
	select {
	case addr := <-admin:
		d.admin = "http://" + addr
	case <-time.After(patience):
		t.Fatal("not started")
	}
	return d, func() { _ = r.Close() }
}

func (d *daemon) get(path string) (string, error) {
	resp, err := http.Get(d.admin + path)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// Whoever reads the log dies: pointsman goes on, and drops the lines.
func TestLogReaderDies(t *testing.T) {
	dir, err := os.MkdirTemp("", "pm-") // short: it is to hold a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "c.yaml")
	config := func(strategy string) {
		text := "listen: {grpc: \"unix://" + filepath.Join(dir, "s") + "\", admin: \"127.0.0.1:0\"}\n" +
			"providers: [{name: a, url: \"http://127.0.0.1:1\"}]\n" +
			"routes: [{model: m, strategy: " + strategy + ", targets: [{provider: a}]}]\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config("round_robin")
	d, closePipe := start(t, "serve", "--config", path)
	closePipe()
	config("no_such_strategy")
	if err := d.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	poll(t, func() error {
		body, err := d.get("/metrics")
		if err == nil && !regexp.MustCompile(`(?m)^pointsman_log_dropped_total [1-9]`).MatchString(body) {
			err = errors.New("nothing dropped yet")
		}
		return err
	})
	if body, err := d.get("/healthz"); err != nil || body != "ok\n" {
		t.Errorf("%q, %v", body, err)
	}
}

// A pointsman that is killed takes its Envoy along, however long it ran and on whichever
// threads.
func TestKilledWithEnvoy(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux can do that")
	}
	dir := t.TempDir()
	path, envoy, pidFile := filepath.Join(dir, "c.yaml"), filepath.Join(dir, "envoy"), filepath.Join(dir, "pid")
	for name, text := range map[string]string{
		path:  "listen: {admin: \"127.0.0.1:0\"}\nproviders: [{name: a, url: \"http://127.0.0.1:1\"}]\n",
		envoy: "#!/bin/sh\necho $$ > " + pidFile + ".new\nmv " + pidFile + ".new " + pidFile + "\nexec sleep 1000\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("TMPDIR", dir)
	d, _ := start(t, "run", "--config", path, "--envoy", envoy)
	var stat string
	poll(t, func() error {
		pid, err := os.ReadFile(pidFile)
		stat = "/proc/" + strings.TrimSpace(string(pid)) + "/stat"
		return err
	})
	for range 20 { // requests on many threads
		if _, err := d.get("/metrics"); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(stat); err != nil {
		t.Fatalf("Envoy does not run: %v", err)
	}
	if err := d.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	poll(t, func() error {
		if state, err := os.ReadFile(stat); err == nil && !strings.Contains(string(state), ") Z ") { // Z: dead, and nobody has asked
			return errors.New("Envoy outlives pointsman")
		}
		return nil
	})
}

// poll calls f until it gives nil.
func poll(t *testing.T, f func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
