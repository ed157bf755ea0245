package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/enginesim"
)

// quick makes failover immediate and parks nothing.
const quick = "retry: {base_backoff_ms: 1, max_backoff_ms: 2}\ncooldown: {base_secs: 0}\n"

func status(code int) enginesim.Fault { return enginesim.Fault{Status: code} }

var (
	reset  = enginesim.Fault{Action: enginesim.Reset}
	silent = enginesim.Fault{Action: enginesim.Hang}
)

// Failover by kind of failure: cases 222-224, 387, 388.
func TestFailover(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, enginesim.Options{})
	m := newMesh(t, quick+f.providers()+"routes:\n"+f.route("turn", "round_robin", "m"))
	m.reachable(2)

	// With round_robin over two targets, a is first in every other request.
	first := func(fault enginesim.Fault) (served []answer, firstSaw int64) {
		t.Helper()
		f.faults(t, "a", fault)
		f.faults(t, "b")
		before := f[0].Stats().Requests
		for range 2 {
			served = append(served, m.post(chatPath, chat("turn", "x", false, 1)))
		}
		return served, f[0].Stats().Requests - before
	}
	for _, code := range []int{408, 429, 500, 501, 502, 503, 504, 529, 599} {
		served, saw := first(status(code))
		for _, a := range served {
			if a.status != 200 || a.servedBy() != "b" {
				t.Errorf("case 388: %d from the first: %d by %s", code, a.status, a.servedBy())
			}
		}
		if saw != 1 {
			t.Errorf("%d: the first target saw %d requests of 2", code, saw)
		}
	}
	for _, code := range []int{400, 401, 403, 404, 409, 422, 425} { // case 222
		served, _ := first(status(code))
		passed := 0
		for _, a := range served {
			if a.status == code && a.servedBy() == "a" {
				passed++
			}
		}
		if passed != 1 {
			t.Errorf("case 388: %d from the first was not passed through", code)
		}
	}
	served, _ := first(enginesim.Fault{Status: 429, Headers: map[string]string{"x-envoy-ratelimited": "true"}})
	for _, a := range served {
		if a.status != 200 {
			t.Errorf("case 387: status %d", a.status)
		}
	}
	served, _ = first(reset)
	for _, a := range served {
		if a.status != 200 {
			t.Errorf("reset: status %d", a.status)
		}
	}
	f[0].Kill()
	for range 4 {
		if a := m.post(chatPath, chat("turn", "x", false, 1)); a.status != 200 || a.servedBy() != "b" {
			t.Errorf("refused: status %d by %s", a.status, a.servedBy())
		}
	}
	m.settled()
}

// A failed target is parked, with the engine's Retry-After: case 223. One plain
// 500 parks nothing, two in a row do: case 418.
func TestCooldown(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, enginesim.Options{})
	m := newMesh(t, "cooldown: {base_secs: 60}\n"+f.providers()+"routes:\n"+f.route("turn", "round_robin", "m"))
	m.reachable(2)
	eligible := func() float64 { return m.metric("pointsman_target_eligible") }

	f.faults(t, "a", enginesim.Fault{Status: 500, Count: 1})
	for range 2 {
		if a := m.post(chatPath, chat("turn", "x", false, 1)); a.status != 200 {
			t.Errorf("case 224: status %d", a.status)
		}
	}
	m.settled()
	if n := eligible(); n != 2 {
		t.Errorf("case 418: one 500: %v targets eligible", n)
	}

	f.faults(t, "a", enginesim.Fault{Status: 429, RetryAfter: "100", Count: 1})
	for range 2 {
		if a := m.post(chatPath, chat("turn", "x", false, 1)); a.status != 200 {
			t.Errorf("case 223: status %d", a.status)
		}
	}
	eventually(t, "the target is parked", func() error {
		if n := eligible(); n != 1 {
			return fmt.Errorf("%v eligible", n)
		}
		return nil
	})
	before := f[0].Stats().Requests
	for range 6 {
		m.post(chatPath, chat("turn", "x", false, 1))
	}
	if n := f[0].Stats().Requests - before; n != 0 {
		t.Errorf("case 220: a parked target served %d", n)
	}
	if n := m.metric("pointsman_cooldowns_tripped_total", `target="a/m"`); n != 1 {
		t.Errorf("%v cooldowns", n)
	}
	m.settled()
}

