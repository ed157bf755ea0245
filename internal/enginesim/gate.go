package enginesim

import (
	"container/list"
	"context"
	"errors"
	"sync"
)

// errFull says that neither a place nor room to wait for one is left.
var errFull = errors.New("queue is full")

// gate lets a limited number of requests through at once; a limited number of
// others wait, in order of arrival. Whether a request may wait is known at once (join),
// so that a refusal can be answered before anything else is sent.
type gate struct {
	mu struct {
		sync.Mutex
		free    int
		waiting list.List // of *place, longest waiting first
	}
	capacity int
	queue    int
}

// place is one request's claim on the gate. It must be waited for, and left
// after a successful wait.
type place struct {
	gate  *gate
	ready chan struct{} // closed when the place is granted
	entry *list.Element // guarded by the gate; nil when not waiting
}

// newGate makes a gate of capacity places with room for queue waiters.
func newGate(capacity, queue int) *gate {
	g := &gate{capacity: capacity, queue: queue}
	g.mu.free = capacity
	return g
}

// join claims a place or a turn in the queue; errFull when there is neither.
func (g *gate) join() (*place, error) {
	p := &place{gate: g, ready: make(chan struct{})}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.mu.free > 0:
		g.mu.free--
		close(p.ready)
	case g.mu.waiting.Len() < g.queue:
		p.entry = g.mu.waiting.PushBack(p)
	default:
		return nil, errFull
	}
	return p, nil
}

// wait returns when the place is granted. When ctx ends first the claim is
// given up and nothing is left to leave.
func (p *place) wait(ctx context.Context) error {
	select {
	case <-p.ready:
		return nil
	case <-ctx.Done():
	}
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	if p.entry == nil { // granted in the same moment
		p.gate.passOn()
		return ctx.Err()
	}
	p.gate.mu.waiting.Remove(p.entry)
	p.entry = nil
	return ctx.Err()
}

// leave gives the place to whoever waits longest.
func (p *place) leave() {
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	p.gate.passOn()
}

// passOn hands one place on; the caller holds the lock.
func (g *gate) passOn() {
	front := g.mu.waiting.Front()
	if front == nil {
		g.mu.free++
		return
	}
	next := g.mu.waiting.Remove(front).(*place)
	next.entry = nil
	close(next.ready)
}

// counts gives how many hold a place and how many wait.
func (g *gate) counts() (running, waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.capacity - g.mu.free, g.mu.waiting.Len()
}
