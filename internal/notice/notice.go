// Package notice holds back log lines of events that repeat: one line at once, then
// at most one a minute, which tells how many there were none for.
//
// It writes nothing itself; the adapters that log call it. A Notice may be used from
// any goroutine.
package notice

import (
	"fmt"
	"runtime"
	"sync"
	"time"
)

// every is the least time between two lines about the same kind of event.
const every = time.Minute

// Notice is one kind of event. The zero value has seen none.
type Notice struct {
	mu       sync.Mutex
	last     time.Time
	heldBack int
}

// Due tells whether to write a line now, and how many were held back before it.
func (n *Notice) Due(now time.Time) (heldBack int, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.last.IsZero() && now.Sub(n.last) < every {
		n.heldBack++
		return 0, false
	}
	heldBack, n.heldBack, n.last = n.heldBack, 0, now
	return heldBack, true
}

// Panic names what was recovered from a panic. A value made by other than the runtime may
// hold anything, a prompt for example: only its type is told.
func Panic(p any) string {
	if err, ok := p.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("%T", p)
}
