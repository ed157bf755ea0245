//go:build !race

package tracker

import "testing"

// Asking allocates nothing, and neither does learning.
func TestAllocations(t *testing.T) {
	target, endpoint := New(settings()).Target("a"), New(settings()).Endpoint("a")
	now := at(0)
	target.Park(now, NoHint)
	var h Hold
	if n := testing.AllocsPerRun(1000, func() {
		target.Parked(now)
		target.Latency(now)
		target.Reachable()
		target.Sample(now, 1)
		target.Park(now, NoHint)
		h.Move(endpoint)
		h.Move(nil)
	}); n != 0 {
		t.Errorf("%g allocations, want 0", n)
	}
}
