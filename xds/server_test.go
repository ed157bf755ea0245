package xds

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pointsman/pointsman/envoy"
	"github.com/pointsman/pointsman/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run runs a test in a bubble of its own, with a server that has the resources,
// and ends both.
func run(t *testing.T, res *envoy.Resources, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, res)
		test(t, w)
		w.end()
	})
}

func wantEqual[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// A newcomer gets clusters first, and its listener only when they work; nothing
// is reachable before it has answered.
func TestNewcomer(t *testing.T) {
	run(t, resources("a", "b"), func(t *testing.T, w *world) {
		w.wantUp("")
		w.wantReady(false)
		p := w.connect("e", holding(cds, lds))
		w.wantUp("")
		w.wantProxies(1, 0)
		wantEqual(t, "order", p.order(), "cluster")
		wantEqual(t, "clusters", p.sent(cds), []string{"a b " + wire.ClusterNone})

		p.release(cds)
		w.wantUp("a b")
		w.wantProxies(1, 1)
		w.wantReady(false)
		wantEqual(t, "order", p.order(), "cluster listener")

		p.release(lds)
		w.wantReady(true)
		wantEqual(t, "order", p.order(), "cluster listener route")
		wantEqual(t, "route", p.sent(rds), []string{wire.RouteName})
		wantEqual(t, "history", w.board.history, []string{"a false", "b false", "a true", "b true"})
		wantEqual(t, "lines", w.log.with("proxy connected", "node=e", "version=1.2.3"), 1)
	})
}

// A newcomer that refuses its first clusters asks for its listener at once. It
// must not get it before the others were sent again.
func TestListenerWaitsForClusters(t *testing.T) {
	run(t, resources("a", "bad"), func(t *testing.T, w *world) {
		p := w.connect("e", refusing("no good", "pm|bad"))
		w.wantReady(true)
		wantEqual(t, "order", p.order(), "cluster cluster listener route")
		w.wantUp("a")
	})
}

// Case 393, first half: a second Envoy that is still loading changes nothing.
func TestSecondEnvoy(t *testing.T) {
	run(t, resources("a"), func(t *testing.T, w *world) {
		one := w.connect("e1")
		w.wantUp("a")
		two := w.connect("e2", holding(cds))
		w.wantUp("a")
		w.wantProxies(2, 1)
		two.release(cds)
		w.wantProxies(2, 2)
		w.wantUp("a")

		// From now on both must have accepted a new one.
		two.held[cds] = true
		w.update(resources("a", "b"))
		w.wantUp("a")
		one.wantHolds("a", "b")
		two.release(cds)
		w.wantUp("a b")
	})
}

// Case 393, second half, and readiness (operation §2, §3): a lost Envoy counts
// for 30 s.
func TestLostEnvoyCounts(t *testing.T) {
	run(t, resources("a"), func(t *testing.T, w *world) {
		one, two := w.connect("e1"), w.connect("e2")
		w.wantProxies(2, 2)
		two.vanish()
		w.wantProxies(1, 2)
		w.update(resources("a", "b"))
		one.wantHolds("a", "b")
		w.wantUp("a")
		w.pass(29 * time.Second)
		w.wantUp("a")
		w.pass(time.Second)
		w.wantUp("a b")
		w.wantProxies(1, 1)

		w.wantReady(true)
		one.vanish()
		w.pass(29 * time.Second)
		w.wantUp("a b")
		w.wantReady(true)
		w.pass(time.Second)
		w.wantUp("")
		w.wantReady(false)
		w.wantProxies(0, 0)
	})
}

// An Envoy that comes back with what it holds is told only what is new, and no
// target that it can reach is unreachable for a moment. Report 130.
func TestReconnect(t *testing.T) {
	run(t, resources("a", "b", "c"), func(t *testing.T, w *world) {
		p := w.connect("e")
		w.wantUp("a b c")
		p.vanish()
		w.pass(10 * time.Second)
		w.update(resources("a", "b=changed", "new"))
		w.wantUp("a b c")
		_, mark := w.board.since(0)

		p.held[cds] = true
		p.open()
		w.wantProxies(1, 1)
		w.wantReady(true)
		w.wantUp("a b c")
		p.release(cds)
		w.wantUp("a b c new")
		p.wantHolds("a", "b", "c", "new")
		wantEqual(t, "clusters", p.sent(cds), []string{"b new"})
		wantEqual(t, "listener", p.sent(lds), []string(nil))
		wantEqual(t, "route", p.sent(rds), []string(nil))
		history, _ := w.board.since(mark)
		wantEqual(t, "history", history, []string{"new true"})
		w.pass(time.Minute)
		w.wantProxies(1, 1)
	})
}

// A new stream of the node id of a lost Envoy that holds nothing is a new process:
// it does not count before it has accepted everything, and the old one not any more.
func TestRestartedEnvoy(t *testing.T) {
	run(t, resources("a"), func(t *testing.T, w *world) {
		old := w.connect("e")
		w.wantUp("a")
		old.vanish()
		w.wantUp("a")
		p := w.connect("e", holding(cds))
		w.wantUp("")
		w.wantReady(false)
		w.wantProxies(1, 0)
		p.release(cds)
		w.wantUp("a")
		w.wantReady(true)
	})
}

// Cases 409 and report 134: a restarted pointsman. What Envoy holds and we would send has
// been accepted at once, nothing is taken away, and nothing is sent.
func TestRestartedServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := newWorld(t, resources("a", "b", "gone"))
		p := old.connect("e")
		old.wantUp("a b gone")
		old.end()
		if got := status.Code(p.err); got != codes.Unavailable {
			t.Errorf("the stream ended with %v", p.err)
		}

		w := newWorld(t, resources("a", "b", "gone"))
		p.w = w
		p.open()
		w.wantUp("a b gone")
		w.wantReady(true)
		wantEqual(t, "clusters", p.sent(cds), []string(nil))
		wantEqual(t, "listener", p.sent(lds), []string(nil))
		wantEqual(t, "route", p.sent(rds), []string(nil))
		w.end()

		// With another configuration it must have answered first.
		w = newWorld(t, resources("a", "b=changed"))
		p.w = w
		p.held[cds] = true
		p.open()
		w.wantUp("")
		p.release(cds)
		w.wantUp("a b")
		wantEqual(t, "clusters", p.sent(cds), []string{"b -gone"})
		p.wantHolds("a", "b")
		w.end()
	})
}

