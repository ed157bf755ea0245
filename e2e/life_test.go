package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pointsman/pointsman/envoy/envoytest"
	"github.com/pointsman/pointsman/internal/enginesim"
)

// Case 380: pointsman is killed with 20 answers running. Case 409: and restarted
// under traffic, with the same Envoy.
func TestPointsmanKilled(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, enginesim.Options{Decode: 10})
	m := newMesh(t, f.providers()+"routes:\n"+f.route("llama", "round_robin", "llama"))
	m.reachable(2)

	const running = 20
	results := make(chan bool, running)
	for i := range running {
		s, err := m.open(chat("llama", fmt.Sprint(i), true, 40))
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_, whole := s.rest()
			results <- whole
		}()
	}
	m.pointsman.kill()
	a := m.post(chatPath, chat("llama", "while away", false, 1))
	if code, _ := a.code(t); a.status != 503 || code != "no_target" {
		t.Errorf("case 380: while away: %d %s", a.status, a.body)
	}
	m.startPointsman()
	eventually(t, "case 380: served again", func() error {
		if a, err := m.try(chatPath, chat("llama", "back", false, 1)); err != nil || a.status != 200 {
			return fmt.Errorf("%v %d %s", err, a.status, a.body)
		}
		return nil
	})
	for range running {
		if !<-results {
			t.Error("case 380: a running answer was cut")
		}
	}
	m.waitReady()
	m.baseline = m.metric("go_goroutines")
	m.settled()
}

// Case 409: restarts under 100 requests a second. A 503 may be given only
// while the socket is closed and up to 1 s after it opened.
func TestRestartUnderTraffic(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, enginesim.Options{})
	m := newMesh(t, f.providers()+"routes:\n"+f.route("llama", "round_robin", "llama"))
	m.reachable(2)

	ctx, stop := context.WithCancel(t.Context())
	var served, refused, bad atomic.Int64
	var downUntil atomic.Int64 // Unix ns until which a 503 is allowed; 0 = not allowed
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			wg.Go(func() {
				a, err := m.try(chatPath, chat("llama", "x", false, 1))
				switch {
				case err == nil && a.status == 200:
					served.Add(1)
				case err == nil && a.status == 503 && time.Now().UnixNano() < downUntil.Load():
					refused.Add(1)
				default:
					bad.Add(1)
					t.Errorf("%v %d %s", err, a.status, a.body)
				}
			})
		}
	})
	for range 3 {
		before := served.Load()
		eventually(t, "traffic flows", func() error {
			if served.Load() < before+100 {
				return fmt.Errorf("%d served", served.Load()-before)
			}
			return nil
		})
		downUntil.Store(time.Now().Add(patience).UnixNano())
		m.pointsman.kill()
		m.startPointsman()
		downUntil.Store(time.Now().Add(time.Second).UnixNano())
	}
	before := served.Load()
	eventually(t, "traffic flows again", func() error {
		if served.Load() < before+200 {
			return fmt.Errorf("%d served", served.Load()-before)
		}
		return nil
	})
	stop()
	wg.Wait()
	if refused.Load() == 0 {
		t.Log("no request met the closed socket")
	}
	m.waitReady()
	m.baseline = m.metric("go_goroutines")
	m.settled()
}

// Case 400: SIGTERM with a stream running. The stream completes, new requests are
// decided meanwhile, and the process ends with 0 some 5 s after the stream's end.
func TestTerm(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, enginesim.Options{Decode: 10})
	m := newMesh(t, f.providers()+"routes:\n"+f.route("llama", "round_robin", "llama"))
	m.reachable(1)
	s, err := m.open(chat("llama", "x", true, 80))
	if err != nil {
		t.Fatal(err)
	}
	m.pointsman.signal(syscall.SIGTERM)
	eventually(t, "draining", func() error {
		body, err := fetch(m.admin + "/readyz")
		if err != nil {
			return err
		}
		if strings.TrimSpace(string(body)) != "draining" {
			return fmt.Errorf("%s", body)
		}
		return nil
	})
	if a := m.post(chatPath, chat("llama", "y", false, 1)); a.status != 200 {
		t.Errorf("while draining: %d %s", a.status, a.body)
	}
	if body, err := fetch(m.admin + "/healthz"); err != nil || string(body) != "ok\n" {
		t.Errorf("healthz while draining: %q %v", body, err)
	}
	if _, whole := s.rest(); !whole {
		t.Error("case 400: the stream was cut")
	}
	ended := time.Now()
	if code := m.pointsman.wait(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if took := time.Since(ended); took < 4*time.Second || took > 15*time.Second {
		t.Errorf("case 400: ended %v after the stream", took)
	}
}

