package extproc_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pointsman/pointsman/extproc"
	"github.com/pointsman/pointsman/internal/config"
	"github.com/pointsman/pointsman/internal/fakeenvoy"
	"github.com/pointsman/pointsman/internal/ledger"
	"github.com/pointsman/pointsman/internal/outcome"
	"github.com/pointsman/pointsman/internal/routing"
	"github.com/pointsman/pointsman/internal/tracker"
	"github.com/pointsman/pointsman/internal/wire"
)

const (
	// patience is how long a test waits for what must happen.
	patience = 20 * time.Second
	// created is the start of the process, Unix seconds.
	created = 1_700_000_000
)

// providers are three engines; every configuration of a test begins with them.
const providers = `
providers:
  - {name: a, kind: vllm, url: "http://127.0.0.1:8001", cluster: cluster-a}
  - {name: b, kind: vllm, url: "http://127.0.0.1:8002", cluster: cluster-b}
  - {name: c, kind: vllm, url: "http://127.0.0.1:8003", cluster: cluster-c}
`

// oneRoute is model m on all three, in turn.
const oneRoute = providers + `
routes:
  - {model: m, targets: [{provider: a}, {provider: b}, {provider: c}]}
`

// world is pointsman without Envoy and configuration file: router, ledger, and the
// two servers behind a socket.
type world struct {
	testing.TB
	tracker *tracker.Tracker
	router  *routing.Router
	ledger  *ledger.Ledger
	server  *extproc.Server
	sink    *sink
	log     *logBuffer
	envoy   *fakeenvoy.Envoy
}

// newWorld starts one with this configuration, whose targets are all reachable.
func newWorld(t *testing.T, yaml string) *world {
	t.Helper()
	w := newServer(t, yaml)
	w.reach("a/m", "b/m", "c/m")
	w.envoy = w.dial()
	return w
}

// newServer gives a world without a connection, whose targets are not reachable yet.
func newServer(t testing.TB, yaml string) *world {
	t.Helper()
	w := &world{TB: t, sink: &sink{outcomes: map[string]int{}}, log: &logBuffer{}}
	cfg := parse(t, yaml)
	w.tracker = tracker.New(tracker.Settings{
		LatencyAlpha: cfg.Latency.Alpha, LatencyIdle: cfg.Latency.Idle,
		CooldownBase: cfg.Cooldown.Base, CooldownMax: cfg.Cooldown.Max, ForgetAfter: cfg.Tracker.ForgetAfter,
	})
	w.router = routing.NewRouter(w.tracker, time.Now().Add(-time.Hour))
	w.install(cfg)
	w.ledgerWith(w.sink)
	return w
}

// ledgerWith gives the world a new ledger, and the server that goes with it.
func (w *world) ledgerWith(sink ledger.Sink) {
	cfg := w.router.Snapshot().Config
	w.ledger = ledger.New(ledger.Options{
		Prefix:      "node-1-",
		Retryable:   func(status int) bool { return slices.Contains(cfg.Retry.OnStatus, status) },
		LatencyTTFT: func() bool { return false },
		Free:        w.router.Free,
		Sink:        sink,
	})
	w.server = extproc.New(extproc.Options{
		Router: w.router, Ledger: w.ledger, Log: w.log.logger(),
		Start: time.Unix(created, 0), External: cfg.Envoy.Clusters == config.ClustersExternal,
	})
}

func parse(t testing.TB, yaml string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("test.yaml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// install puts a configuration into force.
func (w *world) install(cfg *config.Config) {
	w.Helper()
	s, err := routing.NewSnapshot(cfg, w.tracker, w.router.Snapshot())
	if err != nil {
		w.Fatal(err)
	}
	w.router.Swap(s)
}

func (w *world) reach(targets ...string) {
	for _, id := range targets {
		w.tracker.SetReachable(id, true)
	}
}

// dial gives another connection.
func (w *world) dial() *fakeenvoy.Envoy {
	w.Helper()
	return fakeenvoy.Dial(w, fakeenvoy.Serve(w, w.server, outcome.New(outcome.Options{Ledger: w.ledger, Log: w.log.logger()})))
}

// ask plays a request.
func (w *world) ask(r fakeenvoy.Request) *fakeenvoy.Exchange {
	w.Helper()
	x, err := w.envoy.Ask(w.Context(), r)
	if err != nil {
		w.Fatal(err)
	}
	return x
}

// chat is a small request for a model.
func chat(model string) fakeenvoy.Request {
	return fakeenvoy.Request{
		Header: [][2]string{{"content-type", "application/json"}},
		Body:   fmt.Appendf(nil, `{"model":%q,"messages":[{"role":"user","content":"what is rust"}]}`, model),
	}
}

// end ends an exchange, and waits until pointsman has seen it.
func (w *world) end(x *fakeenvoy.Exchange) {
	w.Helper()
	if err := x.End(); err != nil {
		w.Error(err)
	}
}

// ended tells how attempts ended, over a log stream of its own, and waits until
// that was applied.
func (w *world) ended(attempts ...fakeenvoy.Attempt) {
	w.Helper()
	l, err := w.envoy.Log(w.Context(), wire.LogAttempt)
	if err != nil {
		w.Fatal(err)
	}
	for _, a := range attempts {
		if err := l.Send(a.Entry()); err != nil {
			w.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		w.Fatal(err)
	}
}

// inFlight gives the counts of a, b and c.
func (w *world) inFlight() [3]int64 {
	return [3]int64{
		w.tracker.Endpoint("a").InFlight(), w.tracker.Endpoint("b").InFlight(), w.tracker.Endpoint("c").InFlight(),
	}
}

// wantIdle waits until nothing is in flight and no stream is open.
func (w *world) wantIdle() {
	w.Helper()
	w.eventually("nothing in flight, no stream open", func() bool {
		open, _ := w.server.Idle()
		return open == 0 && w.inFlight() == [3]int64{}
	})
}

// eventually waits until something is so.
func (w *world) eventually(what string, is func() bool) {
	w.Helper()
	limit := time.After(patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-limit:
			w.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// sink remembers what the ledger tells.
type sink struct {
	mu       sync.Mutex
	decided  int
	closed   int
	late     int
	answers  []ledger.Answer
	outcomes map[string]int // by "target outcome"
}

func (s *sink) Decided(*routing.Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.decided++
}

func (s *sink) Attempted(_, target string, a *ledger.Attempt, _ bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outcomes[target+" "+a.Outcome.String()]++
}

func (s *sink) Answered(a ledger.Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = append(s.answers, a)
}

func (s *sink) Closed(ledger.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed++
}

func (s *sink) Late() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late++
}

func (s *sink) count() (decided int, answers []ledger.Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.decided, slices.Clone(s.answers)
}

func (s *sink) outcome(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outcomes[key]
}

// logBuffer keeps what was logged.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (b *logBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(line)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
