package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Reloads that give a provider a key, a path and a model of its own, and take them away
// again, under load that fails over: no request fails, and the other engine sees nothing of it,
// not even in the middle of a change.
func TestReloadShowsNothingToOthers(t *testing.T) {
	t.Parallel()
	r := newRecords()
	a, b := newUpstream(t, r, "a", nil), newUpstream(t, r, "b", nil)
	file := filepath.Join(t.TempDir(), "a")
	keyFile(t, file, "sk-reload-a")
	config := func(path, settings, model string) string {
		return fmt.Sprintf("cooldown: {base_secs: 0}\nretry: {base_backoff_ms: 1, max_backoff_ms: 1}\nproviders:\n"+
			"  - {name: a, url: \"http://%s%s\"%s}\n  - {name: b, url: \"http://%s\"}\n"+
			"routes:\n  - {model: m, targets: [{provider: a, model: %s}, {provider: b, model: m}]}\n",
			a.addr(), path, settings, b.addr(), model)
	}
	key := fmt.Sprintf(", credentials: {file: %q}", file)
	m := newMesh(t, config("", "", "m"))
	m.reachable(2)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var renamed atomic.Bool
	end := sync.OnceFunc(func() { close(stop); wg.Wait() })
	defer end()
	for worker := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				name := fmt.Sprintf("w%d-%d", worker, i)
				got, err := m.try(chatPath, chat("m", "x", false, 1), headerCase, name, headerPlan, "503,200")
				seen := r.take(name)
				// With another model a is another target, and b alone until Envoy has it.
				alone := renamed.Load() && got.status == 503 && len(seen) == 1
				if err != nil || got.status != 200 && !alone {
					t.Errorf("status %d %s, %v after %v", got.status, got.body, err, seen)
					return
				}
				for _, s := range seen {
					if s.engine == "b" && (s.authorization != "" || s.path != chatPath || !strings.Contains(s.body, `"model":"m"`) || s.length != int64(len(s.body))) {
						t.Errorf("b saw %+v", s)
					}
				}
			}
		})
	}
	served := func() int64 {
		r.mu.Lock()
		defer r.mu.Unlock()
		return b.requests
	}
	for _, c := range [][3]string{
		{"", key, "m"}, {"", "", "m"}, {"/pa", key, "m"}, {"", "", "m"}, {"", key, "mine"}, {"/pa", "", "m"}, {"", "", "mine"}, {"", "", "m"},
	} {
		if c[2] != "m" {
			renamed.Store(true)
		}
		before := m.metric("pointsman_config_version")
		m.writeConfig(config(c[0], c[1], c[2]))
		eventually(t, "the configuration is in force", func() error {
			if m.metric("pointsman_config_version") == before {
				return fmt.Errorf("not yet")
			}
			return nil
		})
		n := served()
		eventually(t, "requests went on", func() error {
			if served() < n+50 {
				return fmt.Errorf("%d requests", served()-n)
			}
			return nil
		})
	}
	end()
	for _, marker := range []string{"sk-reload", "/pa/", "mine"} {
		if strings.Contains(b.raw.String(), marker) {
			t.Errorf("b saw %q", marker)
		}
	}
	if raw := a.raw.String(); !strings.Contains(raw, "sk-reload") || !strings.Contains(raw, "/pa/v1") || !strings.Contains(raw, `"mine"`) {
		t.Error("a did not see its own")
	}
	m.settled()
	m.noKeys("sk-reload")
}

// A provider that moves to another address with another key, again and again under load:
// neither address ever sees the key of the other.
func TestProviderMovesWithItsKey(t *testing.T) {
	t.Parallel()
	r := newRecords()
	homes := []*upstream{newUpstream(t, r, "one", nil), newUpstream(t, r, "two", nil)}
	var files []string
	for i := range homes {
		file := filepath.Join(t.TempDir(), "key")
		keyFile(t, file, fmt.Sprintf("sk-of-home-%d", i))
		files = append(files, file)
	}
	config := func(i int) string {
		return fmt.Sprintf("providers:\n  - {name: mover, url: \"http://%s\", credentials: {file: %q}}\n"+
			"routes:\n  - {model: m, targets: [{provider: mover, model: m}]}\n", homes[i].addr(), files[i])
	}
	m := newMesh(t, config(0))
	m.reachable(1)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var served atomic.Int64
	end := sync.OnceFunc(func() { close(stop); wg.Wait() })
	defer end()
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if a, err := m.try(chatPath, chat("m", "x", false, 1)); err != nil || a.status != 200 {
					t.Errorf("%v %d %s", err, a.status, a.body)
					return
				}
				served.Add(1)
			}
		})
	}
	for move := range 16 {
		before := m.metric("pointsman_config_version")
		m.writeConfig(config((move + 1) % 2))
		eventually(t, "the configuration is in force", func() error {
			if m.metric("pointsman_config_version") == before {
				return fmt.Errorf("not yet")
			}
			return nil
		})
		n := served.Load()
		eventually(t, "requests went on", func() error {
			if got := served.Load() - n; got < 40 {
				return fmt.Errorf("%d requests", got)
			}
			return nil
		})
	}
	end()
	for i, home := range homes {
		if other := fmt.Sprintf("sk-of-home-%d", 1-i); strings.Contains(home.raw.String(), other) {
			t.Errorf("address %d saw %s %d times", i, other, strings.Count(home.raw.String(), other))
		}
		if !strings.Contains(home.raw.String(), fmt.Sprintf("sk-of-home-%d", i)) {
			t.Errorf("address %d never saw its own key: the test shows nothing", i)
		}
	}
	m.settled()
}
