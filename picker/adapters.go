package picker

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/zeebo/xxh3"
)

// adapterAffinity prefers targets that hold the request's adapter.
type adapterAffinity struct{ adapters *adapters }

func (s *adapterAffinity) prepare(c *Call) { s.adapters.find(c) }

func (s *adapterAffinity) add(c *Call, _ []int64, cands []int, weight float64, to []float64) {
	to = to[:len(cands)]
	for k, i := range cands {
		if c.scratch.holders.Has(i) {
			to[k] += weight
		}
	}
}

func (s *adapterAffinity) observe(i int, c *Call)  { s.adapters.observe(i, c) }
func (s *adapterAffinity) withdraw(i int, c *Call) { s.adapters.withdraw(i, c) }

// adapters is the part of a balancer that knows which LoRA adapters went where, and so
// are loaded there.
type adapters struct {
	sets       []*adapterSet // by index; shared by the balancers of a pool
	barred     []bool        // by index: never holds one
	capacity   int
	generation uint64 // of this balancer in its pool
}

func newAdapters(cfg Config, old estate) *adapters {
	a := &adapters{barred: make([]bool, len(cfg.Targets)), capacity: max(cfg.Settings.LoRACapacity, 1), generation: 1}
	var sets []*adapterSet
	if old.adapters != nil {
		sets, a.generation = old.adapters.sets, old.adapters.generation+1
	}
	a.sets = carried(cfg.Targets, old.ids, sets, func(string) *adapterSet { return new(adapterSet) })
	for i, t := range cfg.Targets {
		a.barred[i] = t.OwnModel
	}
	return a
}

// adapterNote is what Observe leaves for Withdraw: it added a name to a set.
type adapterNote struct {
	set   *adapterSet
	stamp uint64
}

// find notes down who holds the call's adapter.
func (a *adapters) find(c *Call) {
	c.scratch.holders = c.scratch.holders.Grow(len(a.sets))
	if c.Request == nil || c.Request.Adapter == "" {
		return
	}
	name := adapterName(c.Request.Adapter)
	for i, set := range a.sets {
		if !a.barred[i] && set.has(name) {
			c.scratch.holders.Add(i)
		}
	}
}

// observe remembers that the call's adapter is wanted on target i.
func (a *adapters) observe(i int, c *Call) {
	if c.Request == nil || c.Request.Adapter == "" || a.barred[i] {
		return
	}
	name := adapterName(c.Request.Adapter)
	stamp, added := a.sets[i].observe(name, a.generation, a.capacity)
	if !added {
		return
	}
	note := adapterNote{a.sets[i], stamp}
	if k := a.noteOf(i, c); k >= 0 {
		c.scratch.adapters[k] = note
	} else {
		c.scratch.adapters = append(c.scratch.adapters, note)
	}
}

// withdraw takes back what observe noted.
func (a *adapters) withdraw(i int, c *Call) {
	if k := a.noteOf(i, c); k >= 0 {
		c.scratch.adapters[k].set.withdraw(c.scratch.adapters[k].stamp)
		c.scratch.adapters = slices.Delete(c.scratch.adapters, k, k+1)
	}
}

// noteOf finds the call's note of its attempt on target i, or -1.
func (a *adapters) noteOf(i int, c *Call) int {
	for k := range c.scratch.adapters {
		if c.scratch.adapters[k].set == a.sets[i] {
			return k
		}
	}
	return -1
}

// adapterName gives the hash of an adapter's name, never 0.
func adapterName(adapter string) uint64 { return max(xxh3.HashString(adapter), 1) }

// adapterSet remembers the adapters last observed on one target, by the hashes of
// their names. It is read without a lock.
type adapterSet struct {
	names atomic.Pointer[[]atomic.Uint64] // 0 = free place; nil = none was observed yet

	mu struct {
		sync.Mutex
		generation uint64   // of the balancer whose capacity it has
		last       uint64   // stamp of the last observation
		stamps     []uint64 // of the last observation of the name at the same place, 0 = free
	}
}

func (s *adapterSet) has(name uint64) bool {
	names := s.names.Load()
	if names == nil {
		return false
	}
	for k := range *names {
		if (*names)[k].Load() == name {
			return true
		}
	}
	return false
}

// observe makes a name the newest, and forgets the oldest if there is no place for
// it. The latest balancer in use decides how many there are.
func (s *adapterSet) observe(name, generation uint64, capacity int) (stamp uint64, added bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if generation > s.mu.generation {
		s.mu.generation = generation
		s.resize(capacity)
	}
	s.mu.last++
	names, oldest := *s.names.Load(), 0
	for k := range names {
		if names[k].Load() == name {
			s.mu.stamps[k] = s.mu.last
			return s.mu.last, false
		}
		if s.mu.stamps[k] < s.mu.stamps[oldest] {
			oldest = k
		}
	}
	names[oldest].Store(name)
	s.mu.stamps[oldest] = s.mu.last
	return s.mu.last, true
}

// withdraw removes the name that was added with this stamp, unless it has been
// observed again since.
func (s *adapterSet) withdraw(stamp uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := slices.Index(s.mu.stamps, stamp); k >= 0 {
		(*s.names.Load())[k].Store(0)
		s.mu.stamps[k] = 0
	}
}

// resize makes room for so many names, and keeps the newest.
func (s *adapterSet) resize(capacity int) {
	was := s.names.Load()
	if was != nil && len(*was) == capacity {
		return
	}
	names, stamps := make([]atomic.Uint64, capacity), make([]uint64, capacity)
	for k := range stamps {
		newest := 0
		for j := range s.mu.stamps {
			if s.mu.stamps[j] > s.mu.stamps[newest] {
				newest = j
			}
		}
		if len(s.mu.stamps) == 0 || s.mu.stamps[newest] == 0 {
			break
		}
		names[k].Store((*was)[newest].Load())
		stamps[k], s.mu.stamps[newest] = s.mu.stamps[newest], 0
	}
	s.names.Store(&names)
	s.mu.stamps = stamps
}
