package picker

import (
	"math/rand/v2"
	"sync"
)

// stripes is how many readers of a stripedLock may come at once without meeting, more
// or less. Each costs a writer some 20 ns.
const stripes = 8

// stripedLock is a read-write lock for what is read with every request and written
// with few instructions. Readers of one sync.RWMutex do not wait for each other, but all
// write to its counter, and on several cores that takes longer than what they came to read. Here
// each reader takes one of several locks, and a writer all of them.
type stripedLock struct {
	locks [stripes]struct {
		sync.RWMutex
		_ [104]byte // two cache lines, because processors fetch them in pairs
	}
}

// reader gives the lock that readers with this scratch take, the same every time.
func (l *stripedLock) reader(s *scratch) *sync.RWMutex {
	if s.stripe == 0 {
		s.stripe = 1 + uint8(rand.Uint32()%stripes)
	}
	return &l.locks[s.stripe-1].RWMutex
}

// Lock locks out readers and writers.
func (l *stripedLock) Lock() {
	for i := range l.locks {
		l.locks[i].Lock()
	}
}

// Unlock undoes Lock.
func (l *stripedLock) Unlock() {
	for i := range l.locks {
		l.locks[i].Unlock()
	}
}
