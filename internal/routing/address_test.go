package routing

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/config"
	"github.com/pointsman/pointsman/internal/request"
	"github.com/pointsman/pointsman/internal/wire"
	"github.com/pointsman/pointsman/picker"
)

// load puts a whole file into force, all of it reachable.
func (w *world) file(text string) *Snapshot {
	w.Helper()
	c, err := config.Parse("test.yaml", []byte(text))
	if err != nil {
		w.Fatal(err)
	}
	s, err := NewSnapshot(c, w.tracker, w.router.Snapshot())
	if err != nil {
		w.Fatal(err)
	}
	w.router.Swap(s)
	targets, endpoints := s.Targets()
	w.tracker.Retain(targets, endpoints, time.Now())
	w.reach()
	return s
}

func (w *world) as(caller string, q *request.Request) (*Decision, error) {
	return w.router.Decide(w.Context(), w.router.Snapshot(), q, caller)
}

const fleet = `
providers:
  - {name: p, url: "http://10.0.0.1"}
  - {name: q, url: "http://10.0.0.2"}
  - {name: r, url: "http://10.0.0.3"}
  - {name: 日本, url: "http://10.0.0.4"}
routes:
  - {model: plain, targets: [{provider: p}, {provider: q, model: up}]}
  - {model: g/x, targets: [{provider: q}]}
  - {model: p/routed, targets: [{provider: r}]}
groups:
  - {name: G, members: [{provider: p, weight: 3}, {provider: q, model: own, weight: 2}, {provider: r}]}
  - {name: r, members: [{provider: p}]}
  - {name: empty}
  - {name: own, members: [{provider: p, model: a}, {provider: q, model: b}]}
`

