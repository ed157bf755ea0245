package routing

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/config"
	"github.com/pointsman/pointsman/internal/request"
	"github.com/pointsman/pointsman/internal/tracker"
	"github.com/pointsman/pointsman/internal/wire"
	"github.com/pointsman/pointsman/picker"
)

// world is a router with its tracker, and a configuration that tests change.
type world struct {
	*testing.T
	tracker *tracker.Tracker
	router  *Router
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, tracker: tracker.New(tracker.Settings{
		LatencyAlpha: 0.3, LatencyIdle: 5 * time.Minute,
		CooldownBase: 5 * time.Second, CooldownMax: 300 * time.Second, ForgetAfter: 10 * time.Minute,
	})}
	w.router = NewRouter(w.tracker, time.Now().Add(-time.Hour))
	return w
}

// route is one line of a test's configuration: a route m over the targets, each of
// a provider of that name. "a*0" is target a with weight 0.
func route(model, strategy string, maxRetries int, targets ...string) config.Route {
	r := config.Route{
		Model: model, Strategy: strategy,
		Retry:     config.RouteRetry{MaxRetries: maxRetries, OnTimeout: []string{"stream"}},
		Timeouts:  config.RouteTimeouts{Request: config.PerKind{Stream: 60 * time.Second, Unary: 600 * time.Second}},
		Prefix:    config.RoutePrefix{Threshold: 0.5, MaxBytes: 16 << 20},
		LoadGuard: config.LoadGuard{Margin: 2, Ratio: 1.5},
	}
	for _, id := range targets {
		id, drained := strings.CutSuffix(id, "*0")
		target := config.Target{Provider: id, Model: model, ID: id, Weight: 1}
		if drained {
			target.Weight = 0
		}
		r.Targets = append(r.Targets, target)
	}
	return r
}

// cfg makes a configuration of routes, with the providers they name.
func cfg(routes ...config.Route) *config.Config {
	c := &config.Config{
		Envoy: config.Envoy{Clusters: config.ClustersManaged}, Routes: routes,
		Limits: config.Limits{Body: 1 << 20}, Prefix: config.Prefix{Threshold: 0.5, MaxBytes: 16 << 20, MaxTotalBytes: 1 << 30},
	}
	index := map[string]int{}
	for i := range c.Routes {
		for j := range c.Routes[i].Targets {
			t := &c.Routes[i].Targets[j]
			k, ok := index[t.Provider]
			if !ok {
				k = len(c.Providers)
				index[t.Provider] = k
				c.Providers = append(c.Providers, config.Provider{Name: t.Provider, Slug: t.Provider})
			}
			t.ProviderIndex = k
		}
	}
	return c
}

// install puts routes into force, as a reload does.
func (w *world) install(routes ...config.Route) *Snapshot {
	w.Helper()
	s, err := NewSnapshot(cfg(routes...), w.tracker, w.router.Snapshot())
	if err != nil {
		w.Fatal(err)
	}
	w.router.Swap(s)
	targets, endpoints := s.Targets()
	w.tracker.Retain(targets, endpoints, time.Now())
	return s
}

// reach makes targets reachable; without any, all of the snapshot.
func (w *world) reach(ids ...string) {
	if len(ids) == 0 {
		all, _ := w.router.Snapshot().Targets()
		for id := range all {
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		w.tracker.SetReachable(id, true)
	}
}

func (w *world) park(ids ...string) {
	for _, id := range ids {
		w.tracker.Target(id).Park(time.Now(), 300*time.Second)
	}
}

// load puts attempts of others on an endpoint, for good.
func (w *world) load(endpoint string, n int) {
	for range n {
		var h tracker.Hold
		h.Move(w.tracker.Endpoint(endpoint))
	}
}

func (w *world) inFlight(endpoint string) int64 { return w.tracker.Endpoint(endpoint).InFlight() }

// ask makes a request with this prompt.
func ask(model, prompt string) *request.Request {
	return &request.Request{
		Model: model, Text: []byte(prompt), Length: int64(len(prompt)), Digest: uint64(len(prompt)), HasPrompt: prompt != "",
	}
}

func (w *world) decide(q *request.Request) *Decision {
	w.Helper()
	d, err := w.router.Decide(w.Context(), w.router.Snapshot(), q, "")
	if err != nil {
		w.Fatal(err)
	}
	return d
}

// choose decides and gives the list, without keeping the place in flight.
func (w *world) choose(q *request.Request) []string {
	w.Helper()
	d := w.decide(q)
	list := ids(d)
	w.router.Free(d)
	return list
}

// warm lets target id serve a prompt.
func (w *world) warm(id, prompt string) {
	w.Helper()
	all := w.router.Snapshot().Pools()[0].Targets()
	for i := range all {
		w.tracker.SetReachable(all[i].ID, all[i].ID == id)
	}
	if got := w.choose(ask(w.router.Snapshot().Pools()[0].Name, prompt)); got[0] != id {
		w.Fatalf("warming %s served by %s", id, got[0])
	}
	w.reach()
}

func ids(d *Decision) []string {
	list := make([]string, d.Len())
	for k := range list {
		list[k] = d.Entry(k).ID
	}
	return list
}

func names(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("t%d", i)
	}
	return list
}

