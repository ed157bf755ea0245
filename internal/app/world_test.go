package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pointsman/pointsman/internal/fakeenvoy"
)

// patience bounds every wait: longer than anything takes on a loaded machine.
const patience = 30 * time.Second

// After all tests no goroutine is left.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// buffer is what an App writes to.
type buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// line is a line of the log.
type line map[string]any

// lines gives the lines with this message.
func (b *buffer) lines(msg string) []line {
	var found []line
	for text := range strings.Lines(b.String()) {
		var l line
		if json.Unmarshal([]byte(text), &l) == nil && l["msg"] == msg {
			found = append(found, l)
		}
	}
	return found
}

// world is an App with its configuration file, and all that an operator has of it.
type world struct {
	*testing.T
	dir, path, socket string

	out     buffer
	signals chan os.Signal
	app     *App
	admin   string // http://host:port
	ended   chan error
}

// shortDir is a folder whose path leaves room for the name of a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pm-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, dir: shortDir(t), signals: make(chan os.Signal, 4), ended: make(chan error, 1)}
	w.path, w.socket = filepath.Join(w.dir, "pointsman.yaml"), filepath.Join(w.dir, "grpc.sock")
	return w
}

const (
	external = "envoy: {clusters: external}\n"
	// twoTargets is all that a configuration needs besides.
	twoTargets = `providers:
  - {name: a, url: "http://127.0.0.1:1", cluster: one}
  - {name: b, url: "http://127.0.0.1:2", cluster: two}
routes:
  - {model: m, targets: [{provider: a}, {provider: b}]}
`
	oneTarget = `providers:
  - {name: a, url: "http://127.0.0.1:1", cluster: one}
routes:
  - {model: m, targets: [{provider: a}]}
`
)

// write puts this configuration, which says nothing of listen, in the place of the last.
func (w *world) write(body string) {
	w.Helper()
	w.replace(fmt.Sprintf("listen: {grpc: \"unix://%s\", admin: \"127.0.0.1:0\"}\n%s", w.socket, body))
}

func (w *world) replace(text string) {
	w.Helper()
	tmp := w.path + ".new"
	if err := os.WriteFile(tmp, []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
	if err := os.Rename(tmp, w.path); err != nil {
		w.Fatal(err)
	}
}

func (w *world) options() Options {
	return Options{
		ConfigPath: w.path, NodeID: "Node 1", Build: Build{Version: "v1", Revision: "r", Go: "go1"},
		Stderr: &w.out, Signals: w.signals,
	}
}

func (w *world) start() { w.startWith(w.options()) }

// startWith starts an App that is ended with the test at the latest.
func (w *world) startWith(opts Options) {
	w.Helper()
	a, err := New(opts)
	if err != nil {
		w.Fatal(err)
	}
	w.app, w.admin = a, "http://"+a.adminLis.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.ended <- a.Run(ctx)
	}()
	w.Cleanup(func() {
		cancel()
		<-done
		if w.Failed() {
			w.Logf("log:\n%s", w.out.String())
		}
	})
}

// wait gives what Run returned.
func (w *world) wait() error {
	w.Helper()
	select {
	case err := <-w.ended:
		return err
	case <-time.After(patience):
		w.Fatal("it does not end")
		return nil
	}
}

// get gives the status and body of a page of the admin listener.
func (w *world) get(path string) (int, string) {
	w.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	resp, err := client.Get(w.admin + path)
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		w.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// metric gives the value of a series, named with its labels, or -1.
func (w *world) metric(series string) float64 {
	w.Helper()
	_, body := w.get("/metrics")
	for text := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(text, series+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				w.Fatal(err)
			}
			return v
		}
	}
	return -1
}

// eventually waits until f gives nil.
func (w *world) eventually(what string, f func() error) {
	w.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			w.Fatalf("%s: %v", what, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// becomes waits until a series has a value.
func (w *world) becomes(series string, want float64) {
	w.Helper()
	w.eventually(series, func() error {
		if got := w.metric(series); got != want {
			return fmt.Errorf("%g, want %g", got, want)
		}
		return nil
	})
}

// hangUp sends SIGHUP and waits until the file was read because of it.
func (w *world) hangUp() {
	w.Helper()
	w.signals <- syscall.SIGHUP
	w.signals <- syscall.SIGHUP // taken when the first has been handled
	w.eventually("SIGHUP is heard", func() error {
		if len(w.signals) > 0 {
			return errors.New("not yet")
		}
		return nil
	})
}

// envoy is a proxy that is connected to the App.
func (w *world) envoy() *fakeenvoy.Envoy { return fakeenvoy.Dial(w.T, "unix:"+w.socket) }

// ask plays a request of this model.
func (w *world) ask(e *fakeenvoy.Envoy, model string) *fakeenvoy.Exchange {
	w.Helper()
	x, err := e.Ask(w.Context(), fakeenvoy.Request{Body: fmt.Appendf(nil, `{"model":%q,"messages":[{"role":"user","content":"hi"}]}`, model)})
	if err != nil {
		w.Fatal(err)
	}
	return x
}
