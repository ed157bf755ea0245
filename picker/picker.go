// Package picker chooses one target out of a pool: the routing strategies.
//
// It is pure computation over values the caller passes in: no I/O, no clock, no
// goroutine, and no import but the standard library and xxh3. It may be used
// as a library by itself.
//
// # How a choice is made
//
// A [Balancer] is a strategy with its state and belongs to one pool. One
// request's passage through it is a [Call]. Choosing is two steps, so that
// simultaneous requests see each other without an expensive lock:
//
//	b.Prepare(call)       // hashing and prefix matching: costs time, runs concurrently
//	mu.Lock()             // the caller's lock, one per pool
//	call.Loads = ...      // read the loads now
//	i := b.Pick(call)     // short
//	...                   // count target i in flight
//	mu.Unlock()
//	b.Observe(i, call)    // an attempt on i is being dispatched
//	...
//	b.Withdraw(i, call)   // that attempt failed before any response started
//	call.Sampled(i)       // or: it taught the latency of i
//	call.Ended(i)         // or: it ended otherwise
//	call.Reset()
//
// Index i always means position i in Config.Targets. Everything a balancer
// learns is kept under the target's id, never under its position: pass the
// former balancer of the pool to [New] and the state of every target that
// remains is taken over.
//
// What a balancer ranks by but does not learn itself (latency, predictions, what is
// in the caches of engines) it reads from the [Sources] of its configuration.
//
// # The contract of all strategies
//
//   - An empty pool, or no eligible index, gives -1. Any other answer is in
//     range and eligible.
//   - A target that is not eligible influences nothing: no minimum, sum,
//     rotation, ring ownership, running weight or random draw.
//   - Loads may be nil. Nil or a wrong length means that load is unknown.
//     Arithmetic on loads never overflows.
//   - Only a call with Attempt 0 advances selection state (cursors, running
//     weights, budgets). For a later entry of a failover list the strategy answers what it
//     would choose from the remaining targets, and changes nothing.
//   - An index out of range given to Observe, Withdraw or Refill is ignored.
//   - All methods may be called from many goroutines at once. They never block
//     on anything but short internal locks, and Pick allocates nothing.
package picker

import (
	"math/bits"
	"time"
)

// Kind says how a request wants its answer.
type Kind uint8

// The kinds of answer.
const (
	Unary Kind = iota
	Stream
)

// String gives the word used in configuration, logs and the API.
func (k Kind) String() string {
	if k == Stream {
		return "stream"
	}
	return "unary"
}

// Request is what a strategy may know of one request. Every field may be
// absent; the zero value is a request of which nothing is known.
type Request struct {
	Session   string   // opaque session key, "" = absent
	Text      []byte   // affinity text, at most 32 KiB by default. Read only; a balancer that remembers it copies it
	Length    int64    // measured bytes of the whole prompt
	Digest    uint64   // identity of the whole prompt, valid if HasDigest
	HasDigest bool     //
	TokenIDs  []uint32 // the prompt as token ids, nil = unknown
	Adapter   string   // LoRA adapter name, "" = absent
	CacheSalt string   // the request's cache salt, "" = absent
	KVOff     bool     // the request has no KV score
	Kind      Kind     // stream or unary
}

// Call is one request's passage through one balancer: the inputs of a pick,
// and the balancer's scratch space between Prepare, Pick, Observe and Withdraw.
// It may be reused for another request after Reset. One goroutine at a time
// may use it.
type Call struct {
	Request  *Request
	Now      time.Time // of the step: set it before Prepare, Pick, Observe and Withdraw
	Attempt  int       // 0 for the first choice, k for entry k of the list
	Loads    []int64   // by index, not negative; nil or a wrong length = unknown
	Eligible Set       // who may be chosen

	// Trace, if not nil, is filled by Pick with the values that it went by.
	Trace *Trace

	// Why is set by Pick: the reason for its answer.
	Why Why
	// Informed is set by Pick: a KV index or an LMCache source had something to
	// say about a candidate. Otherwise precise_cache_aware and lmcache_aware went
	// by the load alone.
	Informed bool

	scratch scratch
}

// Why is the reason for a choice, as shown to operators.
type Why uint8

// The reasons. WhyPin belongs to callers, which choose a lone target without a balancer.
const (
	WhyNone Why = iota
	WhyRotation
	WhyRandom
	WhyWeight
	WhyHash
	WhyPrefix
	WhyLeastLoad
	WhyTwoChoices
	WhyScore
	WhyTie
	WhyTrial
	WhyWarmUp
	WhyExploration
	WhyOnlyOne
	WhyPin
)

var whyNames = [...]string{"", "rotation", "random", "weight", "hash", "prefix", "least_load", "two_choices",
	"score", "tie", "trial", "warm_up", "exploration", "only_one", "pin"}

// String gives the word used in explanations.
func (w Why) String() string { return whyNames[w] }

// Balancer is a strategy with its state, belonging to one pool. See the package
// comment for the contract. Get one from [New].
type Balancer interface {
	// Name is the configured name of the strategy. It never changes.
	Name() string
	// Len is the number of targets.
	Len() int
	// Prepare computes what depends only on the request, for the picks that
	// follow with the same call. It may be left out; Pick then does it.
	Prepare(c *Call)
	// Pick gives the index to use, or -1.
	Pick(c *Call) int
	// Observe records that an attempt of this request on target i is being
	// dispatched.
	Observe(i int, c *Call)
	// Withdraw takes back what Observe(i, c) recorded about session and
	// adapter, because the attempt ended before any response started.
	Withdraw(i int, c *Call)
	// Refill gives target i its whole budget of trial picks again, because its
	// health check reports recovery or its latency has lapsed.
	Refill(i int)
	// Sweep removes session pins that have expired. It is for a background
	// goroutine of the caller, at least once a minute.
	Sweep(now time.Time)
}

// Set is a set of indexes.
type Set []uint64

// NewSet gives an empty set with room for n indexes.
func NewSet(n int) Set { return make(Set, (n+63)/64) }

// Grow gives an empty set with room for n indexes, reusing the storage of s.
func (s Set) Grow(n int) Set {
	w := (n + 63) / 64
	if cap(s) < w {
		return make(Set, w)
	}
	s = s[:w]
	clear(s)
	return s
}

// Has tells whether i is in the set. An index without room is not.
func (s Set) Has(i int) bool { return i>>6 < len(s) && i >= 0 && s[i>>6]&(1<<(i&63)) != 0 }

// Add puts i, for which there must be room, into the set.
func (s Set) Add(i int) { s[i>>6] |= 1 << (i & 63) }

// Remove takes i out of the set.
func (s Set) Remove(i int) {
	if i >= 0 && i>>6 < len(s) {
		s[i>>6] &^= 1 << (i & 63)
	}
}

// Len counts the members.
func (s Set) Len() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// Next gives the smallest member that is at least i, or -1. A loop over a set:
//
//	for i := s.Next(0); i >= 0; i = s.Next(i + 1) { ... }
func (s Set) Next(i int) int {
	if i < 0 {
		i = 0
	}
	w := i >> 6
	if w >= len(s) {
		return -1
	}
	word := s[w] &^ (1<<(i&63) - 1)
	for word == 0 {
		w++
		if w == len(s) {
			return -1
		}
		word = s[w]
	}
	return w<<6 + bits.TrailingZeros64(word)
}
