package routing

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pointsman/pointsman/internal/request"
	"github.com/pointsman/pointsman/internal/tracker"
	"github.com/pointsman/pointsman/internal/wire"
	"github.com/pointsman/pointsman/picker"
)

const (
	// startWindow is how long after the start a request may wait for targets that
	// no proxy has accepted yet.
	startWindow = 5 * time.Second
	// startWait is how long such a request waits at most.
	startWait = time.Second
)

// Refusal is a request that gets no decision: the answer that no upstream made.
type Refusal struct {
	Cause      wire.Error
	Pool       string // name, "" for a miss
	Message    string // for the client; holds nothing of the request
	RetryAfter int    // seconds, 0 = not said
}

// Error is the message.
func (r *Refusal) Error() string { return r.Message }

// Router decides with the snapshot in force. Its methods may be called from any
// goroutine.
type Router struct {
	// Rand is where draws of variants come from; nil = the generator of the process. It
	// must be safe for concurrent use, and set before the first Decide.
	Rand rand.Source

	tracker  *tracker.Tracker
	start    time.Time
	snapshot atomic.Pointer[Snapshot]
	free     sync.Pool // of *Decision
}

// NewRouter gives a router without a snapshot: Swap comes before any Decide.
func NewRouter(t *tracker.Tracker, start time.Time) *Router {
	return &Router{tracker: t, start: start}
}

// Snapshot gives the snapshot in force.
func (r *Router) Snapshot() *Snapshot { return r.snapshot.Load() }

// Swap puts a snapshot into force. Decisions already made keep theirs.
func (r *Router) Swap(s *Snapshot) { r.snapshot.Store(s) }

// Decide chooses for a request. The first entry of the list is counted in
// flight and observed when it returns; the decision no longer refers to q. The
// error is a *Refusal, or that of ctx.
//
// caller is the name that the proxy vouches for, "" = anonymous. A request without a model
// is one that came by its path.
//
// s is the snapshot that q was read with. If another one has come into force since,
// that one decides, so that nobody is chosen who was taken out.
//
// It blocks only shortly after the start of the process, when no proxy has
// accepted the pool's targets yet.
func (r *Router) Decide(ctx context.Context, s *Snapshot, q *request.Request, caller string) (*Decision, error) {
	d, _ := r.free.Get().(*Decision)
	if d == nil {
		d = &Decision{}
	}
	for {
		begin, err := r.choose(ctx, s, q, caller, d)
		if err != nil {
			r.Free(d)
			return nil, err
		}
		d.list(1)
		// A target that was taken out keeps its cluster as long as a decision lists it.
		// Whoever swaps looks for such decisions afterwards: this one is seen, or it
		// sees the swap here.
		if now := r.snapshot.Load(); now != s {
			d.drop()
			s = now
			continue
		}
		d.TextBytes = len(d.req.Text)
		first := d.entries[0]
		d.MatchedBytes, _ = d.parts[first.part].call.PrefixMatch(first.target)
		d.Observe(0)
		d.release()
		d.Took = time.Since(begin)
		return d, nil
	}
}

// choose fills d by the snapshot s, and tells when choosing began.
func (r *Router) choose(ctx context.Context, s *Snapshot, q *request.Request, caller string, d *Decision) (begin time.Time, err error) {
	a, ok := s.Lookup(q, caller)
	if !ok {
		return begin, &Refusal{Cause: wire.ErrModelNotFound, Message: "the model does not exist"}
	}
	allowed := s.allowed(caller)
	begin = time.Now()
	if begin.Sub(r.start) < startWindow && !a.place.reachable(allowed) && a.place.usable(allowed, "") {
		if err := r.waitReachable(ctx, a.place, allowed); err != nil {
			return begin, err
		}
		begin = time.Now()
	}
	d.fill(a, q)
	d.begin(a.place, a.place.primary(r.draw))
	d.fillList(allowed, begin)
	if len(d.entries) == 0 {
		return begin, d.refusal()
	}
	return begin, nil
}

// draw gives an even random number below n.
func (r *Router) draw(n uint64) uint64 {
	if r.Rand == nil {
		return rand.Uint64N(n)
	}
	return rand.New(r.Rand).Uint64N(n)
}

// waitReachable waits until a target of the place may be chosen, or startWait is over.
func (r *Router) waitReachable(ctx context.Context, p *place, allowed providers) error {
	limit := time.NewTimer(startWait)
	defer limit.Stop()
	for {
		changed := r.tracker.Changed()
		if p.reachable(allowed) {
			return nil
		}
		select {
		case <-changed:
		case <-limit.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Free takes back a decision whose request has ended, and gives up its place in the
// counts if it still has one. The caller must not use it afterwards.
func (r *Router) Free(d *Decision) {
	d.drop()
	r.free.Put(d)
}

func (d *Decision) fill(a Address, q *request.Request) {
	d.model = a.model
	if q.Stream {
		d.Kind = picker.Stream
	}
	d.Tokens = q.PromptTokens()
	d.Digest = q.Digest
	d.req = picker.Request{
		Session: q.Session, Text: q.Text, Length: q.Length, Digest: q.Digest, HasDigest: q.HasPrompt,
		TokenIDs: q.TokenIDs, CacheSalt: q.CacheSalt, KVOff: q.KVOff, Kind: d.Kind, Adapter: a.adapter(),
	}
}