// Cases 227-231, and case 149: what a model string leads to, with the models and the adapter.
func TestAddresses(t *testing.T) {
	for _, test := range []struct {
		name, model string
		pool        string   // "" = a miss
		list        []string // target ids and models
		adapter     string
	}{
		{"case 227", "p/a/b:c", "p/*", []string{"p/* a/b:c"}, ""},
		{"case 228", "g/x", "g/x", []string{"q/g/x g/x"}, ""},
		{"a route before a provider", "p/routed", "p/routed", []string{"r/p/routed p/routed"}, ""},
		{"case 229, unknown slug", "nobody/m", "", nil, ""},
		{"case 229, empty right", "p/", "", nil, ""},
		{"case 229, empty left", "/x", "", nil, ""},
		{"case 229, no slash", "nothing", "", nil, ""},
		{"case-sensitive", "P/x", "", nil, ""},
		{"not a slug", "日本/x", "", nil, ""},
		{"case 230", "g/lora-a", "g/*", []string{"p/* lora-a", "q/own own", "r/* lora-a"}, "lora-a"},
		{"case 230, slashes", "g/a/b", "g/*", []string{"p/* a/b", "q/own own", "r/* a/b"}, "a/b"},
		{"case 231, a provider of this slug", "r/x", "r/*", []string{"r/* x"}, ""},
		{"case 231, no members", "empty/x", "", nil, ""},
		{"case 149, own models only", "own/lora-a", "own/*", []string{"p/a a", "q/b b"}, ""},
		{"case 149, route", "plain", "plain", []string{"p/plain plain", "q/up up"}, ""},
		{"a variant is no address", "plain::v", "", nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			s := w.file(fleet)
			q := ask(test.model, "")
			d, err := w.as("", q)
			if test.pool == "" {
				if r := refusal(t, err); r.Cause != wire.ErrModelNotFound || r.Pool != "" {
					t.Fatalf("refused with %+v", r)
				}
				if _, ok := s.Lookup(q, ""); ok {
					t.Error("found all the same")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var list []string
			for k := range d.Len() {
				list = append(list, d.Entry(k).ID+" "+d.Model(k))
			}
			if diff := cmp.Diff(test.list, list); diff != "" || d.Pool.Name != test.pool || d.req.Adapter != test.adapter {
				t.Errorf("pool %s, adapter %q, list (-want +got)\n%s", d.Pool.Name, d.req.Adapter, diff)
			}
			if pin := d.Pool.Strategy == ""; pin != (d.Why == picker.WhyPin) {
				t.Errorf("chosen because of %s", d.Why)
			}
			w.router.Free(d)
		})
	}
}

// Case 149 and case 230, what the strategies are told: members with their own model never hold
// the adapter, and weights are kept.
func TestGroupInputs(t *testing.T) {
	w := newWorld(t)
	s := w.file(fleet)
	want := []picker.Target{{ID: "p/*", Weight: 3}, {ID: "q/own", Weight: 2, OwnModel: true}, {ID: "r/*", Weight: 1}}
	if diff := cmp.Diff(want, s.byKey[poolKey{groupPool, "g", ""}].chooser.inputs.Targets); diff != "" {
		t.Error(diff)
	}
	for _, target := range s.Pool("plain").chooser.inputs.Targets {
		if target.OwnModel {
			t.Errorf("%s of a route has OwnModel", target.ID)
		}
	}
}

// Case 232, and report 050: one balancer for all models asked of a group, which goes on from
// request to request as that of a route does.
func TestGroupHasOneBalancer(t *testing.T) {
	for _, test := range []struct {
		strategy string
		weights  []int
		requests int
		want     map[string]int
	}{
		{"round_robin", []int{1, 1, 1}, 399, map[string]int{"p/*": 133, "q/*": 133, "r/*": 133}},
		{"weighted", []int{1, 1, 2}, 400, map[string]int{"p/*": 100, "q/*": 100, "r/*": 200}},
		{"weighted", []int{2, 0, 1}, 300, map[string]int{"p/*": 200, "r/*": 100}}, // report 056: 0 = no traffic
	} {
		w := newWorld(t)
		c, err := config.Parse("f", []byte(fleet))
		if err != nil {
			t.Fatal(err)
		}
		g := &c.Groups[0]
		g.Strategy, g.Members = test.strategy, nil
		for i, slug := range []string{"p", "q", "r"} {
			g.Members = append(g.Members, config.Target{Provider: slug, ID: slug + "/*", Weight: test.weights[i], ProviderIndex: i})
		}
		s, err := NewSnapshot(c, w.tracker, nil)
		if err != nil {
			t.Fatal(err)
		}
		w.router.Swap(s)
		w.reach()
		got := map[string]int{}
		for i := range test.requests {
			d := w.decide(ask("g/model-"+strings.Repeat("x", i%7), ""))
			got[d.Entry(0).ID]++
			w.router.Free(d)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s %v: %s", test.strategy, test.weights, diff)
		}
	}
}

// Pins and members that serve any model are one target, with one cluster and one count.
func TestPinSharesItsTarget(t *testing.T) {
	w := newWorld(t)
	s := w.file(fleet)
	pin, member := &s.slugs["p"].pools[0].targets[0], &s.slugs["g"].pools[0].targets[0]
	if pin.ID != member.ID || pin.Cluster != member.Cluster || pin.State != member.State || pin.Endpoint != member.Endpoint {
		t.Errorf("%+v and %+v", pin, member)
	}
	d := w.decide(ask("p/m", ""))
	if w.inFlight("p") != 1 {
		t.Error("a pin is not counted")
	}
	d.Observe(0)
	d.Withdraw(0)
	w.router.Free(d)
	w.park("p/*")
	if d := w.decide(ask("p/m", "")); !d.FailOpen {
		t.Error("a parked pin is not by failing open")
	}
	w.tracker.SetReachable("p/*", false)
	if _, err := w.as("", ask("p/m", "")); refusal(t, err).Cause != wire.ErrNoTarget {
		t.Errorf("an unreachable pin: %v", err)
	}
}

const variants = `
providers: [{name: a, url: "http://10.0.0.1"}, {name: b, url: "http://10.0.0.2"}, {name: c, url: "http://10.0.0.3"}, {name: d, url: "http://10.0.0.4"}]
retry: {max_retries: 9}
routes:
  - model: m
    variants:
      - {name: v0, weight: 1, targets: [{provider: a}, {provider: b}]}
      - {name: v1, weight: 3, targets: [{provider: c, model: other}, {provider: a}]}
      - {name: v2, weight: 0, targets: [{provider: d}]}
`

// Case 234: the primary's choice leads, then its others, then those of the other variants in
// declared order, nobody twice; failing open comes after all that, the primary first.
func TestVariants(t *testing.T) {
	w := newWorld(t)
	w.router.Rand = rand.NewPCG(1, 2)
	w.file(variants)
	want := map[string][][]string{
		"v0": {{"a/m", "b/m", "c/other", "d/m"}, {"b/m", "a/m", "c/other", "d/m"}},
		"v1": {{"c/other", "a/m", "b/m", "d/m"}, {"a/m", "c/other", "b/m", "d/m"}},
	}
	drawn := map[string]int{}
	for range 4000 {
		d := w.decide(ask("m", "a prompt"))
		if d.Pool.Name != "m::"+d.Variant || d.FailOpen {
			t.Fatalf("pool %s, variant %s, fail open %t", d.Pool.Name, d.Variant, d.FailOpen)
		}
		if list := ids(d); !slices.ContainsFunc(want[d.Variant], func(l []string) bool { return slices.Equal(l, list) }) {
			t.Fatalf("%s: %v", d.Variant, list)
		}
		for k := range d.Len() {
			if got, want := d.Model(k), map[bool]string{true: "other", false: "m"}[d.Entry(k).ID == "c/other"]; got != want {
				t.Fatalf("model of %s: %s", d.Entry(k).ID, got)
			}
			d.Move(k)
			d.Observe(k)
			d.Withdraw(k)
			if w.inFlight(d.Entry(k).Provider) != 1 {
				t.Fatalf("not counted on %s", d.Entry(k).Provider)
			}
		}
		drawn[d.Variant]++
		w.router.Free(d)
	}
	if drawn["v0"] < 900 || drawn["v0"] > 1100 || drawn["v2"] > 0 {
		t.Errorf("drawn %v of 4000, weights 1, 3, 0", drawn)
	}

	// Everybody parked but one of the variant that is never drawn: it leads, then fail open.
	w.park("a/m", "b/m", "c/other")
	for range 50 {
		d := w.decide(ask("m", ""))
		list := ids(d)
		if list[0] != "d/m" || d.FailOpen || len(list) != 4 {
			t.Fatalf("list %v, fail open %t", list, d.FailOpen)
		}
		if first := list[1]; d.Variant == "v0" && first != "a/m" && first != "b/m" || d.Variant == "v1" && first != "a/m" && first != "c/other" {
			t.Fatalf("%s, failing open: %v", d.Variant, list)
		}
		w.router.Free(d)
	}
	w.park("d/m")
	for range 20 {
		d := w.decide(ask("m", ""))
		if list := ids(d); !d.FailOpen || len(list) != 4 || d.Variant == "v0" && list[0] == "c/other" || d.Variant == "v1" && list[0] == "b/m" {
			t.Fatalf("%s, all parked: %v, fail open %t", d.Variant, list, d.FailOpen)
		}
		w.router.Free(d)
	}
}

// Case 234: the list is no longer than the retries allow, whoever fills it.
func TestVariantsListLength(t *testing.T) {
	w := newWorld(t)
	w.file(strings.Replace(variants, "max_retries: 9", "max_retries: 2", 1))
	for range 50 {
		if list := w.choose(ask("m", "")); len(list) != 3 || slices.Contains(list, "d/m") {
			t.Fatalf("list %v", list)
		}
	}
}

const limited = `
providers: [{name: a, url: "http://10.0.0.1"}, {name: b, url: "http://10.0.0.2"}, {name: 日本, url: "http://10.0.0.3"}]
routes:
  - {model: m, targets: [{provider: a}, {provider: b}]}
  - {model: only-b, targets: [{provider: b}]}
  - {model: no-slug, targets: [{provider: 日本, id: x}]}
groups:
  - {name: g, members: [{provider: b, model: x}, {provider: a, model: y}, {provider: b, model: y}]}
callers:
  identity: {header: x-caller}
  trusted: [127.0.0.1]
  allow: [{name: alice, providers: [a]}, {name: bob, providers: []}]
`

// Case 221: a caller's limits are kept whatever is left, and a provider that the
// caller may not use is as if it were not there. Of case 399, the choice: an anonymous caller has no limits.
func TestCallers(t *testing.T) {
	w := newWorld(t)
	s := w.file(limited)
	list := func(caller, model string) []string {
		t.Helper()
		d, err := w.as(caller, ask(model, ""))
		if err != nil {
			return []string{refusal(t, err).Cause.Code}
		}
		defer w.router.Free(d)
		return ids(d)
	}
	check := func(what string) {
		t.Helper()
		for range 4 {
			for _, test := range []struct {
				caller, model string
				want          []string
			}{
				{"alice", "m", []string{"a/m"}},
				{"alice", "only-b", []string{"no_permitted_target"}},
				{"alice", "no-slug", []string{"no_permitted_target"}},
				{"alice", "g/y", []string{"a/y"}},
				{"alice", "b/any", []string{"model_not_found"}},
				{"bob", "no-slug", []string{"x"}},
			} {
				if diff := cmp.Diff(test.want, list(test.caller, test.model)); diff != "" {
					t.Errorf("%s: %s asks for %s: %s", what, test.caller, test.model, diff)
				}
			}
		}
	}
	check("all well")
	if got := list("alice", "a/any"); !slices.Equal(got, []string{"a/*"}) {
		t.Errorf("alice's pin: %v", got)
	}
	for _, caller := range []string{"", "bob", "unknown"} {
		if got := list(caller, "m"); len(got) != 2 {
			t.Errorf("%q: %v", caller, got)
		}
		if got := list(caller, "b/any"); !slices.Equal(got, []string{"b/*"}) {
			t.Errorf("%q: %v", caller, got)
		}
	}
	w.park("a/m", "a/y")
	check("the allowed one parked: fail open among the allowed")
	w.tracker.SetReachable("a/m", false)
	if got := list("alice", "m"); !slices.Equal(got, []string{"no_target"}) {
		t.Errorf("only a forbidden one is alive: %v", got)
	}

	if diff := cmp.Diff([]string{"m", "g/y"}, s.Models("alice")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"m", "only-b", "no-slug", "g/x", "g/y"}, s.Models("")); diff != "" {
		t.Error(diff)
	}
	if s.HasModel("only-b", "alice") || !s.HasModel("only-b", "bob") || s.HasModel("nothing", "") || !s.HasModel("g/y", "alice") {
		t.Error("HasModel does not agree with Models")
	}
	if !s.Limited("alice") || s.Limited("bob") || s.Limited("") {
		t.Error("Limited")
	}
}

