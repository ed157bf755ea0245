package xds

import (
	"strings"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/wire"
)

// targets §14: a removed target's cluster stays until its attempts have ended,
// or drain.max has passed.
func TestRemovedTargets(t *testing.T) {
	run(t, resources("a", "busy", "idle"), func(t *testing.T, w *world) {
		p := w.connect("e")
		w.wantUp("a busy idle")
		w.board.list("busy", true)
		w.update(resources("a"))
		w.wantUp("a busy idle")
		w.pass(linger - time.Millisecond)
		p.wantHolds("a", "busy", "idle")
		w.pass(sweepInterval)
		w.wantUp("a busy")
		p.wantHolds("a", "busy")
		_, targets := w.Status()
		wantEqual(t, "status", targets, []TargetStatus{{ID: "a", Reachable: true}, {ID: "busy", Reachable: true, Removed: true}})

		w.board.list("busy", false)
		w.pass(sweepInterval)
		w.wantUp("a")
		p.wantHolds("a")
		history, _ := w.board.since(0)
		wantEqual(t, "the last word", history[len(history)-1], "busy false")
	})
	run(t, resources("a", "stuck"), func(t *testing.T, w *world) {
		p := w.connect("e")
		w.wantUp("a stuck")
		w.board.list("stuck", true)
		w.update(resources("a"))
		w.pass(testDrainMax - time.Second)
		// A reload in between does not start the time again.
		w.update(resources("a"))
		p.wantHolds("a", "stuck")
		w.pass(time.Second + sweepInterval)
		p.wantHolds("a")
		w.wantUp("a")
	})
}

// A target that comes back while its cluster is still there has never been away.
func TestRemovedTargetReturns(t *testing.T) {
	run(t, resources("a", "b"), func(t *testing.T, w *world) {
		p := w.connect("e")
		w.wantUp("a b")
		w.board.list("b", true)
		w.update(resources("a"))
		w.pass(time.Minute)
		w.update(resources("a", "b"))
		w.board.list("b", false)
		w.pass(2 * testDrainMax)
		w.wantUp("a b")
		wantEqual(t, "clusters", p.sent(cds), []string{"a b " + wire.ClusterNone})
		// It is told again: the tracker may have forgotten it.
		history, _ := w.board.since(0)
		wantEqual(t, "history", history[len(history)-2:], []string{"a true", "b true"})
	})
}

// First nobody is sent to a target any more, then its cluster goes.
func TestUnreachableBeforeWithdrawn(t *testing.T) {
	run(t, resources("a", "b"), func(t *testing.T, w *world) {
		p := w.connect("e")
		w.wantUp("a b")
		checked := false
		w.board.mu.Lock()
		w.board.onSet = func() {
			if !strings.Contains(w.board.up(), "b") {
				checked = true
				if p.holds(cds)["pm|b"] == "" {
					t.Error("the cluster went first")
				}
			}
			// Whoever is told may ask.
			w.Ready()
			w.Status()
		}
		w.board.mu.Unlock()
		w.update(resources("a"))
		w.pass(linger + sweepInterval)
		p.wantHolds("a")
		if !checked {
			t.Error("b is still reachable")
		}
	})
}
