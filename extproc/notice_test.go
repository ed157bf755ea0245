package extproc

import (
	"testing"
	"time"
)

// An event that repeats is logged once, then at most once a minute with the number of
// those that were not.
func TestNotice(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var n notice
	for _, step := range []struct {
		after    time.Duration
		heldBack int
		ok       bool
	}{
		{0, 0, true}, {time.Second, 0, false}, {59 * time.Second, 0, false}, {time.Minute, 2, true},
		{61 * time.Second, 0, false}, {3 * time.Minute, 1, true}, {4 * time.Minute, 0, true},
	} {
		if heldBack, ok := n.due(start.Add(step.after)); ok != step.ok || heldBack != step.heldBack {
			t.Errorf("after %s: %d, %v, want %d, %v", step.after, heldBack, ok, step.heldBack, step.ok)
		}
	}
}
