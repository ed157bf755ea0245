package xds

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pointsman/pointsman/internal/wire"
)

// TestRandom lets Envoys of every temper meet a configuration that changes all the
// time. At every moment a target that is reachable is held by every Envoy that
// counts and is there; and when all has become quiet, everybody has what he should.
func TestRandom(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { testRandom(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

const (
	randomPeers   = 4
	randomTargets = 12
	randomSteps   = 150
)

func testRandom(t *testing.T, rng *rand.Rand) {
	run(t, resources("t0"), func(t *testing.T, w *world) {
		// What a peer refuses depends on the target and its form, so that a change may cure it.
		form := make([]int, randomTargets)
		peers := make([]*peer, randomPeers)
		connected := make([]bool, randomPeers)
		refused := map[string]bool{} // clusters, by two of the peers
		for i := range peers {
			peers[i] = w.connect(fmt.Sprint("e", i), func(p *peer) {
				p.delay = time.Duration(rng.IntN(3)) * 50 * time.Millisecond
				p.whole = i%2 == 0
				if i == 0 || i == randomPeers-1 {
					return
				}
				p.refuse = func(_, name string) string {
					if refused[name] {
						return "no good"
					}
					return ""
				}
			})
			connected[i] = true
		}
		w.board.mu.Lock()
		w.board.onSet = func() { checkHeld(w, peers) }
		w.board.mu.Unlock()

		var listed []string
		for range randomSteps {
			switch i := rng.IntN(randomPeers); rng.IntN(10) {
			case 0:
				if connected[i] {
					peers[i].vanish()
				} else {
					if rng.IntN(3) == 0 { // a new process
						peers[i].mu.Lock()
						peers[i].have = map[string]map[string]string{}
						peers[i].mu.Unlock()
					}
					peers[i].open()
				}
				connected[i] = !connected[i]
			case 1:
				for _, p := range peers {
					p.mu.Lock()
				}
				name := wire.ClusterName(fmt.Sprint("t", rng.IntN(randomTargets)))
				refused[name] = !refused[name]
				for _, p := range peers {
					p.mu.Unlock()
				}
			case 2:
				w.board.list(fmt.Sprint("t", rng.IntN(randomTargets)), rng.IntN(2) == 0)
			case 3:
				w.pass(time.Duration(rng.IntN(40)) * time.Second)
			default:
				listed = nil
				for n := range randomTargets {
					if rng.IntN(4) == 0 {
						form[n]++
					}
					if rng.IntN(3) > 0 {
						listed = append(listed, fmt.Sprintf("t%d=%s", n, strings.Repeat("x", form[n])))
					}
				}
				w.update(resources(listed...))
			}
			w.pass(time.Duration(rng.IntN(120)) * time.Millisecond)
		}
		for i, p := range peers {
			if !connected[i] {
				p.open()
			}
		}
		for n := range randomTargets {
			w.board.list(fmt.Sprint("t", n), false)
		}
		w.pass(2 * testDrainMax)
		synctest.Wait()
		checkQuiet(t, w, peers, listed)
	})
}

// checkHeld: whatever is reachable is held by every Envoy that counts and is connected.
func checkHeld(w *world, peers []*peer) {
	up := strings.Fields(w.board.up())
	w.mu.Lock()
	counting := map[string]bool{}
	for p := range w.mu.proxies {
		if p.counts && p.connected {
			counting[p.node] = true
		}
	}
	w.mu.Unlock()
	// What is about to be told is not on the board yet, so only what has been
	// told to be reachable and holds now can be checked: the last word.
	history, _ := w.board.since(0)
	id, ok, _ := strings.Cut(history[len(history)-1], " ")
	if ok != "true" || !slices.Contains(up, id) {
		return
	}
	for _, p := range peers {
		if counting[p.node] && p.holds(cds)[wire.ClusterName(id)] == "" {
			w.t.Errorf("%s is reachable, and %s does not have it", id, p.node)
		}
	}
}

func checkQuiet(t *testing.T, w *world, peers []*peer, listed []string) {
	t.Helper()
	w.wantProxies(randomPeers, randomPeers)
	w.wantReady(true)
	want := map[string]string{}
	w.mu.Lock()
	for name, r := range w.mu.store.resources[clusters] {
		want[name] = r.version
	}
	w.mu.Unlock()
	if len(want) != len(listed)+1 {
		t.Errorf("%d clusters for %d targets", len(want), len(listed))
	}
	up := strings.Fields(w.board.up())
	for name, version := range want {
		inAll := true
		for _, p := range peers {
			got, has := p.holds(cds)[name]
			inAll = inAll && has
			if got != version && (p.refuse == nil || w.rejected(p.node, name) == "") {
				t.Errorf("%s holds %s in version %q, want %q", p.node, name, got, version)
			}
		}
		if name == wire.ClusterNone {
			continue
		}
		if id := strings.TrimPrefix(name, wire.ClusterPrefix); slices.Contains(up, id) != inAll {
			t.Errorf("%s: reachable %v, held by all %v", id, !inAll, inAll)
		}
	}
	for _, p := range peers {
		for name := range p.holds(cds) {
			if want[name] == "" {
				t.Errorf("%s still holds %s", p.node, name)
			}
		}
	}
}

// rejected is the reason for which an Envoy refused a cluster in its present form.
func (w *world) rejected(node, name string) string {
	proxies, _ := w.Status()
	for _, p := range proxies {
		if p.Node == node {
			return p.Rejected[name]
		}
	}
	return ""
}