// Lists of three entries that end in every kind of failure: cases 377-379, 410.
// Every case has a route of its own, whose first list is b, c, a.
func TestEndOfList(t *testing.T) {
	t.Parallel()
	served := map[string]string{"x-pointsman-target": "x", "x-pointsman-attempts": "99"}
	own503 := enginesim.Fault{Status: 503, RetryAfter: "9", Body: `{"error":"mine"}`}
	dead := enginesim.Fault{} // the engine is killed instead
	cases := []struct {
		name    string
		b, c, a enginesim.Fault
		kill    string // engines that are dead
		stream  bool
		status  int
		code    string // of our error body, "" = the engine's own answer
	}{
		{name: "case-377", b: status(503), c: status(503), a: enginesim.Fault{Headers: served}, status: 200},
		{name: "refused", kill: "bca", status: 502, code: "upstream_connection_failed"},
		{name: "reset", b: reset, c: reset, a: reset, status: 502, code: "upstream_connection_failed"},
		{name: "silent", b: silent, c: silent, a: silent, stream: true, status: 504, code: "upstream_timeout"},
		{name: "silent-then-refused", b: silent, c: silent, a: dead, kill: "a", stream: true, status: 502, code: "upstream_connection_failed"},
		{name: "refused-then-silent", b: dead, c: dead, a: silent, kill: "bc", stream: true, status: 504, code: "upstream_timeout"},
		{name: "503-then-reset", b: status(503), c: status(503), a: reset, status: 502, code: "upstream_connection_failed"},
		{name: "case-379", b: reset, c: reset, a: own503, status: 503},
	}
	f := newFleet(t, 3, enginesim.Options{})
	bca := fleet{f[1], f[2], f[0]}
	cfg := "retry: {base_backoff_ms: 1, max_backoff_ms: 2}\ncooldown: {base_secs: 0}\n" +
		"timeouts: {request_secs: {stream: 1, unary: 60}}\n" + f.providers() + "routes:\n"
	for _, c := range cases {
		cfg += bca.route(c.name, "round_robin", "m") + bca.route(c.name+"-messages", "round_robin", "m")
	}
	m := newMesh(t, cfg)
	m.reachable(3)
	for _, c := range cases {
		for _, dialect := range []string{"openai", "anthropic"} {
			model, path := c.name, chatPath
			if dialect == "anthropic" {
				// The engine does not know the path, but a failure comes before that.
				model, path = c.name+"-messages", "/v1/messages"
			}
			if dialect == "anthropic" && c.code == "" {
				continue
			}
			for _, e := range f {
				if strings.Contains(c.kill, e.Name()) {
					e.Kill()
				} else if err := e.Revive(); err != nil {
					t.Fatal(err)
				}
			}
			anyPath := func(fault enginesim.Fault) enginesim.Fault { fault.Path = "/v1/"; return fault }
			f.faults(t, "b", anyPath(c.b))
			f.faults(t, "c", anyPath(c.c))
			f.faults(t, "a", anyPath(c.a))
			before := f.counts()
			a := m.post(path, chat(model, "x", c.stream, 1))
			if a.status != c.status {
				t.Errorf("%s %s: status %d %s", c.name, dialect, a.status, a.body)
			}
			if got := a.header.Get("x-pointsman-attempts"); got != "3" {
				t.Errorf("%s %s: attempts %q", c.name, dialect, got)
			}
			if got := a.header.Get("x-pointsman-target"); got != "a/m" {
				t.Errorf("%s %s: target %q", c.name, dialect, got)
			}
			for i, n := range f.counts() { // no target is tried twice
				if n-before[i] > 1 {
					t.Errorf("%s %s: engine %s saw %d requests", c.name, dialect, f[i].Name(), n-before[i])
				}
			}
			if c.code != "" {
				if code, got := a.code(t); got != dialect || dialect == "openai" && code != c.code {
					t.Errorf("case 378 %s: %s in dialect %s: %s", c.name, code, got, a.body)
				}
			}
			if c.name == "case-379" && (a.header.Get("retry-after") != "9" || a.body != own503.Body) {
				t.Errorf("case 379: %v %s", a.header, a.body)
			}
		}
	}
	m.settled()
}

// Case 410: a whole answer that does not come in time is not tried again, a stream
// is. Case 384: a stream may last as long as it flows, one that stalls is cut.
func TestTimeLimits(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, enginesim.Options{Decode: 10})
	m := newMesh(t, quick+"timeouts: {connect_secs: 1, request_secs: 1, idle_secs: 2}\n"+f.providers()+"routes:\n"+
		f.route("unary", "round_robin", "m")+f.route("stream", "round_robin", "m")+f.route("long", "round_robin", "m")+
		f.route("stall", "round_robin", "m"))
	m.reachable(2)

	f.faults(t, "a", silent)
	begin := time.Now()
	a := m.post(chatPath, chat("unary", "x", false, 1))
	if code, _ := a.code(t); a.status != 504 || code != "upstream_timeout" || a.header.Get("x-pointsman-attempts") != "1" {
		t.Errorf("case 410 unary: %d %s %v", a.status, a.body, a.header)
	}
	if took := time.Since(begin); took < 900*time.Millisecond {
		t.Errorf("case 410 unary: after %v", took)
	}
	if n := f[1].Stats().Requests; n != 0 {
		t.Errorf("case 410 unary: the second target saw %d requests", n)
	}
	a = m.post(chatPath, chat("stream", "x", true, 1))
	if a.status != 200 || a.servedBy() != "b" || a.header.Get("x-pointsman-attempts") != "2" {
		t.Errorf("case 410 stream: %d by %s", a.status, a.servedBy())
	}

	f.faults(t, "ab")
	s, err := m.open(chat("long", "x", true, 35)) // 3.5 s, over three times request_secs
	if err != nil {
		t.Fatal(err)
	}
	if events, whole := s.rest(); !whole {
		t.Errorf("case 384: cut after %d events", events)
	}
	after := 3
	f.faults(t, "ab", enginesim.Fault{Action: enginesim.Hang, AfterTokens: &after})
	s, err = m.open(chat("stall", "x", true, 35))
	if err != nil {
		t.Fatal(err)
	}
	if _, whole := s.rest(); whole {
		t.Error("case 384: a stalled stream came to its end")
	}
	m.settled()
	if n := m.metric("pointsman_outcomes_total", `outcome="cut"`); n != 1 {
		t.Errorf("case 384: %v outcomes cut", n)
	}
}
