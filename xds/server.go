package xds

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"

	"github.com/pointsman/pointsman/envoy"
)

const (
	// grace is how long an Envoy counts after its stream ended: long enough for
	// every reconnection, so that no new target is let through to an Envoy that lacks it.
	grace = 30 * time.Second

	// sweepInterval is how often Run asks whether attempts on removed targets
	// have ended.
	sweepInterval = time.Second

	// linger is how long a removed target's cluster stays at least: a request that
	// found its target before the configuration changed may not be in
	// anybody's list yet.
	linger = 5 * time.Second

	// maxProxies bounds the streams and the lost Envoys that are remembered.
	maxProxies = 1024
)

// Targets is told which targets are reachable and asked which are in use. The
// tracker implements it. Its methods must not block and must not call Server.Update.
type Targets interface {
	// SetReachable says whether every Envoy that counts can route to the target.
	// It may repeat what is known.
	SetReachable(targetID string, ok bool)
	// Listed tells whether an attempt on the target is running or may still come.
	Listed(targetID string) bool
}

// Options are the dependencies of a Server. All are required.
type Options struct {
	Log     *slog.Logger
	Targets Targets
	// DrainMax is how long a removed target's cluster stays at most.
	DrainMax func() time.Duration
}

// Server is the control plane. Create it with New.
type Server struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer

	log      *slog.Logger
	targets  Targets
	drainMax func() time.Duration

	rejections [kinds]atomic.Uint64
	chain      atomic.Int32  // an envoy.Chain
	changed    chan struct{} // wakes Run: there is a new time to wait for
	ended      chan struct{} // closed when Run has ended: so do the streams

	// telling is held while Targets is told something.
	telling sync.Mutex

	mu struct {
		sync.Mutex
		store   store
		proxies map[*proxy]struct{}
		told    map[string]bool    // by target id, what Targets was told last
		budgets map[string]*budget // by node id
	}
}

// New gives a Server without resources. Call Update before the first Envoy can
// connect: one that meets an empty store drops all its clusters.
func New(opts Options) *Server {
	s := &Server{
		log:      opts.Log,
		targets:  opts.Targets,
		drainMax: opts.DrainMax,
		changed:  make(chan struct{}, 1),
		ended:    make(chan struct{}),
	}
	s.mu.store = newStore()
	s.mu.proxies = map[*proxy]struct{}{}
	s.mu.told = map[string]bool{}
	s.mu.budgets = map[string]*budget{}
	return s
}

// Register adds the discovery service to a gRPC server. Its keep-alive has to end
// the connection of a peer that has not answered for 30 s, and to allow Envoy's
// own pings every 10 s. Its GracefulStop returns only after Run has ended.
func (s *Server) Register(g *grpc.Server) {
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(g, s)
}

// Update replaces what Envoys are given. A cluster that is not valid is left out,
// logged and counted, and its target is not reachable, or stays with the
// cluster that it had; the others go on. A listener or a route that is not valid
// refuses the whole update, which then has changed nothing. Clusters that are no
// longer there are kept until the attempts on them have ended.
//
// When it returns, Targets knows what has changed by it.
func (s *Server) Update(res *envoy.Resources) error {
	next, err := prepare(res)
	if err != nil {
		return err
	}
	s.mu.Lock()
	for _, f := range s.mu.store.apply(next, time.Now()) {
		s.reject(clusters, f, "pointsman")
	}
	// What was told before is told again: the receiver may have forgotten a
	// target that was away in between.
	for _, id := range s.mu.store.ids() {
		delete(s.mu.told, id)
	}
	s.wakeAll()
	s.mu.Unlock()
	s.tell()
	s.wakeRun()
	return nil
}

// Run ends the time of lost Envoys and withdraws the clusters of removed
// targets. When it returns, which it does only when ctx ends, every
// stream ends too and no new one is accepted.
func (s *Server) Run(ctx context.Context) error {
	defer close(s.ended)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.changed:
		case <-timer.C:
		}
		next := s.sweep(time.Now())
		timer.Stop()
		if next > 0 {
			timer.Reset(next)
		}
	}
}

// sweep does what is due and gives the time until it has to be called again, 0
// for never.
func (s *Server) sweep(now time.Time) time.Duration {
	s.mu.Lock()
	next := s.forgetLost(now)
	// Listed is asked without the mutex.
	draining := s.mu.store.draining()
	s.mu.Unlock()

	limit := s.drainMax()
	var names []string
	for _, d := range draining {
		age := now.Sub(d.since)
		if age >= limit || age >= linger && !s.targets.Listed(d.target) {
			names = append(names, d.name)
		}
	}
	if len(names) < len(draining) {
		next = soonest(next, sweepInterval)
	}
	// First nobody is sent there any more, then the cluster goes.
	s.mu.Lock()
	s.mu.store.withdraw(names)
	s.mu.Unlock()
	s.tell()
	if len(names) > 0 {
		s.mu.Lock()
		s.mu.store.deleteWithdrawn()
		s.wakeAll()
		s.mu.Unlock()
	}
	return next
}

// forgetLost drops the Envoys that have been away for too long. The mutex is held.
func (s *Server) forgetLost(now time.Time) (next time.Duration) {
	for p := range s.mu.proxies {
		if p.connected {
			continue
		}
		left := grace - now.Sub(p.lostAt)
		if left <= 0 {
			delete(s.mu.proxies, p)
			s.event("proxy is gone and no longer counts", p)
			continue
		}
		next = soonest(next, left)
	}
	return next
}

func soonest(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// wakeAll makes every stream look for something to send. The mutex is held.
func (s *Server) wakeAll() {
	for p := range s.mu.proxies {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
}

func (s *Server) wakeRun() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// errEnded is what a stream gets once Run has ended.
var errEnded = errors.New("pointsman is ending")
