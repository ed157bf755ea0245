package notice

import (
	"errors"
	"testing"
	"time"
)

// An event that repeats is logged once, then at most once a minute with the number of
// those that were not.
func TestNotice(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var n Notice
	for _, step := range []struct {
		after    time.Duration
		heldBack int
		ok       bool
	}{
		{0, 0, true}, {time.Second, 0, false}, {59 * time.Second, 0, false}, {time.Minute, 2, true},
		{61 * time.Second, 0, false}, {3 * time.Minute, 1, true}, {4 * time.Minute, 0, true},
	} {
		if heldBack, ok := n.Due(start.Add(step.after)); ok != step.ok || heldBack != step.heldBack {
			t.Errorf("after %s: %d, %v, want %d, %v", step.after, heldBack, ok, step.heldBack, step.ok)
		}
	}
}

// A panic is named without its value, unless that is the runtime's own word.
func TestPanic(t *testing.T) {
	var none []int
	first := 0
	for _, test := range []struct {
		name string
		f    func()
		want string
	}{
		{"text", func() { panic("a prompt") }, "string"},
		{"error", func() { panic(errors.New("a prompt")) }, "*errors.errorString"},
		{"runtime", func() { _ = none[first] }, "runtime error: index out of range [0] with length 0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			defer func() {
				if got := Panic(recover()); got != test.want {
					t.Errorf("%q, want %q", got, test.want)
				}
			}()
			test.f()
		})
	}
}