// Report 133: two Envoys with one node id are two, an empty id is an id, and only
// the first message names it.
func TestNodeIDs(t *testing.T) {
	for _, node := range []string{"e", ""} {
		run(t, resources("a"), func(t *testing.T, w *world) {
			one, two := w.connect(node), w.connect(node)
			w.wantProxies(2, 2)
			w.wantUp("a")
			one.held[cds] = true
			w.update(resources("a", "b"))
			two.wantHolds("a", "b")
			w.wantUp("a")
			one.release(cds)
			w.wantUp("a b")

			// A new stream takes the place of one lost Envoy, not of the other.
			one.vanish()
			two.vanish()
			one.open()
			w.wantProxies(1, 2)
			two.open()
			w.wantProxies(2, 2)
			w.wantUp("a b")
		})
	}
}

// Report 129: changes in quick succession, to an Envoy that takes its time.
func TestQuickUpdates(t *testing.T) {
	run(t, resources("x"), func(t *testing.T, w *world) {
		p := w.connect("e", func(p *peer) { p.delay = 200 * time.Millisecond })
		q := w.connect("e2")
		for i := range 200 {
			form := strings.Repeat("f", i)
			w.update(resources("x=" + form))
			w.pass(20 * time.Millisecond)
			w.update(resources("x="+form, "y="+form))
			w.pass(time.Duration(i%7) * 100 * time.Millisecond)
		}
		w.pass(5 * time.Second)
		p.wantHolds("x", "y")
		q.wantHolds("x", "y")
		w.wantUp("x y")
	})
}

