package tracker

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func names(list ...string) map[string]bool {
	set := make(map[string]bool, len(list))
	for _, name := range list {
		set[name] = true
	}
	return set
}

func TestHold(t *testing.T) {
	tr := New(settings())
	a, b := tr.Endpoint("a"), tr.Endpoint("b")
	var h Hold
	check := func(step string, wantA, wantB int64, held bool) {
		t.Helper()
		if a.InFlight() != wantA || b.InFlight() != wantB || h.Held() != held {
			t.Errorf("%s: a %d, b %d, held %t; want %d, %d, %t", step, a.InFlight(), b.InFlight(), h.Held(), wantA, wantB, held)
		}
		if a.Load() != a.InFlight() {
			t.Errorf("%s: load %d differs from the count %d", step, a.Load(), a.InFlight())
		}
	}
	check("new", 0, 0, false)
	h.Move(nil)
	check("released before it was held", 0, 0, false)
	h.Move(a)
	check("on a", 1, 0, true)
	h.Move(a)
	check("on a again", 1, 0, true)
	h.Move(b)
	check("moved to b", 0, 1, true)
	h.Move(nil)
	check("released", 0, 0, false)
	h.Move(nil)
	check("released twice", 0, 0, false)
}

// Case 100: counts rise and fall, and are 0 at the end, whoever moves when.
func TestHoldConcurrently(t *testing.T) {
	tr := New(settings())
	endpoints := []*Endpoint{tr.Endpoint("a"), tr.Endpoint("b"), tr.Endpoint("c")}
	var wg sync.WaitGroup
	for seed := range uint64(8) {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, 1))
			for range 2000 {
				var h Hold
				for range rnd.IntN(4) {
					h.Move(endpoints[rnd.IntN(len(endpoints))])
				}
				h.Move(nil)
			}
		})
	}
	wg.Wait()
	for _, e := range endpoints {
		if n := e.InFlight(); n != 0 {
			t.Errorf("%s: %d in flight, want 0", e.Name(), n)
		}
	}
}

func TestIdentity(t *testing.T) {
	tr := New(settings())
	target, endpoint := tr.Target("a"), tr.Endpoint("a")
	if tr.Target("a") != target || tr.Endpoint("a") != endpoint {
		t.Error("one id, two states")
	}
	if tr.Target("b") == target || tr.Endpoint("b") == endpoint {
		t.Error("two ids, one state")
	}
	if id := tr.Target("x/y").ID(); id != "x/y" {
		t.Errorf("id %q", id)
	}
}

func TestReachable(t *testing.T) {
	tr := New(settings())
	a := tr.Target("a")
	changed := tr.Changed()
	closed := func() bool {
		select {
		case <-changed:
			return true
		default:
			return false
		}
	}
	tr.SetReachable("nobody", true)
	tr.SetReachable("a", false)
	if a.Reachable() || closed() {
		t.Fatal("reachable, or told so, without being")
	}
	tr.SetReachable("a", true)
	if !a.Reachable() || !closed() {
		t.Fatal("not reachable, or not told")
	}
	changed = tr.Changed()
	tr.SetReachable("a", true)
	tr.SetReachable("a", false)
	if a.Reachable() || closed() {
		t.Error("told although nobody became reachable")
	}
}

func TestSweep(t *testing.T) {
	const forget = 600 // seconds
	for _, test := range []struct {
		name string
		do   func(tr *Tracker)
		at   float64
		kept bool
	}{
		{"named all the time", func(tr *Tracker) { tr.Retain(names("a"), names("a"), at(0)) }, 10000, true},
		{"never told of", func(*Tracker) {}, 10000, true},
		{"gone for less", func(tr *Tracker) { tr.Retain(nil, nil, at(0)) }, forget - 1, true},
		{"gone for long enough", func(tr *Tracker) { tr.Retain(nil, nil, at(0)) }, forget, false},
		{"gone since the first reload without it", func(tr *Tracker) {
			tr.Retain(nil, nil, at(0))
			tr.Retain(nil, nil, at(500))
		}, forget, false},
		{"back in time", func(tr *Tracker) {
			tr.Retain(nil, nil, at(0))
			tr.Retain(names("a"), names("a"), at(500))
		}, 10000, true},
		{"back and gone again", func(tr *Tracker) {
			tr.Retain(nil, nil, at(0))
			tr.Retain(names("a"), names("a"), at(500))
			tr.Retain(nil, nil, at(550))
		}, 550 + forget - 1, true},
		{"asked for by a snapshot that is being built", func(tr *Tracker) {
			tr.Retain(nil, nil, at(0))
			tr.Target("a")
			tr.Endpoint("a")
		}, 10000, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			tr := New(settings())
			target, endpoint := tr.Target("a"), tr.Endpoint("a")
			test.do(tr)
			tr.Sweep(at(test.at))
			if kept := tr.Target("a") == target; kept != test.kept {
				t.Errorf("target kept: %t, want %t", kept, test.kept)
			}
			if kept := tr.Endpoint("a") == endpoint; kept != test.kept {
				t.Errorf("endpoint kept: %t, want %t", kept, test.kept)
			}
		})
	}
}

