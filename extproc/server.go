package extproc

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pointsman/pointsman/internal/ledger"
	"github.com/pointsman/pointsman/internal/notice"
	"github.com/pointsman/pointsman/internal/request"
	"github.com/pointsman/pointsman/internal/routing"
)

// Router gives decisions. It is called from the goroutines of all streams.
type Router interface {
	// Snapshot gives the configuration in force. It never blocks.
	Snapshot() *routing.Snapshot
	// Decide chooses for a request. It may block as long as ctx lives. The
	// error is a *routing.Refusal, or that of ctx. The decision refers to nothing
	// of q.
	Decide(ctx context.Context, s *routing.Snapshot, q *request.Request, caller string) (*routing.Decision, error)
}

// Ledger keeps the open decisions. Its methods never block.
type Ledger interface {
	// Open takes over a decision and gives it its id. The decision may be read until
	// StreamEnded is called with its number.
	Open(d *routing.Decision)
	// StreamEnded is called exactly once for every decision that was opened.
	StreamEnded(number uint64)
	// Refused counts an answer that was given instead of a decision.
	Refused(a ledger.Answer)
}

// Options are what a Server needs.
type Options struct {
	Router Router
	Ledger Ledger
	Log    *slog.Logger
	// Start is the start of the process, the creation time of all models.
	Start time.Time
	// External says that the clusters are the user's own: then the proxy's
	// configuration, not pointsman, decides about the client's credentials, and
	// nobody has stripped the headers that a client may not set.
	External bool
	// Chained tells whether every proxy can give each target a model of its own; nil =
	// always. Shortly after a reload that asks for it the first time, they cannot yet.
	Chained func() bool
}

// Server is the external processor.
type Server struct {
	extprocv3.UnimplementedExternalProcessorServer

	opts      Options
	prepared  atomic.Pointer[prepared]
	preparing sync.Mutex
	scratch   sync.Pool // of *scratch
	empty     empty

	open    atomic.Int64 // requests
	lastEnd atomic.Int64 // of a request, Unix ns; that of the start as long as there was none

	misconfigured, panicked notice.Notice
}

// New gives a server.
func New(opts Options) *Server {
	s := &Server{opts: opts, empty: newEmpty()}
	s.lastEnd.Store(time.Now().UnixNano())
	return s
}

// Register adds the service to a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	extprocv3.RegisterExternalProcessorServer(r, s)
}

// Process holds one conversation. Envoy may end it at any point, by half-closing
// or by resetting the stream; both are normal.
func (s *Server) Process(stream extprocv3.ExternalProcessor_ProcessServer) error {
	s.open.Add(1)
	defer s.ended()
	c := &conversation{server: s}
	defer c.end()
	in := &extprocv3.ProcessingRequest{}
	for {
		if err := stream.RecvMsg(in); err != nil {
			return streamError(err)
		}
		out, last, err := c.answer(stream.Context(), in)
		// A stream waits for its end as long as an answer runs: it must not
		// keep the body alive.
		in.Reset()
		if err != nil {
			return streamError(err)
		}
		if out == nil {
			continue
		}
		err = stream.SendMsg(out)
		c.sent()
		if err != nil || last {
			return streamError(err)
		}
	}
}

func (s *Server) ended() {
	s.lastEnd.Store(time.Now().UnixNano()) // before the count: who reads 0 finds this end, or a later one
	s.open.Add(-1)
}

// Idle tells how many requests are open, from their headers, before there is a
// decision, to the end of their answer; and when the last one ended.
func (s *Server) Idle() (open int64, last time.Time) {
	return s.open.Load(), time.Unix(0, s.lastEnd.Load())
}

// streamError makes the status of a stream of what ended it. That Envoy ended it is
// none.
func streamError(err error) error {
	switch {
	case err == nil, errors.Is(err, io.EOF), errors.Is(err, context.Canceled), status.Code(err) == codes.Canceled:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	}
	return err
}