// envoy.clusters: external: nobody is asked.
func TestExternal(t *testing.T) {
	res := resources()
	res.External = []string{"a", "b"}
	run(t, res, func(t *testing.T, w *world) {
		w.wantUp("a b")
		w.wantReady(false)
		w.connect("e")
		w.wantReady(true)
		w.wantUp("a b")

		next := resources("b")
		next.External = []string{"c"}
		w.update(next)
		w.wantUp("b c")
		_, targets := w.Status()
		wantEqual(t, "status", targets, []TargetStatus{{ID: "b", Reachable: true}, {ID: "c", Reachable: true}})
	})
}

// A change of route and listener goes out too, clusters first.
func TestOrder(t *testing.T) {
	run(t, resources("a"), func(t *testing.T, w *world) {
		p := w.connect("e")
		w.wantReady(true)
		res := resources("a", "b")
		res.Listener.StatPrefix = "changed"
		res.Route.IgnorePortInHostMatching = true
		w.update(res)
		synctest.Wait()
		wantEqual(t, "order", p.order(), "cluster listener route cluster route listener")

		// A refused listener leaves the old one in use.
		p.mu.Lock()
		p.refuse = func(typeURL, _ string) string {
			if typeURL == lds {
				return "no good"
			}
			return ""
		}
		p.mu.Unlock()
		res = resources("a", "b")
		res.Listener.StatPrefix = "changed again"
		w.update(res)
		w.wantReady(true)
		wantEqual(t, "counted", w.Rejections()["listener"], 1)
		wantEqual(t, "lines", w.log.with("resource rejected", "type=listener"), 1)
	})
}

// Ending Run ends every stream, and no new one begins.
func TestEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, resources("a"))
		w.connect("e1")
		w.connect("e2", holding(cds))
		w.wantUp("a")
		w.end()
		w.wantProxies(0, 1)
		p := w.connect("e3")
		<-p.ended
		if status.Code(p.err) != codes.Unavailable {
			t.Errorf("got %v", p.err)
		}
	})
}

// The log does not follow an Envoy that comes and goes without end.
func TestFlapping(t *testing.T) {
	run(t, resources("a"), func(t *testing.T, w *world) {
		p := w.connect("e")
		for range 100 {
			p.vanish()
			w.pass(100 * time.Millisecond)
			p.open()
			synctest.Wait()
		}
		if n := w.log.with("node=e"); n > eventsPerWindow {
			t.Errorf("%d lines", n)
		}
		w.pass(2 * eventWindow)
		p.vanish()
		wantEqual(t, "lines", w.log.with("proxy disconnected", "lines_left_out="), 1)
	})
}

// There is a bound to the Envoys that are remembered; a lost one makes room.
func TestTooManyProxies(t *testing.T) {
	run(t, resources("a"), func(t *testing.T, w *world) {
		for i := range maxProxies {
			w.connect(fmt.Sprint("e", i))
		}
		w.wantProxies(maxProxies, maxProxies)
		p := w.connect("one too many")
		<-p.ended
		if status.Code(p.err) != codes.ResourceExhausted {
			t.Errorf("got %v", p.err)
		}
		w.peers[0].vanish()
		w.connect("one more")
		w.wantProxies(maxProxies, maxProxies)
	})
}

func TestStatus(t *testing.T) {
	run(t, resources("a", "b"), func(t *testing.T, w *world) {
		w.connect("e2", refusing("no good", "pm|b"))
		w.connect("e1", holding(cds))
		gone := w.connect("e0")
		synctest.Wait()
		gone.vanish()
		proxies, targets := w.Status()
		wantEqual(t, "proxies", proxies, []ProxyStatus{
			{Node: "e0", Version: "1.2.3", Counts: true, Listener: true, Rejected: map[string]string{}},
			{Node: "e1", Version: "1.2.3", Connected: true, Rejected: map[string]string{}},
			{Node: "e2", Version: "1.2.3", Connected: true, Counts: true, Listener: true, Rejected: map[string]string{"pm|b": "no good"}},
		})
		wantEqual(t, "targets", targets, []TargetStatus{{ID: "a", Reachable: true}, {ID: "b", Reason: "no good"}})
	})
}

var _ discoveryv3.AggregatedDiscoveryServiceServer = (*Server)(nil)
