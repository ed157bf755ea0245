package picker

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"
)

// clock is a time for tests, in seconds.
func clock(seconds int) time.Time {
	return time.Unix(1_000_000, 0).Add(time.Duration(seconds) * time.Second)
}

// pinned tells where a session is pinned at a time.
func pinned(b Balancer, session string, now time.Time) int {
	c := Call{Request: &Request{Session: session}, Now: now}
	b.Prepare(&c)
	return c.scratch.pinned
}

// attempt observes a session on target i, and gives the call for what follows.
func attempt(b Balancer, session string, i int, now time.Time) *Call {
	c := &Call{Request: &Request{Session: session}, Now: now}
	b.Observe(i, c)
	return c
}

func pipelineOf(t *testing.T, change func(*Settings), ids ...string) Balancer {
	cfg := configOf("pipeline", ids...)
	if change != nil {
		change(&cfg.Settings)
	}
	return mustNew(t, cfg, nil)
}

func tableOf(b Balancer) *pinTable { return b.(*scored).pins.table }

// Cases 96 and 97, and other orders in which attempts of a session end.
func TestWithdrawnPins(t *testing.T) {
	const a, b, c = 0, 1, 2
	type step struct {
		attempt  int // number of the call
		observe  int // target, or -1
		withdraw int // target, or -1
	}
	obs := func(attempt, target int) step { return step{attempt, target, -1} }
	wdr := func(attempt, target int) step { return step{attempt, -1, target} }
	for _, test := range []struct {
		name  string
		steps []step
		want  int
	}{
		{"case 96", []step{obs(1, a), obs(2, b), wdr(2, b)}, a},
		{"case 97", []step{obs(1, a), obs(2, b), obs(3, c), wdr(2, b)}, c},
		{"nothing before", []step{obs(1, a), wdr(1, a)}, -1},
		{"the same target before", []step{obs(1, a), obs(2, a), wdr(2, a)}, a},
		{"the same target since", []step{obs(1, a), obs(2, b), obs(3, b), wdr(2, b)}, b},
		{"failover: the second entry serves", []step{obs(1, a), wdr(1, a), obs(1, b)}, b},
		{"failover: both fail", []step{obs(1, a), wdr(1, a), obs(1, b), wdr(1, b)}, -1},
		{"failover of a pinned session, both fail", []step{obs(1, c), obs(2, a), wdr(2, a), obs(2, b), wdr(2, b)}, c},
		{"second entry heard of before the first", []step{obs(1, c), obs(2, a), obs(2, b), wdr(2, a)}, b},
		{"withdrawn twice", []step{obs(1, a), obs(2, b), wdr(2, b), obs(3, b), wdr(2, b)}, b},
		{"withdrawn without being observed", []step{obs(1, a), wdr(2, a)}, a},
		{"withdrawn from another target", []step{obs(1, a), obs(2, b), wdr(2, a)}, b},
		{"one after the other", []step{obs(1, a), obs(2, b), obs(3, c), wdr(3, c), wdr(2, b)}, a},
	} {
		t.Run(test.name, func(t *testing.T) {
			bal := pipelineOf(t, nil, "a", "b", "c")
			calls := map[int]*Call{}
			for k, s := range test.steps {
				if calls[s.attempt] == nil {
					calls[s.attempt] = &Call{Request: &Request{Session: "s"}}
				}
				call := calls[s.attempt]
				call.Now = clock(k)
				if s.observe >= 0 {
					bal.Observe(s.observe, call)
				} else {
					bal.Withdraw(s.withdraw, call)
				}
			}
			if got := pinned(bal, "s", clock(10)); got != test.want {
				t.Errorf("pinned to %d, want %d", got, test.want)
			}
			checkPins(t, tableOf(bal))
		})
	}
}

// A pin lives as long as it was last observed, and one that comes back as long as it
// would have.
func TestPinsExpire(t *testing.T) {
	b := pipelineOf(t, nil, "a", "b")
	attempt(b, "s", 0, clock(0))
	for at, want := range map[int]int{0: 0, 299: 0, 300: -1, 1000: -1, -10: 0} {
		if got := pinned(b, "s", clock(at)); got != want {
			t.Errorf("after %d s: %d", at, got)
		}
	}
	attempt(b, "s", 0, clock(200))
	if got := pinned(b, "s", clock(450)); got != 0 {
		t.Errorf("observed again: %d", got)
	}
	c := attempt(b, "s", 1, clock(400))
	b.Withdraw(1, c)
	if got, late := pinned(b, "s", clock(499)), pinned(b, "s", clock(500)); got != 0 || late != -1 {
		t.Errorf("brought back: %d, after its time %d", got, late)
	}
}

