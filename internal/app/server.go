package app

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

const (
	// maxMessage bounds one message: the largest limits.body that the configuration
	// allows, and headers and attributes. The limit in force is Envoy's, which buffers the
	// body first; a lower one here would refuse what a reload has allowed.
	maxMessage = 1<<30 + 1<<20
	// keepAliveAfter and keepAliveTimeout make a peer that answers nothing count as
	// ended after 30 s.
	keepAliveAfter   = 20 * time.Second
	keepAliveTimeout = 10 * time.Second
	// pingsAllowed is the least time between a peer's own pings; the bootstrap asks
	// Envoy for one every 10 s.
	pingsAllowed = 5 * time.Second
	// streamWindow lets a body of usual size arrive without waiting for a window
	// update; connWindow is that of all streams of a connection together.
	streamWindow = 1 << 20
	connWindow   = 16 << 20
)

// NewGRPCServer gives the server of ext_proc, xDS and the access log, without
// services.
func NewGRPCServer() *grpc.Server {
	return grpc.NewServer(
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.InitialWindowSize(streamWindow),
		grpc.InitialConnWindowSize(connWindow),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepAliveAfter, Timeout: keepAliveTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingsAllowed, PermitWithoutStream: true}),
		grpc.WaitForHandlers(true), // at the end every open request is released
	)
}

// serveGRPC serves until ctx ends. Answers that Envoy is still giving go on
// without us.
func (a *App) serveGRPC(ctx context.Context) error {
	stop := context.AfterFunc(ctx, a.grpc.Stop)
	defer stop()
	if err := a.grpc.Serve(a.grpcLis); err != nil && ctx.Err() == nil {
		return fmt.Errorf("gRPC listener: %w", err)
	}
	return nil
}
