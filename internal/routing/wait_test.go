package routing

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pointsman/pointsman/internal/wire"
)

// waited is what became of a request that may have waited.
type waited struct {
	d    *Decision
	err  error
	took time.Duration
}

// start decides in the background, as a request's goroutine does.
func (w *world) start(ctx context.Context) <-chan waited {
	done := make(chan waited, 1)
	go func() {
		begin := time.Now()
		d, err := w.router.Decide(ctx, w.router.Snapshot(), ask("m", "prompt"), "")
		done <- waited{d, err, time.Since(begin)}
	}()
	return done
}

// Operation §1: a request whose targets are not reachable yet waits for them during the
// first 5 s, at most 1 s, and no longer than needed.
func TestWaitAtStart(t *testing.T) {
	for _, test := range []struct {
		name    string
		age     time.Duration // of the process when the request comes
		reach   time.Duration // after the request came; 0 = never
		decided bool
		took    time.Duration
	}{
		{"a target becomes reachable", 0, 300 * time.Millisecond, true, 300 * time.Millisecond},
		{"nobody does", 0, 0, false, time.Second},
		{"too late", 0, 1500 * time.Millisecond, false, time.Second},
		{"late in the first seconds", 4900 * time.Millisecond, 500 * time.Millisecond, true, 500 * time.Millisecond},
		{"after the first seconds", 5 * time.Second, 300 * time.Millisecond, false, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.router = NewRouter(w.tracker, time.Now())
				w.install(route("m", "cache_aware", 2, "a", "b"), route("n", "round_robin", 2, "c"))
				time.Sleep(test.age)
				done := w.start(t.Context())
				if test.reach > 0 {
					time.Sleep(test.reach / 2)
					w.reach("c") // of another pool: changes nothing
					time.Sleep(test.reach / 2)
					w.reach("b")
				}
				got := <-done
				if got.took != test.took {
					t.Errorf("took %v, want %v", got.took, test.took)
				}
				if !test.decided {
					if r := refusal(t, got.err); r.Cause != wire.ErrNoTarget {
						t.Errorf("refused with %+v", r)
					}
					return
				}
				if got.err != nil {
					t.Fatal(got.err)
				}
				if got.d.Len() != 1 || got.d.Entry(0).ID != "b" || w.inFlight("b") != 1 {
					t.Errorf("list %v, %d in flight", ids(got.d), w.inFlight("b"))
				}
				if got.d.Took >= test.took {
					t.Errorf("the choice took %v: waiting is not choosing", got.d.Took)
				}
				w.router.Free(got.d)
			})
		})
	}
}

// A target that can be reached is not waited for, whatever else is wrong with it.
func TestNoWaitForParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.router = NewRouter(w.tracker, time.Now())
		w.install(route("m", "round_robin", 2, "a", "b"))
		w.reach("a")
		w.park("a")
		if got := <-w.start(t.Context()); got.err != nil || got.took != 0 || !got.d.FailOpen {
			t.Errorf("took %v, error %v", got.took, got.err)
		}
		if _, err := w.router.Decide(t.Context(), w.router.Snapshot(), ask("nobody", ""), ""); refusal(t, err).Cause != wire.ErrModelNotFound {
			t.Error(err)
		}
	})
}

// A client that leaves is not waited for.
func TestWaitEndsWithTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.router = NewRouter(w.tracker, time.Now())
		w.install(route("m", "round_robin", 2, "a"))
		ctx, cancel := context.WithCancel(t.Context())
		done := w.start(ctx)
		time.Sleep(200 * time.Millisecond)
		cancel()
		if got := <-done; !errors.Is(got.err, context.Canceled) || got.took != 200*time.Millisecond {
			t.Errorf("error %v after %v", got.err, got.took)
		}
	})
}

// Many that wait, and a reload meanwhile: all are decided by what is in force.
func TestManyWaitThroughAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.router = NewRouter(w.tracker, time.Now())
		w.install(route("m", "round_robin", 2, "a", "b"))
		var all []<-chan waited
		for range 100 {
			all = append(all, w.start(t.Context()))
		}
		synctest.Wait()
		w.install(route("m", "round_robin", 2, "a", "c"))
		time.Sleep(100 * time.Millisecond)
		w.reach("a", "c")
		for _, done := range all {
			got := <-done
			if got.err != nil || got.took != 100*time.Millisecond {
				t.Fatalf("error %v after %v", got.err, got.took)
			}
			if n := got.d.Len(); n != 2 {
				t.Fatalf("list %v", ids(got.d))
			}
		}
		if a, b, c := w.inFlight("a"), w.inFlight("b"), w.inFlight("c"); a != 50 || b != 0 || c != 50 {
			t.Errorf("%d, %d, %d in flight, want 50, 0, 50", a, b, c)
		}
	})
}
