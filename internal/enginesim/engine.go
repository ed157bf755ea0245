package enginesim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// ErrServing says that Serve was called a second time.
var ErrServing = errors.New("engine is served already")

// Engine is one simulated engine on one port. Make it with New.
type Engine struct {
	opts    Options
	started time.Time
	mux     http.Handler
	compute *compute
	faults  faultList
	seen    seen
	buffers sync.Pool // of *[]byte: bodies on their way in, answers on their way out

	port reservation
	// run hands each incarnation to Serve, the first from New and the others
	// from Revive.
	run chan *incarnation

	mu struct {
		sync.Mutex
		serving bool         // Serve was called
		closed  bool         // Serve has ended
		alive   *incarnation // nil while dead
	}
	handlers sync.WaitGroup // requests being answered
}

// New opens the port, so that Addr is known and connections are kept waiting,
// and starts nothing. An engine that is never served must be closed.
func New(opts Options) (*Engine, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("engine %s: %w", opts.Name, err)
	}
	port, err := reserve(opts.Listen)
	if err != nil {
		return nil, fmt.Errorf("engine %s: %w", opts.Name, err)
	}
	e := &Engine{
		opts:    opts,
		started: time.Now(),
		compute: newCompute(opts),
		port:    port,
		run:     make(chan *incarnation, 1),
	}
	e.buffers.New = func() any { return new([]byte) }
	e.mux = e.routes()
	if err := e.Revive(); err != nil {
		port.release()
		return nil, err
	}
	return e, nil
}

// Name is what the engine says in x-served-by.
func (e *Engine) Name() string { return e.opts.Name }

// Addr is the address of the engine, "ip:port". It never changes.
func (e *Engine) Addr() string { return e.port.addr.String() }

// URL is the base URL of the engine.
func (e *Engine) URL() string { return "http://" + e.Addr() }

// Serve answers requests until ctx ends; then it resets all connections and returns nil
// when no request is being answered any more. It may be called once.
func (e *Engine) Serve(ctx context.Context) error {
	e.mu.Lock()
	if e.mu.serving {
		e.mu.Unlock()
		return ErrServing
	}
	e.mu.serving = true
	e.mu.Unlock()
	stop := context.AfterFunc(ctx, e.Close)
	defer stop()
	defer e.handlers.Wait()
	defer e.Close()
	for in := range e.run {
		if err := in.serve(); err != nil {
			return fmt.Errorf("engine %s: %w", e.opts.Name, err)
		}
	}
	return nil
}

// Close gives the port back. Only an engine that is not served needs it; Serve
// closes the engine at its end.
func (e *Engine) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.closed {
		return
	}
	e.mu.closed = true
	if e.mu.alive != nil {
		e.mu.alive.end(nil)
		e.mu.alive = nil
	}
	close(e.run)
	e.port.release()
}

// Kill ends the engine as a crash does: connections are refused from now on
// and the open ones reset. The port stays reserved. A dead engine stays dead.
func (e *Engine) Kill() { e.kill(nil) }

// kill spares the connection that asked for it, so that it gets its answer.
func (e *Engine) kill(spare net.Conn) {
	e.mu.Lock()
	in := e.mu.alive
	e.mu.alive = nil
	e.mu.Unlock()
	if in == nil {
		return
	}
	in.end(spare)
	// A restarted process has an empty cache.
	e.compute.cache.clear()
}

// Revive lets a dead engine live again, with an empty prefix cache. A living one
// is not changed.
func (e *Engine) Revive() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.closed {
		return fmt.Errorf("engine %s: %w", e.opts.Name, http.ErrServerClosed)
	}
	if e.mu.alive != nil {
		return nil
	}
	in, err := newIncarnation(e)
	if err != nil {
		return fmt.Errorf("engine %s: %w", e.opts.Name, err)
	}
	select {
	case <-e.run: // one that died before Serve came to it
	default:
	}
	e.run <- in
	e.mu.alive = in
	return nil
}

// Alive says whether the engine accepts connections.
func (e *Engine) Alive() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mu.alive != nil
}

// SetFaults replaces all faults. No argument: the engine works.
func (e *Engine) SetFaults(faults ...Fault) error { return e.faults.set(faults) }

// Reset makes the engine new: no fault, an empty prefix cache, all counts 0.
// Requests in progress go on.
func (e *Engine) Reset() {
	_ = e.faults.set(nil) // an empty list is never refused
	e.compute.cache.clear()
	e.seen.reset()
}

// Stats gives the counts since the start or the last Reset.
func (e *Engine) Stats() Stats {
	s := e.seen.stats()
	s.Name, s.Alive = e.opts.Name, e.Alive()
	s.Running, s.Waiting = e.compute.batch.counts()
	return s
}

// Last is the request that came last, faults included; false when none came
// since the start or the last Reset.
func (e *Engine) Last() (Last, bool) { return e.seen.last() }
