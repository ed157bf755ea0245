package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// tailBytes is how much of a child's output is kept to be shown when it dies.
	tailBytes = 8 << 10
	// stopLimit is how long a child may take to end when asked to.
	stopLimit = 15 * time.Second
)

// child is a process that the demo started.
type child struct {
	name  string
	cmd   *exec.Cmd
	log   *tail
	ended chan struct{} // closed when the process has ended
}

// startChild starts a program. What it prints is kept in its tail; its standard output goes
// to stdout as well, if not nil.
func startChild(name, path string, args []string, stdout io.Writer) (*child, error) {
	c := &child{name: name, log: new(tail), ended: make(chan struct{})}
	c.cmd = exec.Command(path, args...)
	c.cmd.Stdout, c.cmd.Stderr = c.log, c.log
	if stdout != nil {
		c.cmd.Stdout = io.MultiWriter(c.log, stdout)
	}
	// Its own process group, so that Ctrl-C reaches the demo only; killed with the demo.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	// A child of the child may hold the pipe open for ever.
	c.cmd.WaitDelay = time.Second
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = c.cmd.Wait() // ProcessState says it better
		close(c.ended)
	}()
	return c, nil
}

// stop asks the child to end, and kills it when it does not.
func (c *child) stop() {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // fails only if it has ended
	select {
	case <-c.ended:
	case <-time.After(stopLimit):
		_ = c.cmd.Process.Kill()
		<-c.ended
	}
}

// death says how the child ended, with the last lines it printed.
func (c *child) death() error {
	return fmt.Errorf("%s has ended unexpectedly (%v); it said last:\n%s", c.name, c.cmd.ProcessState, c.log.lines())
}

// watch ends ctx's work with the child's death when it dies first.
func (c *child) watch(ctx context.Context, cancel context.CancelCauseFunc) {
	select {
	case <-ctx.Done():
	case <-c.ended:
		cancel(c.death())
	}
}

// await looks again and again until ready says true; the child's death, the end of
// ctx and the limit end it with an error.
func (c *child) await(ctx context.Context, limit time.Duration, what string, ready func(context.Context) bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ready(ctx) {
		select {
		case <-c.ended:
			return c.death()
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("%s: %s after %v; it said last:\n%s", c.name, what, limit, c.log.lines())
			}
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// tail keeps the end of what is written to it.
type tail struct {
	mu struct {
		sync.Mutex
		text []byte
	}
}

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.text = append(t.mu.text, p...)
	if over := len(t.mu.text) - tailBytes; over > 0 {
		t.mu.text = append(t.mu.text[:0], t.mu.text[over:]...)
	}
	return len(p), nil
}

// lines gives the kept text, indented.
func (t *tail) lines() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimSpace(string(t.mu.text))
	if text == "" {
		return "    (nothing)"
	}
	return "    " + strings.ReplaceAll(text, "\n", "\n    ")
}

// firstLine hands over the first line written to it and drops the rest.
type firstLine struct {
	buf  []byte
	line chan []byte // takes one; nil is never sent
	done bool
}

func newFirstLine() *firstLine { return &firstLine{line: make(chan []byte, 1)} }

// maxFirstLine bounds a line that never ends.
const maxFirstLine = 64 << 10

// Write never fails.
func (f *firstLine) Write(p []byte) (int, error) {
	if f.done {
		return len(p), nil
	}
	f.buf = append(f.buf, p...)
	at := bytes.IndexByte(f.buf, '\n')
	if at >= 0 || len(f.buf) > maxFirstLine {
		f.done = true
		f.line <- f.buf[:max(0, at)]
	}
	return len(p), nil
}