func refusal(t *testing.T, err error) *Refusal {
	t.Helper()
	var r *Refusal
	if !errors.As(err, &r) {
		t.Fatalf("error %v, want a refusal", err)
	}
	return r
}

func TestRefusals(t *testing.T) {
	w := newWorld(t)
	w.install(route("m", "round_robin", 2, "a", "b"))
	for _, test := range []struct {
		name  string
		model string
		cause wire.Error
		pool  string
	}{
		{"unknown model", "nobody", wire.ErrModelNotFound, ""},
		{"models are case-sensitive", "M", wire.ErrModelNotFound, ""},
		{"nothing reachable", "m", wire.ErrNoTarget, "m"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := w.router.Decide(t.Context(), w.router.Snapshot(), ask(test.model, ""), "")
			r := refusal(t, err)
			if r.Cause != test.cause || r.Pool != test.pool || r.RetryAfter != 0 || r.Error() != r.Message {
				t.Errorf("got %+v", r)
			}
			if strings.Contains(r.Message, "nobody") {
				t.Errorf("the message repeats what the client sent: %q", r.Message)
			}
		})
	}
	if w.inFlight("a") != 0 || w.inFlight("b") != 0 {
		t.Error("a refused request is counted in flight")
	}
}

func TestDecisionSays(t *testing.T) {
	w := newWorld(t)
	s := w.install(route("m", "cache_aware", 2, "a", "b"))
	w.reach()
	q := ask("m", "some prompt")
	q.Stream, q.Length = true, 4004
	d := w.decide(q)
	if d.Pool != s.Pool("m") || d.Kind != picker.Stream || d.FailOpen || d.Tokens != 1001 || d.Digest != q.Digest ||
		d.TextBytes != len(q.Text) || d.MatchedBytes != 0 || d.Why != picker.WhyLeastLoad || d.Took <= 0 {
		t.Errorf("got %+v", d)
	}
	if limit, perTry := d.Pool.TimeLimit(d.Kind); limit != 60*time.Second || !perTry {
		t.Errorf("limit of a stream: %v, per try %t", limit, perTry)
	}
	if limit, perTry := d.Pool.TimeLimit(picker.Unary); limit != 600*time.Second || perTry {
		t.Errorf("limit of a unary answer: %v, per try %t", limit, perTry)
	}
	if k := d.Find(wire.ClusterName("b")); k != slices.Index(ids(d), "b") {
		t.Errorf("b found at %d", k)
	}
	if k := d.Find("elsewhere"); k != -1 {
		t.Errorf("an unknown cluster found at %d", k)
	}
	first := d.Entry(0).ID
	w.router.Free(d)
	d = w.decide(q)
	if d.Entry(0).ID != first || d.MatchedBytes != len(q.Text) || d.Why != picker.WhyPrefix {
		t.Errorf("the same again: %s, %d bytes matched, why %v", d.Entry(0).ID, d.MatchedBytes, d.Why)
	}
	q.TokenIDs = []uint32{1, 2, 3}
	if d = w.decide(q); d.Tokens != 3 {
		t.Errorf("%d tokens, want those given", d.Tokens)
	}
}

// A request is reused once it is decided; the decision must have its own text for
// the entries that come later.
func TestDecisionOwnsItsText(t *testing.T) {
	w := newWorld(t)
	w.install(route("m", "cache_aware", 2, "a", "b"))
	w.reach()
	const prompt = "a prompt that is remembered where it was dispatched"
	q := ask("m", prompt)
	d := w.decide(q)
	clear(q.Text)
	second := d.Entry(1).ID
	d.Withdraw(0)
	d.Observe(1)
	w.router.Free(d)
	w.park(slices.DeleteFunc([]string{"a", "b"}, func(id string) bool { return id == second })...)
	d = w.decide(ask("m", prompt))
	if d.Entry(0).ID != second || d.MatchedBytes != len(prompt) {
		t.Errorf("%d bytes known on %s, want %d on %s", d.MatchedBytes, d.Entry(0).ID, len(prompt), second)
	}
}

// Case 100: counts rise and fall, and are 0 at the end.
func TestInFlight(t *testing.T) {
	w := newWorld(t)
	w.install(route("m", "round_robin", 2, "a", "b", "c"), route("n", "round_robin", 2, "a"))
	w.reach()
	var open []*Decision
	for range 6 {
		open = append(open, w.decide(ask("m", "")))
	}
	open = append(open, w.decide(ask("n", "")))
	for e, want := range map[string]int64{"a": 3, "b": 2, "c": 2} {
		if n := w.inFlight(e); n != want {
			t.Errorf("%s: %d in flight, want %d", e, n, want)
		}
	}
	open[0].Move(1)
	open[1].Move(-1)
	if a, b := w.inFlight("a"), w.inFlight("b"); a != 2 || b != 2 || !open[0].Held() || open[1].Held() {
		t.Errorf("a %d, b %d after a move and a release, want 2 and 2", a, b)
	}
	for _, d := range open {
		w.router.Free(d)
	}
	for _, e := range []string{"a", "b", "c"} {
		if n := w.inFlight(e); n != 0 {
			t.Errorf("%s: %d in flight at the end", e, n)
		}
		if w.tracker.Listed(e) {
			t.Errorf("%s is still listed", e)
		}
	}
}
