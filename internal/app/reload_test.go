package app

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/config"
	"github.com/pointsman/pointsman/internal/fakeenvoy"
)

// counts are the three series of the configuration: version, reloads, failures.
func (w *world) counts() [3]float64 {
	w.Helper()
	return [3]float64{w.metric("pointsman_config_version"), w.metric("pointsman_config_reloads_total"),
		w.metric("pointsman_config_reload_failures_total")}
}

// wantCounts waits for these. A signal that follows is handled after what led to them.
func (w *world) wantCounts(step string, version, reloads, failures float64) {
	w.Helper()
	want := [3]float64{version, reloads, failures}
	w.eventually(step, func() error {
		if got := w.counts(); got != want {
			return fmt.Errorf("version, reloads, failures are %v, want %v", got, want)
		}
		return nil
	})
}

// faults gives the faults in the log so far.
func (w *world) faults() []string {
	var all []string
	for _, l := range w.out.lines("configuration refused") {
		all = append(all, l["fault"].(string))
	}
	return all
}

// What counts as a change, by SIGHUP or because it was noticed: a content of the file that
// was not the last one. Cases 247 and 408.
func TestReload(t *testing.T) {
	w := newWorld(t)
	w.write(external + twoTargets)
	w.start()
	e := w.envoy()
	clusters := func() []string {
		t.Helper()
		x := w.ask(e, "m")
		if x.Answer != nil {
			t.Fatalf("%+v", x.Answer)
		}
		if err := x.End(); err != nil {
			t.Fatal(err)
		}
		return x.Clusters
	}
	w.wantCounts("at the start", 1, 0, 0)

	w.hangUp()
	w.write(external + twoTargets) // another file, the same content
	w.hangUp()
	w.write(external + oneTarget)
	w.hangUp()
	w.wantCounts("one change, three signals", 2, 1, 0)
	if got := clusters(); len(got) != 1 {
		t.Errorf("clusters %q", got)
	}

	// Two faults: both are told, and the configuration in force serves on.
	w.write("retry: {max_retries: -1}\nnonsense: 1\n" + external + twoTargets)
	w.hangUp()
	w.hangUp()
	w.wantCounts("case 408: refused", 2, 1, 1)
	want := []string{w.path + ":2: retry.max_retries: must be from 0 to 100, not -1", w.path + ":3: nonsense: unknown key"}
	if got := w.faults(); len(got) != 2 || !strings.HasPrefix(got[0], want[0]) || !strings.HasPrefix(got[1], want[1]) {
		t.Errorf("faults %q, want %q", got, want)
	}
	if got := clusters(); len(got) != 1 {
		t.Errorf("case 247: clusters %q", got)
	}
	if status, _ := w.get("/readyz"); status != 200 {
		t.Errorf("ready: %d", status)
	}

	// Gone: a change, however often it is asked for. Back as it was: none.
	if err := os.Rename(w.path, w.path+".away"); err != nil {
		t.Fatal(err)
	}
	w.hangUp()
	w.hangUp()
	w.wantCounts("gone", 2, 1, 2)
	if got := w.faults(); len(got) != 3 || !strings.Contains(got[2], "cannot be read") {
		t.Errorf("faults %q", got)
	}
	if err := os.Rename(w.path+".away", w.path); err != nil {
		t.Fatal(err)
	}
	w.hangUp()
	if err := os.Remove(w.path); err != nil {
		t.Fatal(err)
	}
	w.hangUp()
	w.wantCounts("back, and gone again", 2, 1, 3)

	// No signal: the file is watched.
	w.write(external + twoTargets)
	w.wantCounts("noticed", 3, 2, 3)
	if got := clusters(); len(got) != 2 {
		t.Errorf("clusters %q", got)
	}
	if l := w.out.lines("configuration in force"); len(l) != 2 || l[1]["providers"] != 2.0 || l[1]["routes"] != 1.0 {
		t.Errorf("log: %v", l)
	}
}

// Series of targets and routes that are gone are gone, and those of the others go on.
func TestReloadMetrics(t *testing.T) {
	w := newWorld(t)
	w.write(external + twoTargets)
	w.start()
	e := w.envoy()
	for range 2 {
		if err := w.ask(e, "m").End(); err != nil {
			t.Fatal(err)
		}
	}
	w.becomes(`pointsman_decisions_total{model="m",strategy="round_robin",target="b/m"}`, 1)
	w.write(external + oneTarget)
	w.hangUp()
	w.wantCounts("one target fewer", 2, 1, 0)
	_, body := w.get("/metrics")
	if strings.Contains(body, "b/m") || strings.Contains(body, `endpoint="b"`) {
		t.Error("the removed target has series")
	}
	w.becomes(`pointsman_decisions_total{model="m",strategy="round_robin",target="a/m"}`, 1)
}

