package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// simulatorLimit is how long enginesim may take to open its ports.
	simulatorLimit = 10 * time.Second
	// readyLimit is how long pointsman and Envoy may take to be ready.
	readyLimit = 30 * time.Second
)

// stage is everything that stands around the replay.
type stage struct {
	dir       string
	simulator *child
	proxy     *child // pointsman, and Envoy below it

	target  string // base URL of Envoy's listener
	admin   string // base URL of pointsman's admin listener
	control string // base URL of enginesim's control port
}

// build starts everything and waits until it is ready. Whatever it returns,
// the caller must strike the stage.
func (s *stage) build(ctx context.Context, o options, routes []route) error {
	var err error
	if s.dir, err = os.MkdirTemp(o.tempDir, "pointsman-demo-"); err != nil {
		return err
	}
	addrs, err := s.startSimulator(ctx, o.enginesim, routes)
	if err != nil {
		return err
	}
	ports, err := freeAddrs(2)
	if err != nil {
		return err
	}
	s.target, s.admin = "http://"+ports[0], "http://"+ports[1]
	path := filepath.Join(s.dir, "pointsman.yaml")
	text := configuration(s.dir, ports[0], ports[1], routes, addrs)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	if s.proxy, err = startChild("pointsman", o.pointsman, []string{"run", "--config", path, "--envoy", o.envoy}, nil); err != nil {
		return err
	}
	return s.proxy.await(ctx, readyLimit, "not ready", func(ctx context.Context) bool {
		return request(ctx, http.MethodGet, s.admin+"/readyz") == nil
	})
}

// strike ends all children and removes the folder.
func (s *stage) strike() error {
	for _, c := range []*child{s.proxy, s.simulator} {
		if c != nil {
			c.stop()
		}
	}
	if s.dir == "" {
		return nil
	}
	return os.RemoveAll(s.dir)
}

// startSimulator starts the engines of all routes and gives their addresses by name.
func (s *stage) startSimulator(ctx context.Context, path string, routes []route) (map[string]string, error) {
	var args []string
	for _, r := range routes {
		for _, e := range r.engines {
			args = append(args, "--engine", e.simulator())
		}
	}
	out := newFirstLine()
	var err error
	if s.simulator, err = startChild("enginesim", path, args, out); err != nil {
		return nil, err
	}
	var line []byte
	err = s.simulator.await(ctx, simulatorLimit, "no ports", func(context.Context) bool {
		select {
		case line = <-out.line:
			return true
		default:
			return false
		}
	})
	if err != nil {
		return nil, err
	}
	var ready struct {
		Control string
		Engines []struct{ Name, Addr string }
	}
	if err := json.Unmarshal(line, &ready); err != nil {
		return nil, fmt.Errorf("enginesim: its first line %q: %w", line, err)
	}
	s.control = "http://" + ready.Control
	addrs := make(map[string]string)
	for _, e := range ready.Engines {
		addrs[e.Name] = e.Addr
	}
	return addrs, nil
}

// command tells an engine to die ("kill") or to live ("revive").
func (s *stage) command(ctx context.Context, engine, what string) error {
	if err := request(ctx, http.MethodPost, s.control+"/engines/"+engine+"/"+what); err != nil {
		return fmt.Errorf("%s %s: %w", what, engine, err)
	}
	return nil
}

// requestLimit bounds a request to an admin or control port.
const requestLimit = 5 * time.Second

// request expects 200.
func request(ctx context.Context, method, url string) error {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		return err
	}
	req.Close = true // nothing is kept open for the next one
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: status %d", url, res.StatusCode)
	}
	return nil
}

// configuration is pointsman's configuration file.
func configuration(dir, listener, admin string, routes []route, addrs map[string]string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("listen:")
	line("  grpc: %q", "unix://"+filepath.Join(dir, "grpc.sock"))
	line("  admin: %q", admin)
	line("envoy:")
	line("  listener: %q", listener)
	line("  admin: \"off\"")
	line("log: {format: text, level: warn}")
	line("drain: {timeout: 1s} # at the end nothing is left to wait for")
	line("providers:")
	for _, r := range routes {
		for _, e := range r.engines {
			line("  - {name: %s, kind: vllm, url: %q}", e.name, "http://"+addrs[e.name])
		}
	}
	line("routes:")
	for _, r := range routes {
		line("  - model: %s", r.model)
		line("    strategy: %s", r.strategy)
		line("    targets:")
		for _, e := range r.engines {
			line("      - {provider: %s, model: %s}", e.name, upstreamModel)
		}
	}
	return b.String()
}

// freeAddrs gives loopback addresses with free ports. Another process may take
// one before it is used; then pointsman says so and ends.
func freeAddrs(n int) (addrs []string, err error) {
	for range n {
		ln, listenErr := net.Listen("tcp", "127.0.0.1:0")
		if listenErr != nil {
			return nil, listenErr
		}
		// All stay open until the last is found, so that they differ.
		defer func(c io.Closer) { err = errors.Join(err, c.Close()) }(ln)
		addrs = append(addrs, ln.Addr().String())
	}
	return addrs, nil
}
