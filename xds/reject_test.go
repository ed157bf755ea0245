package xds

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"

	"github.com/pointsman/pointsman/envoy"
)

// Case 394, for both ways in which Envoy refuses: by name, and whole without one.
func TestRejectedCluster(t *testing.T) {
	for _, whole := range []bool{false, true} {
		for _, at := range []int{0, 17, 49} {
			t.Run(fmt.Sprintf("whole %v, at %d", whole, at), func(t *testing.T) {
				testRejectedCluster(t, whole, at)
			})
		}
	}
}

func testRejectedCluster(t *testing.T, whole bool, at int) {
	var ids, good []string
	for i := range 50 {
		ids = append(ids, fmt.Sprintf("t%02d", i))
	}
	bad := ids[at]
	good = slices.Concat(ids[:at], ids[at+1:])
	run(t, resources(ids...), func(t *testing.T, w *world) {
		fussy := func(p *peer) {
			refusing("no good", "pm|"+bad)(p)
			p.whole = whole
		}
		p := w.connect("e", fussy)
		w.wantUp(strings.Join(good, " "))
		w.wantReady(true)
		w.wantProxies(1, 1)
		wantReason := "no good"
		if whole {
			wantReason = "Invalid duration"
		}
		wantEqual(t, "reason", w.reason(bad), wantReason)
		wantEqual(t, "reason of another", w.reason(good[0]), "")
		wantEqual(t, "counted", w.Rejections(), map[string]uint64{"secret": 0, "cluster": 1, "route": 0, "listener": 0})
		if n := len(p.sent(cds)); n > 9 { // all, the halvings, the rest
			t.Errorf("%d responses: %v", n, p.sent(cds))
		}

		// An update without a change of that target does not try it again.
		before := len(p.sent(cds))
		w.update(resources(append(ids, "new")...))
		w.wantUp(strings.Join(sorted(good, "new"), " "))
		wantEqual(t, "sent", p.sent(cds)[before:], []string{"new"})

		// It is logged once, also when another Envoy says the same, and when this
		// one says it again.
		w.connect("e2", fussy)
		w.wantUp(strings.Join(sorted(good, "new"), " "))
		p.vanish()
		p.open()
		synctest.Wait()
		wantEqual(t, "lines", w.log.with("resource rejected", "pm|"+bad, "target="+bad), 1)

		// A change of it is tried, and refused again.
		w.update(resources(append(slices.Clone(good), "new", bad+"=x")...))
		w.wantUp(strings.Join(sorted(good, "new"), " "))
		wantEqual(t, "lines", w.log.with("resource rejected", "pm|"+bad), 2)

		// And in the end it is good.
		for _, q := range w.peers {
			q.mu.Lock()
			q.refuse = nil
			q.mu.Unlock()
		}
		w.update(resources(append(slices.Clone(good), "new", bad+"=xx")...))
		w.wantUp(strings.Join(sorted(ids, "new"), " "))
		wantEqual(t, "reason", w.reason(bad), "")
	})
}

func sorted(ids []string, more ...string) []string {
	out := slices.Concat(ids, more)
	slices.Sort(out)
	return out
}

// A change that is refused leaves the old one in use, and the target reachable.
func TestRejectedChange(t *testing.T) {
	run(t, resources("a", "b"), func(t *testing.T, w *world) {
		p := w.connect("e")
		w.wantUp("a b")
		_, mark := w.board.since(0)
		old := p.holds(cds)["pm|b"]
		p.mu.Lock()
		refusing("no good", "pm|b")(p)
		p.mu.Unlock()
		w.update(resources("a=x", "b=x", "c"))
		w.wantUp("a b c")
		history, _ := w.board.since(mark)
		wantEqual(t, "never unreachable", slices.ContainsFunc(history, func(h string) bool { return strings.HasSuffix(h, "false") && h != "c false" }), false)
		wantEqual(t, "held", p.holds(cds)["pm|b"], old)
		wantEqual(t, "reason", w.reason("b"), "no good")

		// Back to what it was: there is nothing to do and nothing to complain of.
		before := len(p.sent(cds))
		w.update(resources("a=x", "b", "c"))
		w.wantUp("a b c")
		wantEqual(t, "sent", len(p.sent(cds)), before)
		wantEqual(t, "reason", w.reason("b"), "")
	})
}

// One Envoy that refuses makes the target unreachable for all.
func TestRejectedByOne(t *testing.T) {
	run(t, resources("a"), func(t *testing.T, w *world) {
		w.connect("e1")
		two := w.connect("e2", refusing("too old", "pm|b"))
		w.update(resources("a", "b"))
		w.wantUp("a")
		two.vanish()
		w.wantUp("a")
		w.pass(grace)
		w.wantUp("a b")
	})
}

// What is not valid never reaches an Envoy, which would drop the rest with it.
func TestInvalidResources(t *testing.T) {
	spoil := func(res *envoy.Resources, ids ...string) *envoy.Resources {
		for _, id := range ids {
			res.Clusters["pm|"+id].ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: 99}
		}
		return res
	}
	run(t, spoil(resources("a", "b"), "b"), func(t *testing.T, w *world) {
		p := w.connect("e")
		w.wantUp("a")
		p.wantHolds("a")
		if !strings.Contains(w.reason("b"), "Type") {
			t.Errorf("reason %q", w.reason("b"))
		}
		w.update(spoil(resources("a", "b"), "b"))
		wantEqual(t, "counted", w.Rejections()["cluster"], 1)
		wantEqual(t, "lines", w.log.with("resource rejected", "pm|b", "by=pointsman"), 1)

		w.update(resources("a", "b"))
		w.wantUp("a b")
		wantEqual(t, "reason", w.reason("b"), "")

		// An invalid change leaves the old one in use.
		w.update(spoil(resources("a", "b=x"), "a", "b"))
		w.wantUp("a b")
		p.wantHolds("a", "b")
		wantEqual(t, "counted", w.Rejections()["cluster"], 3)

		// A bad listener or route refuses everything.
		bad := resources("c")
		bad.Listener.StatPrefix = strings.Repeat("x", 10)
		bad.Route.VirtualHosts = append(bad.Route.VirtualHosts, nil)
		bad.Route.MaxDirectResponseBodySizeBytes = nil
		bad.Route.InternalOnlyHeaders = []string{"bad\nname"}
		if err := w.Update(bad); err == nil || !strings.HasPrefix(err.Error(), "route pointsman: ") {
			t.Errorf("got %v", err)
		}
		if err := w.Update(nil); err == nil {
			t.Error("no resources are no error")
		}
		w.wantUp("a b")
		p.wantHolds("a", "b")
	})
}
