package routing

import (
	"context"
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
// s is the snapshot that q was read with. If another one has come into force since,
// that one decides, so that nobody is chosen who was taken out.
//
// It blocks only shortly after the start of the process, when no proxy has
// accepted the pool's targets yet.
func (r *Router) Decide(ctx context.Context, s *Snapshot, q *request.Request) (*Decision, error) {
	d, _ := r.free.Get().(*Decision)
	if d == nil {
		d = &Decision{}
	}
	for {
		begin, err := r.choose(ctx, s, q, d)
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
		d.MatchedBytes, _ = d.call.PrefixMatch(d.entries[0])
		d.Observe(0)
		d.release()
		d.Took = time.Since(begin)
		return d, nil
	}
}

// choose fills d by the snapshot s, and tells when choosing began.
func (r *Router) choose(ctx context.Context, s *Snapshot, q *request.Request, d *Decision) (begin time.Time, err error) {
	p := s.Pool(q.Model)
	if p == nil {
		return begin, &Refusal{Cause: wire.ErrModelNotFound, Message: "the model does not exist"}
	}
	begin = time.Now()
	if begin.Sub(r.start) < startWindow && !p.reachable() {
		if err := r.waitReachable(ctx, p); err != nil {
			return begin, err
		}
		begin = time.Now()
	}
	d.fill(p, q)
	p.decide(d, begin)
	if len(d.entries) == 0 {
		return begin, &Refusal{Cause: wire.ErrNoTarget, Pool: p.Name, Message: "no target can serve this request now"}
	}
	return begin, nil
}

// waitReachable waits until a target of the pool may be chosen, or startWait is over.
func (r *Router) waitReachable(ctx context.Context, p *Pool) error {
	limit := time.NewTimer(startWait)
	defer limit.Stop()
	for {
		changed := r.tracker.Changed()
		if p.reachable() {
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

func (d *Decision) fill(p *Pool, q *request.Request) {
	d.Pool = p
	if q.Stream {
		d.Kind = picker.Stream
	}
	d.Tokens = q.PromptTokens()
	d.Digest = q.Digest
	d.req = picker.Request{
		Session: q.Session, Text: q.Text, Length: q.Length, Digest: q.Digest, HasDigest: q.HasPrompt,
		TokenIDs: q.TokenIDs, CacheSalt: q.CacheSalt, KVOff: q.KVOff, Kind: d.Kind,
	}
	d.call.Request = &d.req
}
