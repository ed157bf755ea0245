// Command enginesim serves simulated inference engines: see internal/enginesim
// for what they simulate and for the control port.
//
// It prints one line of JSON when all its ports are open, and runs until it is
// told to end:
//
//	$ enginesim --engine name=a,prefill=8000,decode=60,batch=16 --engine name=b
//	{"control":"127.0.0.1:40001","engines":[{"name":"a","addr":"127.0.0.1:40002"},{"name":"b","addr":"127.0.0.1:40003"}]}
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/pointsman/pointsman/internal/enginesim"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "enginesim:", err)
		os.Exit(1)
	}
}

// errUsage says that the flags were wrong and the usage has been printed.
var errUsage = errors.New("usage")

// ready is the line that is printed when all ports are open.
type ready struct {
	Control string        `json:"control"`
	Engines []readyEngine `json:"engines"`
}

type readyEngine struct {
	Name string `json:"name"`
	Addr string `json:"addr"`
}

// run serves the engines of the flags until ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var specs engineFlags
	flags := flag.NewFlagSet("enginesim", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Var(&specs, "engine", engineUsage)
	controlAddr := flags.String("control", "127.0.0.1:0", "`address` of the control port")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return errUsage
	}
	if flags.NArg() > 0 || len(specs) == 0 {
		fmt.Fprintln(stderr, "enginesim needs at least one --engine and no other arguments")
		flags.Usage()
		return errUsage
	}
	engines := make([]*enginesim.Engine, 0, len(specs))
	defer func() {
		for _, e := range engines {
			e.Close()
		}
	}()
	line := ready{Engines: make([]readyEngine, 0, len(specs))}
	for _, opts := range specs {
		e, err := enginesim.New(opts)
		if err != nil {
			return err
		}
		engines = append(engines, e)
		line.Engines = append(line.Engines, readyEngine{Name: e.Name(), Addr: e.Addr()})
	}
	control, err := (&net.ListenConfig{}).Listen(ctx, "tcp", *controlAddr)
	if err != nil {
		return fmt.Errorf("control port: %w", err)
	}
	line.Control = control.Addr().String()
	if err := json.NewEncoder(stdout).Encode(line); err != nil {
		return errors.Join(err, control.Close())
	}
	return serve(ctx, engines, control)
}

// controlTimeout bounds the headers of a request to the control port.
const controlTimeout = 10 * time.Second

// serve runs everything until ctx ends or one part fails.
func serve(ctx context.Context, engines []*enginesim.Engine, control net.Listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	server := &http.Server{Handler: enginesim.Control(engines...), ReadHeaderTimeout: controlTimeout}
	var wg sync.WaitGroup
	var failed error
	var once sync.Once
	run := func(f func() error) {
		wg.Go(func() {
			if err := f(); err != nil {
				once.Do(func() { failed = err })
				cancel(err)
			}
		})
	}
	for _, e := range engines {
		run(func() error { return e.Serve(ctx) })
	}
	run(func() error {
		if err := server.Serve(control); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("control port: %w", err)
		}
		return nil
	})
	<-ctx.Done()
	_ = server.Close() // nothing there is worth waiting for
	wg.Wait()
	return failed
}
