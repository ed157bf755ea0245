package outcome

import (
	"context"
	"errors"
	"io"
	"time"

	logv3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	alsv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pointsman/pointsman/internal/ledger"
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
}

// Server is the access-log service.
type Server struct {
	alsv3.UnimplementedAccessLogServiceServer

	ledger Ledger
}

// New gives a server.
func New(opts Options) *Server { return &Server{ledger: opts.Ledger} }

// Register adds the service to a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) { alsv3.RegisterAccessLogServiceServer(r, s) }

// StreamAccessLogs reads the entries of one log stream until Envoy ends it.
func (s *Server) StreamAccessLogs(stream alsv3.AccessLogService_StreamAccessLogsServer) error {
	var (
		in      alsv3.StreamAccessLogsMessage
		take    func(*logv3.HTTPAccessLogEntry, *ledger.Attempt)
		attempt ledger.Attempt // reused by all entries
	)
	for first := true; ; first = false {
		if err := stream.RecvMsg(&in); err != nil {
			return ended(stream, err)
		}
		if first {
			take = s.reader(in.GetIdentifier().GetLogName())
		}
		if take == nil {
			continue
		}
		for _, e := range in.GetHttpLogs().GetLogEntry() {
			if final(e) {
				take(e, &attempt)
			}
		}
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

// reader gives what reads the entries of the log of this name, nil if it is none of
// ours.
func (s *Server) reader(log string) func(*logv3.HTTPAccessLogEntry, *ledger.Attempt) {
	switch log {
	case wire.LogAttempt:
		return func(e *logv3.HTTPAccessLogEntry, a *ledger.Attempt) {
			readAttempt(e, time.Now(), a)
			s.ledger.AttemptEnded(a)
		}
	case wire.LogRequest:
		return func(e *logv3.HTTPAccessLogEntry, _ *ledger.Attempt) {
			if a, ok := readAnswer(e); ok {
				s.ledger.AnsweredByProxy(a)
			}
		}
	}
	return nil
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
