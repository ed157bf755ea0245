package outcome

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime/debug"
	"time"

	logv3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	alsv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pointsman/pointsman/internal/ledger"
	"github.com/pointsman/pointsman/internal/notice"
	"github.com/pointsman/pointsman/internal/wire"
)

// Ledger hears what happened. Its methods are called from the goroutines of all
// streams and do not block.
type Ledger interface {
	// AttemptEnded applies the outcome of an attempt. It does not keep a.
	AttemptEnded(a *ledger.Attempt)
	// AnsweredByProxy takes the final status of a request whose answer no upstream
	// made, or did not finish.
	AnsweredByProxy(a ledger.Answer)
}

// Options are what a Server needs.
type Options struct {
	Ledger Ledger
	Log    *slog.Logger
}

// Server is the access-log service.
type Server struct {
	alsv3.UnimplementedAccessLogServiceServer

	opts     Options
	panicked notice.Notice
}

// New gives a server.
func New(opts Options) *Server { return &Server{opts: opts} }

// Register adds the service to a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) { alsv3.RegisterAccessLogServiceServer(r, s) }

// StreamAccessLogs reads the entries of one log stream until Envoy ends it.
func (s *Server) StreamAccessLogs(stream alsv3.AccessLogService_StreamAccessLogsServer) error {
	var (
		in      alsv3.StreamAccessLogsMessage
		log     string         // its name
		attempt ledger.Attempt // reused by all entries
	)
	for first := true; ; first = false {
		if err := stream.RecvMsg(&in); err != nil {
			return ended(stream, err)
		}
		if first {
			log = in.GetIdentifier().GetLogName()
		}
		for _, e := range in.GetHttpLogs().GetLogEntry() {
			if final(e) {
				s.read(log, e, &attempt)
			}
		}
	}
}

// read tells the ledger what an entry of the log of this name says. A log that is none of
// ours says nothing. The entry is lost when the ledger or a balancer panics over it, the
// process is not.
func (s *Server) read(log string, e *logv3.HTTPAccessLogEntry, attempt *ledger.Attempt) {
	defer func() {
		if p := recover(); p != nil {
			s.reportPanic(p)
		}
	}()
	switch log {
	case wire.LogAttempt:
		readAttempt(e, time.Now(), attempt)
		s.opts.Ledger.AttemptEnded(attempt)
	case wire.LogRequest:
		if a, ok := readAnswer(e); ok {
			s.opts.Ledger.AnsweredByProxy(a)
		}
	}
}

// reportPanic says that the handling of an entry panicked.
func (s *Server) reportPanic(p any) {
	if n, ok := s.panicked.Due(time.Now()); ok {
		s.opts.Log.Error("a log entry of a proxy caused a panic and was given up",
			slog.String("panic", notice.Panic(p)), slog.String("stack", string(debug.Stack())), slog.Int("not_logged", n))
	}
}

// final tells whether an entry is about an end. Envoy can also be told to write entries in
// between.
func final(e *logv3.HTTPAccessLogEntry) bool {
	switch e.GetCommonProperties().GetAccessLogType() {
	case logv3.AccessLogType_NotSet, logv3.AccessLogType_DownstreamEnd, logv3.AccessLogType_UpstreamEnd:
		return true
	}
	return false
}

// ended gives the status of a stream that can be read no more. That Envoy ended it, in
// whatever way, is no error.
func ended(stream alsv3.AccessLogService_StreamAccessLogsServer, err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return stream.SendAndClose(&alsv3.StreamAccessLogsResponse{})
	case errors.Is(err, context.Canceled), status.Code(err) == codes.Canceled:
		return nil
	}
	return err
}