const full = `
providers:
  - {name: a, url: "http://10.0.0.1", max_in_flight: 2}
  - {name: b, url: "http://10.0.0.2", max_in_flight: 2}
routes:
  - {model: m, targets: [{provider: a}, {provider: b}]}
  - {model: n, targets: [{provider: a, model: x}]}
`

// Case 411, the choice: four run, the fifth is refused with 429 and Retry-After, and when one
// ends the next is served. The limit is the provider's, over all its pools.
func TestMaxInFlight(t *testing.T) {
	w := newWorld(t)
	w.file(full)
	var held []*Decision
	for range 4 {
		held = append(held, w.decide(ask("m", "")))
	}
	for _, model := range []string{"m", "n", "a/any"} {
		_, err := w.as("", ask(model, ""))
		if r := refusal(t, err); r.Cause != wire.ErrSaturated || r.RetryAfter != 1 {
			t.Errorf("%s: %+v", model, r)
		}
	}
	w.router.Free(held[0])
	d := w.decide(ask("m", ""))
	if d.Len() != 1 || d.FailOpen {
		t.Errorf("list %v: a full target follows", ids(d))
	}
	w.router.Free(d)
	// Not only because they are full: one cannot be reached, and the other is full.
	w.park("a/m", "b/m")
	if d := w.decide(ask("m", "")); !d.FailOpen {
		t.Error("parked and not full: not by failing open")
	}
	w.tracker.SetReachable("a/m", false)
	w.tracker.SetReachable("b/m", false)
	if _, err := w.as("", ask("m", "")); refusal(t, err).Cause != wire.ErrNoTarget {
		t.Errorf("nobody reachable: %v", err)
	}
}

