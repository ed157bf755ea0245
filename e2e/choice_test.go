package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pointsman/pointsman/internal/enginesim"
)

// What each strategy without prompts does, seen from the engines: case 322, and cases 23,
// 33, 111, 123 and 124 through the proxy.
func TestChoice(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3, enginesim.Options{Decode: 50})
	weights := "  - model: shares\n    strategy: weighted\n    targets:\n" +
		"      - {provider: a, model: m}\n      - {provider: b, model: m}\n      - {provider: c, model: m, weight: 4}\n"
	cfg := f.providers() + "routes:\n" + weights + f.route("hash", "consistent_hash", "m") + f.route("two", "power_of_two", "m") + f.route("any", "random", "m")
	m := newMesh(t, cfg)
	m.reachable(3)
	reset := func() {
		for _, e := range f {
			e.Reset()
		}
	}

	// case 322, and smoothly so: the heavy one is never out of six in a row.
	for range 60 {
		m.post(chatPath, chat("shares", "x", false, 1))
	}
	if got := f.counts(); !slices.Equal(got, []int64{10, 10, 40}) {
		t.Errorf("case 322: %v", got)
	}

	// case 23: one session, one engine, whatever it asks; many sessions, all engines. Case
	// 33: so too after a restart of pointsman.
	reset()
	home := make(map[string]string)
	ask := func(session string, turn int) string {
		return m.post(chatPath, chat("hash", fmt.Sprintf("%d asks %s", turn, session), false, 1), "X-Session-ID", session).servedBy()
	}
	for i := range 30 {
		s := fmt.Sprint("session ", i)
		home[s] = ask(s, 1)
		if again := ask(s, 2); again != home[s] {
			t.Errorf("case 23: %s went to %s, then to %s", s, home[s], again)
		}
	}
	if slices.Contains(f.counts(), 0) {
		t.Errorf("sessions spread %v", f.counts())
	}
	m.pointsman.kill()
	m.startPointsman()
	m.waitReady()
	m.reachable(3)
	m.baseline = m.metric("go_goroutines")
	for s, was := range home {
		if now := ask(s, 3); now != was {
			t.Errorf("case 33: %s moved from %s to %s over a restart", s, was, now)
		}
	}

	// case 123 and case 124: behind 40 KiB that all share, and behind another image, the
	// whole prompt decides; the same prompt goes where it went.
	shared := strings.Repeat("a long system prompt ", 2000)
	for name, body := range map[string]func(i int) string{
		"case 123": func(i int) string { return chat("hash", fmt.Sprint(shared, i), false, 1) },
		"case 124": func(i int) string {
			return fmt.Sprintf(`{"model":"hash","max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":"describe"},`+
				`{"type":"image_url","image_url":{"url":"https://x.example/%d.png"}}]}]}`, i)
		},
	} {
		seen := make(map[string]int)
		for i := range 32 {
			first := m.post(chatPath, body(i)).servedBy()
			seen[first]++
			if again := m.post(chatPath, body(i)).servedBy(); again != first {
				t.Errorf("%s: prompt %d went to %s, then to %s", name, i, first, again)
			}
		}
		if len(seen) < 2 {
			t.Errorf("%s: all went to one engine: %v", name, seen)
		}
	}

	// case 111: requests at the same moment see each other.
	reset()
	var wg sync.WaitGroup
	for range 24 {
		wg.Go(func() {
			s, err := m.open(chat("two", "x", true, 50))
			if err != nil {
				t.Error(err)
				return
			}
			s.rest()
		})
	}
	wg.Wait()
	if got := f.counts(); slices.Min(got) < 5 || slices.Max(got) > 11 {
		t.Errorf("case 111: %v", got)
	}

	reset()
	for range 60 {
		m.post(chatPath, chat("any", "x", false, 1))
	}
	if got := f.counts(); slices.Min(got) < 6 { // 20 +- 3.6; 6 is almost 4 of them away
		t.Errorf("random: %v", got)
	}
	m.settled()
}
