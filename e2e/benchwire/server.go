package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pointsman/pointsman/internal/app"
)

const (
	// readyWithin bounds the start of a server.
	readyWithin = 10 * time.Second
	// clockTick is the unit of CPU times in /proc, 1/100 s on Linux.
	clockTick = 10 * time.Millisecond
	targets   = 8
	// maxBody is what the no-op server takes.
	maxBody = 64 << 20
)

// serve is the child: a no-op processor, or pointsman.
func serve(kind, socket, profile string) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	if profile != "" {
		f, err := os.Create(profile)
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	if kind == "noop" {
		lis, err := net.Listen("unix", socket)
		if err != nil {
			return err
		}
		// As anybody would write it; what pointsman tunes of gRPC is part of what is compared.
		s := grpc.NewServer(grpc.MaxRecvMsgSize(maxBody))
		extprocv3.RegisterExternalProcessorServer(s, noop{})
		go func() { <-signals; s.Stop() }()
		return s.Serve(lis)
	}
	path := filepath.Join(filepath.Dir(socket), "pointsman.yaml")
	if err := os.WriteFile(path, []byte(configuration(socket)), 0o600); err != nil {
		return err
	}
	a, err := app.New(app.Options{
		ConfigPath: path, NodeID: "bench", Build: app.Build{Version: "bench", Go: runtime.Version()},
		Stderr: os.Stderr, Signals: signals,
	})
	if err != nil {
		return err
	}
	return a.Run(context.Background())
}

func configuration(socket string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "listen: {grpc: %q, admin: \"127.0.0.1:0\"}\nenvoy: {clusters: external}\nlog: {level: warn}\nproviders:\n", "unix://"+socket)
	for i := range targets {
		fmt.Fprintf(&b, "  - {name: gpu-%d, kind: vllm, url: \"http://127.0.0.1:%d\", cluster: gpu-%d}\n", i, 8000+i, i)
	}
	b.WriteString("routes:\n  - model: bench\n    strategy: cache_aware\n    targets:\n")
	for i := range targets {
		fmt.Fprintf(&b, "      - {provider: gpu-%d}\n", i)
	}
	return b.String()
}

// noop answers "continue" to everything: the floor of any ext_proc server.
type noop struct {
	extprocv3.UnimplementedExternalProcessorServer
}

func (noop) Process(s extprocv3.ExternalProcessor_ProcessServer) error {
	for {
		in, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		out := &extprocv3.ProcessingResponse{}
		switch in.Request.(type) {
		case *extprocv3.ProcessingRequest_RequestHeaders:
			out.Response = &extprocv3.ProcessingResponse_RequestHeaders{RequestHeaders: &extprocv3.HeadersResponse{}}
		case *extprocv3.ProcessingRequest_RequestBody:
			out.Response = &extprocv3.ProcessingResponse_RequestBody{RequestBody: &extprocv3.BodyResponse{}}
		default:
			return nil
		}
		if err := s.Send(out); err != nil {
			return err
		}
	}
}

// server is a running child and the client's connections to it.
type server struct {
	cmd   *exec.Cmd
	conns []*grpc.ClientConn
}

// connections stand for Envoy's worker threads, of which each has its own.
const connections = 2

func start(ctx context.Context, dir, kind, profile string) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	home, err := os.MkdirTemp(dir, kind)
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(home, "s")
	cmd := exec.Command(self, "-serve", kind, "-socket", socket, "-cpuprofile", profile)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &server{cmd: cmd}
	for range connections {
		c, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			s.stop()
			return nil, err
		}
		s.conns = append(s.conns, c)
	}
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	for _, c := range s.conns {
		stream, err := extprocv3.NewExternalProcessorClient(c).Process(ctx, grpc.WaitForReady(true))
		if err != nil {
			s.stop()
			return nil, fmt.Errorf("%s does not come up: %w", kind, err)
		}
		if err := stream.CloseSend(); err != nil {
			s.stop()
			return nil, err
		}
		_, _ = stream.Recv() // the end of a stream that asked nothing
	}
	return s, nil
}

func (s *server) stop() {
	for _, c := range s.conns {
		_ = c.Close()
	}
	_ = s.cmd.Process.Signal(syscall.SIGINT)
	_ = s.cmd.Wait()
}

// cpu is the CPU time that the child has used, user and system.
func (s *server) cpu() (time.Duration, error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(s.cmd.Process.Pid) + "/stat")
	if err != nil {
		return 0, err
	}
	// The second field, the program's name, ends at the last ")"; utime and stime are fields 14 and 15.
	f := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	var ticks int64
	for _, field := range f[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}