// Case 94.
func TestPinsOfTooManySessions(t *testing.T) {
	b := pipelineOf(t, nil, "a", "b")
	for k := range 100_000 {
		attempt(b, strconv.Itoa(k), k%2, clock(0))
	}
	attempt(b, "0", 1, clock(1))
	attempt(b, "one more", 0, clock(1))
	for session, want := range map[string]int{"0": 1, "1": -1, "2": 0, "99999": 1, "one more": 0} {
		if got := pinned(b, session, clock(2)); got != want {
			t.Errorf("session %s: %d, want %d", session, got, want)
		}
	}
	if got := len(tableOf(b).at); got != 100_000 {
		t.Errorf("%d sessions", got)
	}
	checkPins(t, tableOf(b))
}

// Case 95.
func TestPinsAreSwept(t *testing.T) {
	b := pipelineOf(t, nil, "a")
	for k := range 50_000 {
		attempt(b, strconv.Itoa(k), 0, clock(k/1000))
	}
	b.Sweep(clock(299))
	if got := len(tableOf(b).at); got != 50_000 {
		t.Errorf("%d sessions before any has expired", got)
	}
	b.Sweep(clock(300 + 20))
	if got := len(tableOf(b).at); got != 29_000 {
		t.Errorf("%d sessions, 21 seconds of which have expired", got)
	}
	checkPins(t, tableOf(b))
	attempt(b, "late", 0, clock(320))
	b.Sweep(clock(350))
	if got := len(tableOf(b).at); got != 1 {
		t.Errorf("%d sessions", got)
	}
	b.Sweep(clock(700))
	if table := tableOf(b); len(table.at) != 0 || table.places != nil {
		t.Errorf("%d sessions, %d places", len(table.at), len(table.places))
	}
	checkPins(t, tableOf(b))
	attempt(b, "again", 0, clock(701))
	if got := pinned(b, "again", clock(702)); got != 0 {
		t.Errorf("after all: %d", got)
	}
}

// Case 243 for pins: they stay with the target, and are dropped with it.
func TestPinsOverReload(t *testing.T) {
	config := func(ids ...string) Config { return configOf("pipeline", ids...) }
	b := mustNew(t, config("a", "b", "c"), nil)
	for i, id := range []string{"a", "b", "c"} {
		attempt(b, "of "+id, i, clock(0))
	}
	former := b
	ids := []string{"new", "c", "a"}
	b = mustNew(t, config(ids...), b)
	check := func(session string, want string) {
		t.Helper()
		got := ""
		if i := pinned(b, session, clock(1)); i >= 0 {
			got = ids[i]
		}
		if got != want {
			t.Errorf("%s is pinned to %q, want %q", session, got, want)
		}
	}
	for range 2 { // before the new one is first used, and after
		check("of a", "a")
		check("of b", "")
		check("of c", "c")
		attempt(b, "of new", 0, clock(0))
	}
	check("of new", "new")

	late := attempt(former, "of a", 1, clock(0)) // a late attempt, on b which left
	check("of a", "a")
	former.Withdraw(1, late)
	check("of a", "a")
	attempt(former, "late", 2, clock(0)) // one on c, which stayed
	check("late", "c")

	b.Sweep(clock(1))
	if got := len(tableOf(b).at); got != 4 {
		t.Errorf("%d sessions, want all but that of b", got)
	}
	ids = []string{"a", "b", "c"}
	b = mustNew(t, config(ids...), b)
	check("of b", "")
	check("of c", "c")
}

// A withdrawn attempt does not bring back a pin to a target that has left.
func TestPinOfOneThatLeftDoesNotComeBack(t *testing.T) {
	b := mustNew(t, configOf("pipeline", "a", "b"), nil)
	attempt(b, "s", 0, clock(0))
	c := attempt(b, "s", 1, clock(1))
	next := mustNew(t, configOf("pipeline", "b"), b)
	attempt(next, "other", 0, clock(2))
	b.Withdraw(1, c)
	if got := pinned(next, "s", clock(3)); got != -1 {
		t.Errorf("pinned to %d", got)
	}
	again := mustNew(t, configOf("pipeline", "a", "b"), next)
	if got := pinned(again, "s", clock(3)); got != -1 {
		t.Errorf("the a that came back has it: %d", got)
	}
}

