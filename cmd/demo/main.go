// Command demo shows what cache-aware routing does: it plays one piece of a real
// trace to two routes at once, through one Envoy and one pointsman, and kills engines on the
// way. `make demo` runs it.
//
// It starts everything itself: cmd/enginesim with two disjoint sets of three
// engines of different speed, and `pointsman run` with a configuration of two routes, one
// cache_aware and one round_robin, which in turn starts Envoy. Every request goes to both routes
// at the same moment, whatever became of those before it (open loop). A table shows what the
// client saw; a summary at the end compares.
//
// A request is lost when the client got no answer: no response headers, or an
// error instead. That must not happen, not even when an engine dies: it makes the exit code 1.
// A stream that the dead engine had begun cannot be saved; it counts as cut, apart. A
// stream cut on a living engine makes the exit code 1, too.
//
// DEMO_SECONDS=n ends it after n seconds, Ctrl-C at any time. Nothing is left behind.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

func main() {
	// The children die with the thread that started them, so this one must stay.
	runtime.LockOSThread()
	opts, err := parse(os.Args[1:], os.Getenv, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	// A second Ctrl-C while the children are stopped ends at once: they die with us.
	context.AfterFunc(ctx, stop)
	err = run(ctx, opts, newScreen(os.Stdout))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// options are what the command line and the environment say.
type options struct {
	pointsman, enginesim, envoy string        // programs
	length                      time.Duration // 0 = until Ctrl-C
	tempDir                     string        // where the demo's folder is made, "" = the system's choice
}

// parse reads flags and DEMO_SECONDS. The programs are looked for beside this
// one, Envoy is named by $ENVOY_BIN.
func parse(args []string, getenv func(string) string, stderr io.Writer) (options, error) {
	var o options
	beside := func(name string) string {
		self, err := os.Executable()
		if err != nil {
			return name
		}
		return filepath.Join(filepath.Dir(self), name)
	}
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.pointsman, "pointsman", beside("pointsman"), "the pointsman `program`")
	flags.StringVar(&o.enginesim, "enginesim", beside("enginesim"), "the enginesim `program`")
	flags.StringVar(&o.envoy, "envoy", getenv("ENVOY_BIN"), "the Envoy `program`, default $ENVOY_BIN")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if o.envoy == "" {
		return o, errors.New("no Envoy: name it by --envoy or $ENVOY_BIN")
	}
	if text := getenv("DEMO_SECONDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return o, fmt.Errorf("DEMO_SECONDS=%s is not a number of seconds", text)
		}
		o.length = time.Duration(n) * time.Second
	}
	return o, nil
}
