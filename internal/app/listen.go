package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/pointsman/pointsman/internal/config"
)

const (
	// roomyBody is the least body size that the gRPC server is made for, so that a
	// reload which raises limits.body rarely needs a restart.
	roomyBody = 64 << 20
	// aroundBody is what a message may hold besides the body: headers and
	// attributes.
	aroundBody = 1 << 20
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
	// dialTimeout bounds the question whether a socket file has an owner.
	dialTimeout = time.Second
)

// NewGRPCServer gives the server of ext_proc, xDS and the access log, without
// services, for bodies of at most so many bytes.
func NewGRPCServer(maxBody int64) *grpc.Server {
	return grpc.NewServer(
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(int(maxBody)+aroundBody),
		grpc.InitialWindowSize(streamWindow),
		grpc.InitialConnWindowSize(connWindow),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepAliveAfter, Timeout: keepAliveTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingsAllowed, PermitWithoutStream: true}),
	)
}

// listenGRPC opens the listener of ext_proc, xDS and the access log. A socket
// file that nobody listens on is a left-over and is replaced.
func listenGRPC(l config.Listen) (net.Listener, error) {
	if l.GRPC.Network != "unix" {
		lis, err := net.Listen(l.GRPC.Network, l.GRPC.Addr)
		if err != nil {
			return nil, fmt.Errorf("listen.grpc: %w", err)
		}
		return lis, nil
	}
	path := l.GRPC.Addr
	switch st, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("listen.grpc: %w", err)
	case st.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("listen.grpc: %s exists and is no socket", path)
	default:
		if c, err := net.DialTimeout("unix", path, dialTimeout); err == nil {
			_ = c.Close()
			return nil, fmt.Errorf("listen.grpc: another process listens on %s", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("listen.grpc: left-over socket: %w", err)
		}
	}
	lis, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen.grpc: %w", err)
	}
	if err := os.Chmod(path, fs.FileMode(l.SocketMode)); err != nil {
		_ = lis.Close()
		return nil, fmt.Errorf("listen.grpc: %w", err)
	}
	return lis, nil
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

// nodePart makes a node id fit for a header: every character other than
// [a-z0-9-] becomes "-".
func nodePart(id string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, id)
}