// Case 411: the limit holds however many ask at once, of several pools too.
func TestMaxInFlightAtOnce(t *testing.T) {
	for range 50 {
		w := newWorld(t)
		w.file(full)
		var wg sync.WaitGroup
		decisions := make([]*Decision, 40)
		start := make(chan struct{})
		for i := range decisions {
			wg.Go(func() {
				<-start
				decisions[i], _ = w.as("", ask([]string{"m", "n", "a/any", "b/any"}[i%4], ""))
			})
		}
		close(start)
		wg.Wait()
		if a, b := w.inFlight("a"), w.inFlight("b"); a != 2 || b != 2 {
			t.Fatalf("%d and %d in flight, want 2 each", a, b)
		}
		for _, d := range decisions {
			if d != nil {
				w.router.Free(d)
			}
		}
		if a, b := w.inFlight("a"), w.inFlight("b"); a != 0 || b != 0 {
			t.Fatalf("%d and %d left", a, b)
		}
	}
}

// Requests without a model go by the longest path that fits.
func TestPassthroughPaths(t *testing.T) {
	w := newWorld(t)
	s := w.file(fleet + `
passthrough:
  - {path_prefix: /v1/files, route: plain}
  - {path_prefix: /v1/files/special, route: g/x}
`)
	for path, want := range map[string]string{
		"/v1/files": "plain", "/v1/files/1": "plain", "/v1/filesystem": "plain", "/v1/files/special/x": "g/x", "/v1/file": "", "/": "", "": "",
	} {
		q := &request.Request{Path: path}
		if s.ServesPath(path) != (want != "") {
			t.Errorf("%s served: %t", path, s.ServesPath(path))
		}
		d, err := w.as("", q)
		if want == "" {
			if refusal(t, err).Cause != wire.ErrModelNotFound {
				t.Errorf("%s: %v", path, err)
			}
			continue
		}
		if err != nil || d.Pool.Name != want {
			t.Errorf("%s: %v %v", path, d, err)
			continue
		}
		w.router.Free(d)
	}
	if _, err := w.as("", &request.Request{Path: "/v1/files", Model: "nothing"}); err == nil {
		t.Error("a model that does not exist went by its path")
	}
}

