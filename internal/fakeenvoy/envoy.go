package fakeenvoy

import (
	"math"
	"net"
	"os"
	"path/filepath"
	"testing"

	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	alsv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Envoy is one connection to pointsman: one worker thread of Envoy.
type Envoy struct {
	// BodyMode is the request_body_mode of the filter; BUFFERED after Dial.
	BodyMode filterv3.ProcessingMode_BodySendMode
	// Observe is the observability_mode of the filter.
	Observe bool

	conn    *grpc.ClientConn
	extProc extprocv3.ExternalProcessorClient
	logs    alsv3.AccessLogServiceClient
}

// Dial gives an Envoy for the server at target, a gRPC name as Serve returns it. It
// connects at the first request.
func Dial(tb testing.TB, target string) *Envoy {
	tb.Helper()
	conn, err := grpc.NewClient(target,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32))) // Envoy has no limit
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	return &Envoy{
		BodyMode: filterv3.ProcessingMode_BUFFERED,
		conn:     conn,
		extProc:  extprocv3.NewExternalProcessorClient(conn),
		logs:     alsv3.NewAccessLogServiceClient(conn),
	}
}

// Close ends the connection and with it all streams, as a killed Envoy does.
func (e *Envoy) Close() error { return e.conn.Close() }

// maxMessage is the largest gRPC message that a server of Serve takes.
const maxMessage = 64 << 20

// Serve serves on a Unix socket until the test ends, and returns its gRPC name.
func Serve(tb testing.TB, services ...interface{ Register(grpc.ServiceRegistrar) }) string {
	tb.Helper()
	// Not TempDir: with the name of the test in it the path may be too long for a socket.
	dir, err := os.MkdirTemp("", "pm")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	lis, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		tb.Fatal(err)
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage))
	for _, s := range services {
		s.Register(server)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(lis) }()
	tb.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			tb.Errorf("serve: %v", err)
		}
	})
	return "unix:" + lis.Addr().String()
}
