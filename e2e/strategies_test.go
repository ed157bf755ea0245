package e2e

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/pointsman/pointsman/internal/enginesim"
)

// Cases 321, 323-325 and 225: what each strategy does, seen from the engines.
func TestStrategies(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3, enginesim.Options{})
	m := newMesh(t, f.providers()+"routes:\n"+f.route("turn", "round_robin", "m")+f.route("warm", "cache_aware", "m")+f.route("cold", "cache_aware", "m"))
	m.reachable(3)
	reset := func() {
		for _, e := range f {
			e.Reset()
		}
	}

	// case 321, case 225
	for i := range 30 {
		if a := m.post(chatPath, chat("turn", fmt.Sprint("question ", i), false, 1)); a.status != 200 {
			t.Fatalf("status %d", a.status)
		}
	}
	turn := f.counts()
	if slices.Max(turn)-slices.Min(turn) > 3 {
		t.Errorf("case 321: round_robin spread %v", turn)
	}

	// case 323 and case 324
	reset()
	for range 20 {
		m.post(chatPath, chat("warm", "one prompt that comes again and again", false, 1))
	}
	warm := f.counts()
	if slices.Max(warm) < 16 {
		t.Errorf("case 323: cache_aware spread %v", warm)
	}
	if slices.Equal(turn, warm) {
		t.Errorf("case 324: both strategies gave %v", warm)
	}

	// case 417
	reset()
	for i := range 30 {
		m.post(chatPath, chat("cold", fmt.Sprintf("%d is how this cold prompt begins", i), false, 1))
	}
	if cold := f.counts(); !slices.Equal(cold, []int64{10, 10, 10}) {
		t.Errorf("case 417: cold prompts spread %v", cold)
	}

	// case 325: the third engine is dead, and nothing is lost.
	reset()
	f[2].Kill()
	for i := range 30 {
		if a := m.post(chatPath, chat("turn", fmt.Sprint("again ", i), false, 1)); a.status != 200 {
			t.Errorf("case 325: request %d: %d %s", i, a.status, a.body)
		}
	}
	if n := f[2].Stats().Requests; n != 0 {
		t.Errorf("case 325: the dead engine served %d", n)
	}
	m.settled()
}

// Case 326: an engine is killed in the middle of 200 streams. Streams on the other
// engines are unharmed, and new requests are all served.
func TestEngineKilledInStream(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3, enginesim.Options{Decode: 20})
	m := newMesh(t, f.providers()+"routes:\n"+f.route("turn", "round_robin", "m"))
	m.reachable(3)

	const streams = 200
	type result struct {
		by    string
		whole bool
	}
	started := make(chan struct{}, streams)
	results := make(chan result, streams)
	for i := range streams {
		go func() {
			s, err := m.open(chat("turn", fmt.Sprint("stream ", i), true, 40))
			if err != nil {
				t.Errorf("stream %d: %v", i, err)
				started <- struct{}{}
				results <- result{}
				return
			}
			started <- struct{}{}
			_, whole := s.rest()
			results <- result{s.resp.Header.Get("x-served-by"), whole}
		}()
	}
	for range streams {
		<-started
	}
	f[1].Kill()
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() {
			if a, err := m.try(chatPath, chat("turn", fmt.Sprint("new ", i), false, 1)); err != nil || a.status != 200 {
				t.Errorf("new request %d: %v %d %s", i, err, a.status, a.body)
			}
		})
	}
	wg.Wait()
	cut := 0
	for range streams {
		r := <-results
		switch {
		case r.by == "b" && !r.whole:
			cut++
		case r.by != "b" && !r.whole:
			t.Errorf("a stream on %s was cut", r.by)
		}
	}
	if cut == 0 {
		t.Error("no stream was running on the killed engine: the test shows nothing")
	}
	m.settled()
	if n := m.metric("pointsman_outcomes_total", `target="b/m"`, `outcome="cut"`); int(n) != cut {
		t.Errorf("%v outcomes cut, %d streams", n, cut)
	}
}
