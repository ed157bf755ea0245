package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
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

	"github.com/pointsman/pointsman/envoy/envoytest"
)

// patience bounds every wait of these tests: longer than anything takes on a
// loaded machine, short enough to end a hanging run.
const patience = 30 * time.Second

var built struct {
	sync.Once
	dir string
	err error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// binary builds the program once, with the race detector, and gives its path.
func binary(t testing.TB) string {
	t.Helper()
	built.Do(func() {
		built.dir, built.err = os.MkdirTemp("", "pointsman-e2e-")
		if built.err != nil {
			return
		}
		cmd := exec.Command("go", "build", "-race", "-o", built.dir, "../cmd/pointsman")
		if out, err := cmd.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("build: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.dir, "pointsman")
}

// process is a child with its output kept.
type process struct {
	name string
	cmd  *exec.Cmd
	log  lockedBuffer
	done chan struct{} // closed when it has ended
	err  error         // after done
}

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

func startProcess(t testing.TB, name, path string, args ...string) *process {
	t.Helper()
	p := &process{name: name, cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	p.cmd.Env = append(os.Environ(), "GORACE=halt_on_error=0 exitcode=66")
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.kill()
		if strings.Contains(p.log.String(), "DATA RACE") {
			t.Errorf("%s: data race", name)
		}
		if strings.Contains(p.log.String(), "panic") {
			t.Errorf("%s: panic", name)
		}
		if t.Failed() {
			t.Logf("%s:\n%s", name, tail(p.log.String(), 12_000))
		}
	})
	return p
}

func tail(s string, n int) string {
	if len(s) > n {
		return "..." + s[len(s)-n:]
	}
	return s
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

func (p *process) signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

// wait gives the exit code.
func (p *process) wait(t testing.TB) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		t.Fatalf("%s does not end", p.name)
	}
	return p.cmd.ProcessState.ExitCode()
}

// mesh is pointsman beside one Envoy.
type mesh struct {
	t         testing.TB
	dir       string
	config    string // path
	socket    string
	pointsman *process
	envoy     *process
	base      string // http://host:port of the client listener
	admin     string // http://host:port of pointsman's admin listener
	envoyURL  string // http://host:port of Envoy's admin listener
	baseline  float64
	errors    lockedBuffer // answers with an error status, for tests that search them
}

// newMesh starts pointsman with this configuration, which says nothing of
// listen and envoy addresses, and an Envoy, and waits until both are ready.
func newMesh(t testing.TB, body string) *mesh {
	t.Helper()
	m := newPointsman(t, body)
	m.startEnvoy()
	m.waitReady()
	m.baseline = m.metric("go_goroutines")
	return m
}

// newPointsman starts pointsman alone.
func newPointsman(t testing.TB, body string) *mesh {
	t.Helper()
	dir, err := os.MkdirTemp("", "pm-") // short: socket paths are limited to 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	m := &mesh{t: t, dir: dir, config: filepath.Join(dir, "pointsman.yaml"), socket: filepath.Join(dir, "grpc.sock")}
	m.writeConfig(body)
	m.startPointsman()
	return m
}

func (m *mesh) writeConfig(body string) {
	m.t.Helper()
	head := fmt.Sprintf("listen: {grpc: \"unix://%s\", admin: \"127.0.0.1:0\"}\n", m.socket)
	if !strings.Contains(body, "envoy:") {
		head += "envoy: {listener: \"127.0.0.1:0\", admin: \"127.0.0.1:0\"}\n"
	}
	// As an editor or Kubernetes does it: the old or the new file, never a part.
	tmp := m.config + ".new"
	if err := os.WriteFile(tmp, []byte(head+body), 0o600); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Rename(tmp, m.config); err != nil {
		m.t.Fatal(err)
	}
}

func (m *mesh) startPointsman() {
	m.t.Helper()
	m.pointsman = startProcess(m.t, "pointsman", binary(m.t), "serve", "--config", m.config)
	eventually(m.t, "pointsman has started", func() error {
		select {
		case <-m.pointsman.done:
			m.t.Fatalf("pointsman ended: %v\n%s", m.pointsman.err, m.pointsman.log.String())
		default:
		}
		for line := range strings.Lines(m.pointsman.log.String()) {
			var started struct{ Msg, Admin string }
			if json.Unmarshal([]byte(line), &started) == nil && started.Msg == "started" {
				m.admin = "http://" + started.Admin
				return nil
			}
		}
		return fmt.Errorf("no line says so")
	})
}

func (m *mesh) startEnvoy() {
	m.t.Helper()
	out, err := exec.Command(binary(m.t), "envoy", "bootstrap", "--config", m.config).Output()
	if err != nil {
		m.t.Fatalf("bootstrap: %v", err)
	}
	path := filepath.Join(m.dir, "envoy.yaml")
	if err := os.WriteFile(path, out, 0o600); err != nil {
		m.t.Fatal(err)
	}
	adminPath := filepath.Join(m.dir, "envoy-admin")
	_ = os.Remove(adminPath)
	m.envoy = startProcess(m.t, "envoy", envoytest.Binary(m.t), "-c", path, "--use-dynamic-base-id",
		"--concurrency", "2", "--log-level", "warning", "--drain-time-s", "3600", "--admin-address-path", adminPath)
	eventually(m.t, "Envoy's admin listener is open", func() error {
		addr, err := os.ReadFile(adminPath)
		if err != nil || len(addr) == 0 {
			return fmt.Errorf("no address yet")
		}
		m.envoyURL = "http://" + string(addr)
		return nil
	})
	eventually(m.t, "Envoy's listener is open", func() error {
		var listeners struct {
			ListenerStatuses []struct {
				LocalAddress struct {
					SocketAddress struct {
						Address   string
						PortValue int `json:"port_value"`
					} `json:"socket_address"`
				} `json:"local_address"`
			} `json:"listener_statuses"`
		}
		body, err := fetch(m.envoyURL + "/listeners?format=json")
		if err != nil {
			return err
		}
		if err := json.Unmarshal(body, &listeners); err != nil {
			return err
		}
		for _, l := range listeners.ListenerStatuses {
			if a := l.LocalAddress.SocketAddress; a.PortValue > 0 {
				m.base = fmt.Sprintf("http://%s:%d", a.Address, a.PortValue)
				return nil
			}
		}
		return fmt.Errorf("no listener yet")
	})
}

func (m *mesh) waitReady() {
	m.t.Helper()
	eventually(m.t, "ready", func() error {
		resp, err := http.Get(m.admin + "/readyz")
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s", body)
		}
		return nil
	})
}

// metric gives the sum of all series of a name whose labels contain all of the given
// texts, such as `target="a/m"`.
func (m *mesh) metric(name string, labels ...string) float64 {
	m.t.Helper()
	body, err := fetch(m.admin + "/metrics")
	if err != nil {
		m.t.Fatalf("metrics: %v", err)
	}
	sum := 0.0
lines:
	for line := range strings.Lines(string(body)) {
		series, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		base, rest, _ := strings.Cut(series, "{")
		if !ok || base != name {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(rest, l) {
				continue lines
			}
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			m.t.Fatalf("metric %s: %v", line, err)
		}
		sum += v
	}
	return sum
}

// settled waits until nothing is in flight and no goroutine is left over: what
// must hold after every test.
func (m *mesh) settled() {
	m.t.Helper()
	eventually(m.t, "all in-flight counts are 0", func() error {
		if n := m.metric("pointsman_in_flight"); n != 0 {
			return fmt.Errorf("%v in flight", n)
		}
		return nil
	})
	// Idle connections of the metrics client and gRPC's own workers come and go.
	const slack = 12
	eventually(m.t, "no goroutine is left", func() error {
		if n := m.metric("go_goroutines"); n > m.baseline+slack {
			return fmt.Errorf("%v goroutines, %v at the start", n, m.baseline)
		}
		return nil
	})
}

// reachable waits until all n targets are reachable.
func (m *mesh) reachable(n int) {
	m.t.Helper()
	eventually(m.t, "targets are reachable", func() error {
		if got := m.metric("pointsman_target_reachable"); int(got) != n {
			return fmt.Errorf("%v of %d", got, n)
		}
		return nil
	})
}

func fetch(url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	return io.ReadAll(resp.Body)
}

// eventually polls until f gives nil, for as long as patience lasts.
func eventually(t testing.TB, what string, f func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not so: %v", what, err)
		}
		<-tick.C
	}
}

// plainHTTP2 makes a client or server speak HTTP/2 without TLS, and nothing else.
func plainHTTP2() *http.Protocols {
	p := &http.Protocols{}
	p.SetUnencryptedHTTP2(true)
	return p
}