// Report 079: a target that flaps while attempts on it run finds their counts when
// it comes back, however long that takes.
func TestSweepSparesWhatIsInUse(t *testing.T) {
	tr := New(settings())
	target, endpoint := tr.Target("a"), tr.Endpoint("a")
	var first Hold
	first.Move(endpoint)
	target.List(1)
	tr.Retain(nil, nil, at(0))
	tr.Sweep(at(10000))
	if !tr.Listed("a") {
		t.Error("the open decision is forgotten")
	}
	if tr.Endpoint("a") != endpoint || tr.Target("a") != target {
		t.Fatal("forgotten although in use")
	}
	var second Hold
	second.Move(tr.Endpoint("a"))
	if n := endpoint.InFlight(); n != 2 {
		t.Errorf("%d in flight, want 2", n)
	}
	first.Move(nil)
	second.Move(nil)
	if n := endpoint.InFlight(); n != 0 {
		t.Errorf("%d in flight, want 0", n)
	}
	target.List(-1)
	if tr.Listed("a") || tr.Listed("nobody") {
		t.Error("listed by nobody")
	}
	tr.Retain(nil, nil, at(20000))
	tr.Sweep(at(30000))
	if tr.Endpoint("a") == endpoint || tr.Target("a") == target {
		t.Error("never forgotten")
	}
}

// Everything at once, for the race detector.
func TestConcurrentUse(t *testing.T) {
	tr := New(settings())
	ids := []string{"a", "b", "c"}
	var wg sync.WaitGroup
	for seed := range uint64(6) {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, 2))
			for i := range 2000 {
				now := at(float64(i))
				id := ids[rnd.IntN(len(ids))]
				target := tr.Target(id)
				switch rnd.IntN(8) {
				case 0:
					target.Park(now, time.Duration(rnd.IntN(100))*time.Second)
				case 1:
					target.Sample(now, rnd.Float64())
				case 2:
					tr.SetReachable(id, rnd.IntN(2) == 0)
				case 3:
					tr.Retain(names(ids[:rnd.IntN(4)]...), names(), now)
				case 4:
					tr.Sweep(now)
				case 5:
					tr.Configure(settings())
				case 6:
					target.List(1)
					target.Status500(rnd.IntN(2) == 0)
					target.List(-1)
				case 7:
					tr.Changed()
				}
				target.Parked(now)
				target.Latency(now)
				target.Reachable()
			}
		})
	}
	wg.Wait()
}

// Take lets in no more than fit, however many come at once, and Move is not bound by it.
func TestTake(t *testing.T) {
	e := New(Settings{}).Endpoint("e")
	holds := make([]Hold, 100)
	var wg sync.WaitGroup
	var in atomic.Int64
	for i := range holds {
		wg.Go(func() {
			if holds[i].Take(e, 7) {
				in.Add(1)
			}
		})
	}
	wg.Wait()
	if in.Load() != 7 || e.InFlight() != 7 {
		t.Errorf("%d got in, %d in flight", in.Load(), e.InFlight())
	}
	var h Hold
	other := New(Settings{}).Endpoint("other")
	if !h.Take(other, 0) || h.Take(e, 7) || other.InFlight() != 1 || !h.Held() {
		t.Error("a refused Take has changed something")
	}
	h.Move(e)
	if e.InFlight() != 8 || other.InFlight() != 0 {
		t.Error("Move")
	}
	h.Move(nil)
	for i := range holds {
		holds[i].Move(nil)
	}
	if !h.Take(e, 1) || e.InFlight() != 1 {
		t.Errorf("%d in flight", e.InFlight())
	}
}