// Case 408: symlink swap, SIGHUP, refused file. Case 240: a target whose cluster is
// not accepted is not chosen. Case 419: a reload does not cut a running stream.
func TestReload(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3, enginesim.Options{Decode: 5})
	m := newMesh(t, f.providers()+"routes:\n"+f[:2].route("llama", "round_robin", "llama"))
	m.reachable(2)
	version := func() float64 { return m.metric("pointsman_config_version") }

	s, err := m.open(chat("llama", "long", true, 40)) // 8 s
	if err != nil {
		t.Fatal(err)
	}
	whole := make(chan bool, 1)
	go func() { _, ok := s.rest(); whole <- ok }()

	m.writeConfig("retry: {max_retries: 1}\ntimeouts: {request_secs: 30, idle_secs: 100, client_secs: 200}\nlimits: {body: 1MiB}\n" +
		f.providers() + "routes:\n" + f[1:].route("llama", "round_robin", "llama"))
	eventually(t, "the new target is reachable", func() error {
		if m.metric("pointsman_target_reachable", `target="c/llama"`) != 1 {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	before := f.counts()
	for range 10 {
		if a := m.post(chatPath, chat("llama", "x", false, 1)); a.status != 200 {
			t.Errorf("after the reload: %d %s", a.status, a.body)
		}
	}
	after := f.counts()
	if after[0] != before[0] || after[2] == before[2] {
		t.Errorf("counts %v, then %v", before, after)
	}
	if a := m.post(chatPath, chat("llama", strings.Repeat("z", 1<<20), false, 1)); a.status != 413 {
		t.Errorf("limits.body of 1 MiB: %d", a.status)
	}

	// SIGHUP without a change counts nothing.
	v := version()
	m.pointsman.signal(syscall.SIGHUP)
	// A file with two faults: both are logged, the version stays.
	m.writeConfig("retry: {max_retries: -1}\nnonsense: 1\n" + f.providers() + "routes:\n" + f[1:].route("llama", "round_robin", "llama"))
	eventually(t, "case 408: the faults are counted", func() error {
		if n := m.metric("pointsman_config_reload_failures_total"); n != 1 {
			return fmt.Errorf("%v", n)
		}
		return nil
	})
	if got := version(); got != v {
		t.Errorf("case 408: version %v, then %v", v, got)
	}
	log := m.pointsman.log.String()
	if !strings.Contains(log, "retry.max_retries") || !strings.Contains(log, "nonsense") {
		t.Error("case 408: both faults are not in the log")
	}
	if a := m.post(chatPath, chat("llama", "x", false, 1)); a.status != 200 {
		t.Errorf("case 247: the old configuration does not serve: %d", a.status)
	}

	// Symlink swap, as Kubernetes does it.
	old := filepath.Join(m.dir, "v1")
	next := filepath.Join(m.dir, "v2")
	for dir, routes := range map[string]string{old: f[1:].route("llama", "round_robin", "llama"), next: f.route("llama", "round_robin", "llama")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		m.config = filepath.Join(dir, "pointsman.yaml")
		m.writeConfig(f.providers() + "routes:\n" + routes)
	}
	m.config = filepath.Join(m.dir, "pointsman.yaml")
	link := func(dir string) {
		t.Helper()
		tmp := filepath.Join(m.dir, "link")
		if err := os.Symlink(filepath.Join(dir, "pointsman.yaml"), tmp); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tmp, m.config); err != nil {
			t.Fatal(err)
		}
	}
	for i, dir := range []string{old, next} {
		link(dir)
		eventually(t, "case 408: the symlink swap is in force", func() error {
			if got := version(); got != v+1+float64(i) {
				return fmt.Errorf("version %v, want %v", got, v+1+float64(i))
			}
			return nil
		})
	}
	if !<-whole {
		t.Error("case 419: the stream was cut by a reload")
	}
	m.settled()
}

// Case 397: the log connection is lost under traffic. In-flight returns to 0, and
// nothing is charged.
func TestLogLost(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, enginesim.Options{})
	m := newPointsman(t, f.providers()+"routes:\n"+f.route("llama", "round_robin", "llama"))
	r := newRelay(t, m.socket)
	m.socket = r.path // Envoy connects to the relay
	saved := m.config
	data, err := os.ReadFile(saved)
	if err != nil {
		t.Fatal(err)
	}
	m.config = filepath.Join(m.dir, "envoy-side.yaml")
	if err := os.WriteFile(m.config, []byte(strings.Replace(string(data), "grpc.sock", filepath.Base(r.path), 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	m.startEnvoy()
	m.config = saved
	m.waitReady()
	m.reachable(2)
	m.baseline = m.metric("go_goroutines")

	for i := range 20 {
		if a := m.post(chatPath, chat("llama", fmt.Sprint(i), false, 1)); a.status != 200 {
			t.Errorf("with the log: %d", a.status)
		}
	}
	eventually(t, "outcomes are heard", func() error {
		if n := m.metric("pointsman_outcomes_total", `outcome="complete"`); n != 20 {
			return fmt.Errorf("%v", n)
		}
		return nil
	})
	r.refuse.Store(true)
	r.cut()
	eventually(t, "requests are served without the log", func() error {
		a, err := m.try(chatPath, chat("llama", "x", false, 1))
		if err != nil || a.status != 200 {
			return fmt.Errorf("%v %d", err, a.status)
		}
		return nil
	})
	f.faults(t, "a", status(503))
	for i := range 20 {
		if a := m.post(chatPath, chat("llama", fmt.Sprint("dark ", i), false, 1)); a.status != 200 {
			t.Errorf("without the log: %d", a.status)
		}
	}
	m.settled()
	eventually(t, "case 397: outcomes are unknown", func() error {
		if n := m.metric("pointsman_outcomes_total", `outcome="unknown"`); n < 20 {
			return fmt.Errorf("%v", n)
		}
		return nil
	})
	if n := m.metric("pointsman_target_eligible"); n != 2 {
		t.Errorf("case 397: %v targets eligible: somebody was charged", n)
	}
}

// Case 398: nothing is logged per request unless asked for, and never a prompt, key,
// header value or a model name that a client made up.
func TestRequestLog(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, enginesim.Options{})
	body := f.providers() + "routes:\n" + f.route("llama", "cache_aware", "llama")
	m := newMesh(t, "log: {level: debug}\n"+body)
	m.reachable(2)
	const canary = "ZX-CANARY-17"
	traffic := func() {
		t.Helper()
		for range 250 {
			m.post(chatPath, chat("llama", canary, false, 1), "x-session-id", canary, "authorization", "Bearer "+canary)
			m.post(chatPath, chat(canary, canary, false, 1))
			m.post(chatPath, `{"model":"`+canary)
			_, err := do(t.Context(), http.MethodGet, m.base+"/v1/"+canary, "")
			if err != nil {
				t.Fatal(err)
			}
		}
		m.settled()
	}
	lines := func(msg string) int {
		n := 0
		for line := range strings.Lines(m.pointsman.log.String()) {
			var l struct{ Msg string }
			if json.Unmarshal([]byte(line), &l) == nil && l.Msg == msg {
				n++
			}
		}
		return n
	}
	before := strings.Count(m.pointsman.log.String(), "\n")
	traffic()
	if n := strings.Count(m.pointsman.log.String(), "\n") - before; n > 5 {
		t.Errorf("case 398: %d lines for 1,000 requests with log.requests false", n)
	}
	v := m.metric("pointsman_config_version")
	m.writeConfig("log: {level: debug, requests: true}\n" + body)
	eventually(t, "reloaded", func() error {
		if m.metric("pointsman_config_version") == v {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	traffic()
	eventually(t, "case 398: one line each", func() error {
		if d, o, a := lines("decision"), lines("outcome"), lines("answer"); d != 250 || o != 250 || a != 750 {
			return fmt.Errorf("%d decisions, %d outcomes, %d answers", d, o, a)
		}
		return nil
	})
	if strings.Contains(m.pointsman.log.String(), canary) {
		t.Error("case 398: the canary is in the log")
	}
	if body, err := fetch(m.admin + "/metrics"); err != nil || strings.Contains(string(body), canary) {
		t.Errorf("the canary is in the metrics (report 165, report 119): %v", err)
	}
}

// 300 targets, and all of them serve.
func TestManyTargets(t *testing.T) {
	t.Parallel()
	const n = 300
	f := newFleet(t, n, enginesim.Options{})
	m := newMesh(t, f.providers()+"routes:\n"+f.route("llama", "round_robin", "llama"))
	m.reachable(n)
	for i := range n {
		if a := m.post(chatPath, chat("llama", fmt.Sprint(i), false, 1)); a.status != 200 {
			t.Fatalf("request %d: %d %s", i, a.status, a.body)
		}
	}
	for i, c := range f.counts() {
		if c != 1 {
			t.Errorf("engine %d served %d", i, c)
		}
	}
	m.settled()
}

// `pointsman run` starts Envoy itself, and both end together.
func TestRun(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, enginesim.Options{})
	dir := t.TempDir()
	port := freePort(t)
	path := filepath.Join(dir, "c.yaml")
	if err := os.WriteFile(path, []byte(fmt.Sprintf("listen: {admin: \"127.0.0.1:0\"}\nenvoy: {listener: \"127.0.0.1:%d\", admin: \"off\"}\n%sroutes:\n%s",
		port, f.providers(), f.route("llama", "round_robin", "llama"))), 0o600); err != nil {
		t.Fatal(err)
	}
	m := &mesh{t: t, base: fmt.Sprintf("http://127.0.0.1:%d", port)}
	m.pointsman = startProcess(t, "pointsman run", binary(t), "run", "--config", path, "--envoy", envoytest.Binary(t))
	eventually(t, "served", func() error {
		a, err := m.try(chatPath, chat("llama", "x", false, 1))
		if err != nil || a.status != 200 {
			return fmt.Errorf("%v %d", err, a.status)
		}
		return nil
	})
	m.pointsman.signal(syscall.SIGINT)
	if code := m.pointsman.wait(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
		_ = c.Close()
		t.Error("Envoy outlived pointsman")
	}
}

// freePort gives a port that nobody had a moment ago: Envoy is told a number
// here, because this test reads no admin listener.
func freePort(t testing.TB) int {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lis.Close() }()
	return lis.Addr().(*net.TCPAddr).Port
}
