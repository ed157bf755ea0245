package enginesim

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// incarnation is the engine between start and death: one listener, one HTTP
// server and its connections.
type incarnation struct {
	engine *Engine
	ln     net.Listener
	server *http.Server
	cancel context.CancelFunc // of every request

	mu struct {
		sync.Mutex
		dead  bool
		conns map[net.Conn]struct{}
	}
}

// maxStreams is what an HTTP/2 connection may carry at once; Envoy opens few.
const maxStreams = 1 << 16

// headerTimeout closes connections that never finish a request's headers.
const headerTimeout = time.Minute

func newIncarnation(e *Engine) (*incarnation, error) {
	ln, err := e.port.listen()
	if err != nil {
		return nil, err
	}
	in := &incarnation{engine: e, ln: ln}
	in.mu.conns = make(map[net.Conn]struct{})
	base, cancel := context.WithCancel(context.WithValue(context.Background(), incarnationKey{}, in))
	in.cancel = cancel
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	in.server = &http.Server{
		Handler:           e,
		Protocols:         protocols,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ReadHeaderTimeout: headerTimeout,
		BaseContext:       func(net.Listener) context.Context { return base },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
		ConnState: in.track,
	}
	return in, nil
}

// connKey and incarnationKey find what serves a request in its context.
type (
	connKey        struct{}
	incarnationKey struct{}
)

// serve answers until the incarnation ends.
func (in *incarnation) serve() error {
	err := in.server.Serve(in.ln)
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.mu.dead {
		return nil
	}
	return err
}

// track keeps the set of open connections. One that was accepted while the
// engine died is reset here.
func (in *incarnation) track(c net.Conn, state http.ConnState) {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch state {
	case http.StateNew:
		if in.mu.dead {
			abort(c)
			return
		}
		in.mu.conns[c] = struct{}{}
	case http.StateClosed, http.StateHijacked:
		delete(in.mu.conns, c)
	case http.StateActive, http.StateIdle:
	}
}

// end closes the listener and resets all connections but spare.
func (in *incarnation) end(spare net.Conn) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.mu.dead = true
	_ = in.ln.Close() // already closed is as good
	for c := range in.mu.conns {
		if c != spare {
			abort(c)
		}
	}
	// After the connections: a request that ended first would still close its
	// answer in good order.
	in.cancel()
}

// isDead says that the incarnation has ended; nil, a request without a
// connection, never does.
func (in *incarnation) isDead() bool {
	if in == nil {
		return false
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.mu.dead
}

// abort closes a connection with a TCP reset, as the kernel does for a dead process.
func abort(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // fails only on a closed connection
	}
	_ = c.Close()
}