// Settings of the latest configuration in use count.
func TestPinSettingsOverReload(t *testing.T) {
	b := pipelineOf(t, nil, "a")
	for k := range 200 {
		attempt(b, strconv.Itoa(k), 0, clock(0))
	}
	cfg := configOf("pipeline", "a")
	cfg.Settings.SessionMax, cfg.Settings.SessionTTL = 50, 10*time.Second
	next := mustNew(t, cfg, b)
	if got, now := pinned(b, "0", clock(20)), pinned(next, "0", clock(20)); got != 0 || now != -1 {
		t.Errorf("formerly %d, now %d", got, now)
	}
	for k := range 10 {
		attempt(next, "new "+strconv.Itoa(k), 0, clock(20))
	}
	if got := len(tableOf(next).at); got != 50 {
		t.Errorf("%d sessions", got)
	}
	for k, want := range map[string]int{"new 0": 0, "new 9": 0} {
		if got := pinned(next, k, clock(20)); got != want {
			t.Errorf("session %s: %d", k, got)
		}
	}
	checkPins(t, tableOf(next))
}

// Pins belong to the pool while strategies that use them follow each other.
func TestPinsOverChangeOfStrategy(t *testing.T) {
	b := mustNew(t, configOf("pipeline", "a", "b"), nil)
	attempt(b, "s", 1, clock(0))
	b = mustNew(t, configOf("cache_aware", "a", "b"), b)
	b = mustNew(t, configOf("pipeline", "a", "b"), b)
	if got := pinned(b, "s", clock(1)); got != -1 {
		t.Errorf("after a strategy without use for it: %d", got)
	}
}

// A random history against one that keeps it all.
func TestPinsAgainstNaive(t *testing.T) {
	type kept struct {
		target  int
		at      time.Time
		attempt int
	}
	rng := rand.New(rand.NewPCG(96, 1))
	b := pipelineOf(t, func(s *Settings) { s.SessionTTL = 100 * time.Second }, "a", "b", "c")
	want := map[string]kept{}
	type open struct {
		call    *Call
		session string
		now     kept
		was     kept
		had     bool
	}
	var attempts []open
	for k := range 20_000 {
		now := clock(k / 10)
		session := "s" + strconv.Itoa(rng.IntN(20))
		switch rng.IntN(4) {
		case 0, 1:
			i := rng.IntN(3)
			was, had := want[session]
			c := attempt(b, session, i, now)
			want[session] = kept{i, now, k}
			attempts = append(attempts, open{c, session, want[session], was, had})
		case 2:
			if len(attempts) == 0 {
				continue
			}
			at := rng.IntN(len(attempts))
			o := attempts[at]
			attempts = slices.Delete(attempts, at, at+1)
			b.Withdraw(o.now.target, o.call)
			if want[o.session] == o.now {
				if o.had {
					want[o.session] = o.was
				} else {
					delete(want, o.session)
				}
			}
		case 3:
			if rng.IntN(20) == 0 {
				b.Sweep(now)
			}
		}
		expect := -1
		if p, ok := want[session]; ok && now.Sub(p.at) < 100*time.Second {
			expect = p.target
		}
		if got := pinned(b, session, now); got != expect {
			t.Fatalf("step %d, session %s: %d, want %d", k, session, got, expect)
		}
	}
	checkPins(t, tableOf(b))
}

// Observing costs no memory once a session is known.
func TestObserveOfKnownSession(t *testing.T) {
	b := pipelineOf(t, nil, "a", "b")
	c := &Call{Request: &Request{Session: "s"}, Now: clock(0)}
	for range 1000 {
		b.Observe(0, c)
		b.Observe(1, c)
	}
	if got := len(c.scratch.pins); got != 2 {
		t.Errorf("%d notes of 2 attempts", got)
	}
}

// checkPins holds a table to what its comments say of it.
func checkPins(tb testing.TB, t *pinTable) {
	tb.Helper()
	listed := 0
	newer := int32(nowhere)
	for k := t.newest; k != nowhere; newer, k = k, t.places[k].older {
		listed++
		p := t.places[k]
		if p.newer != newer || p.seat == nil {
			tb.Fatalf("place %d: %+v", k, p)
		}
		if at, known := t.at[p.session]; !known || at != k {
			tb.Fatalf("place %d is not found: %d, %v", k, at, known)
		}
		if listed > len(t.places) {
			tb.Fatal("the list has no end")
		}
	}
	if t.oldest != newer {
		tb.Fatalf("the list ends at %d, not at %d", newer, t.oldest)
	}
	free := 0
	for k := t.free; k != nowhere; k = t.places[k].newer {
		if t.places[k].seat != nil {
			tb.Fatalf("place %d is free and taken", k)
		}
		if free++; free > len(t.places) {
			tb.Fatal("the list of free places has no end")
		}
	}
	if listed != len(t.at) || listed+free != len(t.places) {
		tb.Fatalf("%d listed, %d free, %d known, %d places", listed, free, len(t.at), len(t.places))
	}
}
