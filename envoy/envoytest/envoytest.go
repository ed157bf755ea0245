// Package envoytest runs a real Envoy for tests: it finds the binary, starts it
// on a bootstrap and asks its admin listener.
//
// It downloads nothing and is imported by tests only. A Process belongs to the
// test that started it.
package envoytest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
)

const (
	// startLimit is how long an Envoy may take to open its admin listener; a
	// second is usual, a busy machine takes more.
	startLimit = 30 * time.Second
	// stopLimit is how long it may take to end on SIGTERM before it is killed.
	stopLimit = 10 * time.Second
	// pollInterval is the pause between two looks at something that will happen.
	pollInterval = 10 * time.Millisecond
)

// Binary finds Envoy: $ENVOY_BIN, or the cache folder that `make` fills. The
// test is skipped when there is none.
func Binary(t testing.TB) string {
	t.Helper()
	if bin := os.Getenv("ENVOY_BIN"); bin != "" {
		return bin
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skipf("no Envoy: ENVOY_BIN is not set and there is no cache folder: %v", err)
	}
	bin := filepath.Join(cache, "pointsman", "envoy-1.40.0", "envoy")
	if _, err := os.Stat(bin); err != nil {
		t.Skip("no Envoy: ENVOY_BIN is not set and the cache folder holds none")
	}
	return bin
}

// SocketPath is a path for a Unix socket, short enough for every system.
func SocketPath(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "grpc.sock")
}

// Validate runs Envoy's own check of a bootstrap.
func Validate(t testing.TB, bootstrap []byte) error {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), Binary(t), "--mode", "validate", "-c", write(t, bootstrap)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// Process is a running Envoy.
type Process struct {
	// Admin is the address of its admin listener.
	Admin string

	t    testing.TB
	cmd  *exec.Cmd
	done chan struct{}
	log  *lockedBuffer
}

// Start runs Envoy on a bootstrap, which should have an admin listener on port
// 0, and waits until that is open. The test's end stops it.
func Start(t testing.TB, bootstrap []byte, args ...string) *Process {
	t.Helper()
	adminFile := filepath.Join(t.TempDir(), "admin")
	args = append([]string{
		"-c", write(t, bootstrap), "--use-dynamic-base-id", "--concurrency", "1",
		"--admin-address-path", adminFile, "--log-level", "warning",
	}, args...)
	p := &Process{t: t, cmd: exec.Command(Binary(t), args...), done: make(chan struct{}), log: &lockedBuffer{}}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start envoy: %v", err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait()
	}()
	t.Cleanup(p.Stop)
	Eventually(t, startLimit, "envoy's admin listener", func() error {
		select {
		case <-p.done:
			t.Fatalf("envoy ended:\n%s", p.log)
		default:
		}
		addr, err := os.ReadFile(adminFile)
		if err != nil {
			return err
		}
		p.Admin = strings.TrimSpace(string(addr))
		_, err = p.Get("/server_info")
		return err
	})
	return p
}

// Stop ends Envoy and waits for it. It may be called more than once.
func (p *Process) Stop() { p.end(syscall.SIGTERM) }

// Kill ends Envoy at once.
func (p *Process) Kill() { p.end(syscall.SIGKILL) }

// Freeze stops Envoy without ending it; Thaw lets it go on.
func (p *Process) Freeze() { _ = p.cmd.Process.Signal(syscall.SIGSTOP) }

// Thaw ends what Freeze began.
func (p *Process) Thaw() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }

// Log is what Envoy has written so far.
func (p *Process) Log() string { return p.log.String() }

func (p *Process) end(sig syscall.Signal) {
	_ = p.cmd.Process.Signal(sig)
	select {
	case <-p.done:
	case <-time.After(stopLimit):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	if p.t.Failed() {
		p.t.Logf("envoy:\n%s", p.log)
	}
}

// Get asks the admin listener.
func (p *Process) Get(path string) (string, error) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+p.Admin+path, nil)
	if err != nil {
		return "", err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: startLimit}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, resp.Status)
	}
	return string(body), err
}

// Stat is one of Envoy's counters or gauges; 0 when there is none of the name.
func (p *Process) Stat(name string) int64 {
	p.t.Helper()
	body, err := p.Get("/stats?format=json&filter=" + "^" + name + "$")
	if err != nil {
		p.t.Fatal(err)
	}
	var out struct {
		Stats []struct {
			Value json.Number `json:"value"`
		} `json:"stats"`
	}
	if err := json.Unmarshal([]byte(body), &out); err != nil {
		p.t.Fatalf("stats: %v", err)
	}
	if len(out.Stats) == 0 {
		return 0
	}
	n, err := out.Stats[0].Value.Int64()
	if err != nil {
		p.t.Fatalf("stats: %v", err)
	}
	return n
}

// Listener waits for the listener of a name to take connections and gives its
// address.
func (p *Process) Listener(name string) string {
	p.t.Helper()
	var addr string
	Eventually(p.t, startLimit, "listener "+name, func() error {
		body, err := p.Get("/listeners?format=json")
		if err != nil {
			return err
		}
		var out struct {
			Listeners []struct {
				Name  string `json:"name"`
				Local struct {
					Socket struct {
						Address string `json:"address"`
						Port    int    `json:"port_value"`
					} `json:"socket_address"`
				} `json:"local_address"`
			} `json:"listener_statuses"`
		}
		if err := json.Unmarshal([]byte(body), &out); err != nil {
			return err
		}
		for _, l := range out.Listeners {
			if l.Name == name && l.Local.Socket.Port != 0 {
				addr = net.JoinHostPort(l.Local.Socket.Address, fmt.Sprint(l.Local.Socket.Port))
				conn, err := net.Dial("tcp", addr)
				if err != nil {
					return err
				}
				return conn.Close()
			}
		}
		return errors.New("not there")
	})
	return addr
}

// ParseBootstrap reads a bootstrap from YAML, strictly.
func ParseBootstrap(t testing.TB, text []byte) *bootstrapv3.Bootstrap {
	t.Helper()
	var tree any
	if err := yaml.Unmarshal(text, &tree); err != nil {
		t.Fatalf("bootstrap: %v", err)
	}
	raw, err := json.Marshal(tree)
	if err != nil {
		t.Fatalf("bootstrap: %v", err)
	}
	b := &bootstrapv3.Bootstrap{}
	if err := protojson.Unmarshal(raw, b); err != nil {
		t.Fatalf("bootstrap: %v", err)
	}
	return b
}

// Eventually polls until the check gives nil, and fails the test after the limit.
func Eventually(t testing.TB, limit time.Duration, what string, check func() error) {
	t.Helper()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	deadline := time.Now().Add(limit)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v: %v", what, limit, err)
		}
		<-tick.C
	}
}

func write(t testing.TB, bootstrap []byte) string {
	t.Helper()
	// Envoy tells YAML and JSON apart by the name.
	name := "bootstrap.yaml"
	if bytes.HasPrefix(bytes.TrimSpace(bootstrap), []byte("{")) {
		name = "bootstrap.json"
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, bootstrap, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// lockedBuffer is written by Envoy's output and read by the test.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// CPU is the time that Envoy has computed so far, in steps of 10 ms; 0 where the
// system does not tell it in /proc.
func (p *Process) CPU() time.Duration {
	const (
		ticks = 100 // a second, for programs on Linux
		utime = 11  // of the fields behind the name
		stime = 12
	)
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) <= stime {
		return 0
	}
	u, _ := strconv.ParseInt(fields[utime], 10, 64)
	s, _ := strconv.ParseInt(fields[stime], 10, 64)
	return time.Duration(u+s) * time.Second / ticks
}