// A reload keeps the pools of groups, variants and pins that did not change, and what the balancers of
// changed ones know.
func TestReloadOfAllKinds(t *testing.T) {
	w := newWorld(t)
	before := w.file(fleet)
	after := w.file(fleet + "retry: {base_backoff_ms: 200}\n")
	for key, p := range before.byKey {
		if after.byKey[key] != p {
			t.Errorf("%v is a new object", key)
		}
	}
	w.choose(ask("g/x1", ""))
	changed := w.file(strings.Replace(fleet, "{provider: r}]}\n  - {name: r,", "{provider: r, weight: 0}]}\n  - {name: r,", 1))
	if changed.slugs["g"].pools[0] == after.slugs["g"].pools[0] {
		t.Error("a changed group is the old object")
	}
	if got := w.choose(ask("g/x2", "")); got[0] != "q/own" {
		t.Errorf("rotation goes on with %v", got)
	}
}

// Case 101: load is counted by endpoint, over all pools that lead there.
func TestLoadOverPools(t *testing.T) {
	w := newWorld(t)
	s := w.file("providers: [{name: e, url: \"http://10.0.0.1\"}]\n" +
		"routes: [{model: one, targets: [{provider: e}]}, {model: two, targets: [{provider: e, model: x}]}]\ngroups: [{name: g, members: [{provider: e}]}]\n")
	for _, model := range []string{"one", "two", "g/any"} {
		for range 3 {
			w.decide(ask(model, ""))
		}
	}
	for _, p := range slices.Concat(s.Pools(), s.Pins()) {
		if load := p.Targets()[0].Endpoint.Load(); load != 9 {
			t.Errorf("%s: load %d, want 9", p.Name, load)
		}
	}
}