// log.level and log.requests follow a reload.
func TestReloadLog(t *testing.T) {
	w := newWorld(t)
	w.write(external + oneTarget)
	w.start()
	e := w.envoy()
	ask := func() {
		t.Helper()
		if err := w.ask(e, "m").End(); err != nil {
			t.Fatal(err)
		}
	}
	ask()
	w.write("log: {requests: true}\n" + external + oneTarget)
	w.hangUp()
	w.wantCounts("switched on", 2, 1, 0)
	ask()
	w.write("log: {requests: true, level: warn}\n" + external + oneTarget)
	w.hangUp()
	w.wantCounts("warn", 3, 2, 0)
	ask()
	w.write("log: {level: info}\n" + external + oneTarget)
	w.hangUp()
	w.wantCounts("info again", 4, 3, 0)
	w.eventually("the log is written", func() error {
		if n := len(w.out.lines("configuration in force")); n < 2 {
			return fmt.Errorf("%d lines", n)
		}
		return nil
	})
	if l := w.out.lines("decision"); len(l) != 1 {
		t.Errorf("%d decisions in the log, want 1: %v", len(l), l)
	}
}

// What only a new process can follow is said at every reload until it is true again,
// measured by the start.
func TestNeedRestart(t *testing.T) {
	w := newWorld(t)
	w.write(external + twoTargets)
	w.start()
	fields := func() (all []string) {
		for _, l := range w.out.lines("a changed setting takes effect after a restart only") {
			all = append(all, l["field"].(string))
		}
		return all
	}
	other := func(socket, body string) {
		t.Helper()
		w.replace(fmt.Sprintf("listen: {grpc: \"unix://%s\", admin: \"127.0.0.1:1\", socket_mode: 0600}\n"+
			"log: {format: text}\nlimits: {body: 65MiB}\n%s", socket, body))
		w.hangUp()
	}
	const more = "envoy: {clusters: external, admin: \"off\", listener: \"127.0.0.1:1\"}\n"
	other(w.socket+"2", more+twoTargets)
	w.wantCounts("all", 2, 1, 0)
	w.eventually("the log is written", func() error {
		if len(w.out.lines("Envoy's listener is renewed: answers older than its drain time will be cut")) != 1 {
			return errors.New("not yet")
		}
		return nil
	})
	all := []string{"listen.grpc", "listen.socket_mode", "listen.admin", "envoy.admin", "log.format"}
	if diff := cmp.Diff(all, fields()); diff != "" {
		t.Error(diff)
	}
	other(w.socket+"2", more+oneTarget)
	w.wantCounts("still all", 3, 2, 0)
	w.write(external + oneTarget)
	w.hangUp()
	w.wantCounts("as at the start", 4, 3, 0)

	// The shape cannot change, and nothing of such a file is in force.
	w.write(twoTargets)
	w.hangUp()
	w.wantCounts("another shape", 4, 3, 1)
	if diff := cmp.Diff([]string{w.path + ": envoy.clusters: cannot be changed by a reload: restart pointsman"}, w.faults()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(append(all, all...), fields()); diff != "" {
		t.Error(diff)
	}
	if n := w.metric(`pointsman_load{target="b/m"}`); n != -1 {
		t.Errorf("half of it is in force: load %g", n)
	}
}

// A configuration that fails when it is built changes nothing, not even what the tracker
// knows.
func TestInstallFails(t *testing.T) {
	w := newWorld(t)
	w.write(external + oneTarget)
	a, err := New(w.options())
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	cfg, err := config.Parse(w.path, fmt.Appendf(nil, "log: {requests: true}\n%s%s", external, twoTargets))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Routes = append(cfg.Routes, cfg.Routes[0])
	cfg.Routes[1].Model, cfg.Routes[1].Strategy = "n", "no such" // config does not let that through
	before, snapshot, retry := a.cfg.Load(), a.router.Snapshot(), a.retry.Load()
	err = a.install(t.Context(), cfg)
	if err == nil || !strings.HasPrefix(err.Error(), w.path+`: route "n": `) {
		t.Fatalf("error %v", err)
	}
	if a.cfg.Load() != before || a.router.Snapshot() != snapshot || a.retry.Load() != retry {
		t.Error("something has changed")
	}
	// Only what the tracker knows can be made reachable.
	a.tracker.Sweep(time.Now().Add(24 * time.Hour))
	a.tracker.SetReachable("b/m", true)
	if a.tracker.Target("b/m").Reachable() {
		t.Error("the tracker remembers a target of the refused configuration")
	}
	if !a.tracker.Target("a/m").Reachable() {
		t.Error("the target in force is not reachable")
	}
}

// Reloads under requests: none is lost, and every count is released.
func TestReloadUnderRequests(t *testing.T) {
	w := newWorld(t)
	w.write(external + twoTargets)
	w.start()
	const requests = 200
	failed := make(chan error, 1)
	go func() {
		defer close(failed)
		e := fakeenvoy.Dial(t, "unix:"+w.socket)
		for i := range requests {
			x, err := e.Ask(t.Context(), fakeenvoy.Request{Body: []byte(`{"model":"m","messages":[]}`)})
			switch {
			case err != nil:
				failed <- err
				return
			case x.Answer != nil:
				failed <- fmt.Errorf("request %d: %+v", i, x.Answer)
				return
			}
			if err := x.End(); err != nil {
				failed <- err
				return
			}
		}
	}()
	version := 1.0
	for done := false; !done; {
		version++
		w.write(external + []string{twoTargets, oneTarget}[int(version+1)%2])
		w.hangUp()
		w.wantCounts("reload", version, version-1, 0)
		select {
		case err := <-failed:
			if err != nil {
				t.Fatal(err)
			}
			done = true
		default:
		}
	}
	w.becomes(`pointsman_in_flight{endpoint="a"}`, 0)
}
