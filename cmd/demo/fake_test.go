package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestMain lets the test binary play pointsman: called as `<binary> run --config F --envoy
// MODE` it serves the configuration without an Envoy, and MODE says how it fares.
func TestMain(m *testing.M) {
	if len(os.Args) == 6 && os.Args[1] == "run" {
		if err := fakePointsman(os.Args[3], os.Args[5]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// fakePointsman proxies each model to its targets in rotation, and to the next
// one when a target gives no response headers.
func fakePointsman(path, mode string) error {
	if mode == "broken" {
		return fmt.Errorf("%s: envoy: no such thing", path)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var c struct {
		Listen    struct{ Admin string }
		Envoy     struct{ Listener string }
		Providers []struct{ Name, URL string }
		Routes    []struct {
			Model   string
			Targets []struct{ Provider string }
		}
	}
	if err := yaml.Unmarshal(raw, &c); err != nil {
		return err
	}
	urls := make(map[string]string)
	for _, p := range c.Providers {
		urls[p.Name] = p.URL
	}
	routes := make(map[string][]string)
	for _, r := range c.Routes {
		for _, t := range r.Targets {
			routes[r.Model] = append(routes[r.Model], urls[t.Provider])
		}
	}
	failed := make(chan error, 2)
	admin := http.NewServeMux()
	admin.HandleFunc("GET /readyz", func(http.ResponseWriter, *http.Request) {})
	go func() { failed <- http.ListenAndServe(c.Listen.Admin, admin) }()
	var turn atomic.Int64
	proxy := func(w http.ResponseWriter, r *http.Request) {
		n := turn.Add(1)
		switch {
		case mode == "dies" && n > 20:
			fmt.Fprintln(os.Stderr, "fatal: the roof is on fire")
			os.Exit(3)
		case mode == "loses" && n == 5:
			w.WriteHeader(http.StatusBadGateway)
			return
		case mode == "cuts" && n == 5:
			w = &cutter{ResponseWriter: w}
		}
		forward(w, r, routes, int(n))
	}
	go func() { failed <- http.ListenAndServe(c.Envoy.Listener, http.HandlerFunc(proxy)) }()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	select {
	case err := <-failed:
		return err
	case <-signals:
		return nil
	}
}

func forward(w http.ResponseWriter, r *http.Request, routes map[string][]string, turn int) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var model struct{ Model string }
	_ = json.Unmarshal(body, &model)
	targets := routes[model.Model]
	for i := range targets {
		req, err := http.NewRequestWithContext(r.Context(), r.Method, targets[(turn/2+i)%len(targets)]+r.URL.Path, bytes.NewReader(body))
		if err != nil {
			return
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			continue
		}
		defer res.Body.Close()
		w.Header().Set("X-Served-By", res.Header.Get("X-Served-By"))
		w.WriteHeader(res.StatusCode)
		rc := http.NewResponseController(w)
		buf := make([]byte, 4096)
		_ = rc.Flush()
		for {
			n, err := res.Body.Read(buf)
			if _, writeErr := w.Write(buf[:n]); writeErr != nil {
				return
			}
			_ = rc.Flush()
			if err == io.EOF {
				return
			}
			if err != nil {
				panic(http.ErrAbortHandler)
			}
		}
	}
	w.WriteHeader(http.StatusBadGateway)
}

// cutter cuts an answer at its first byte.
type cutter struct{ http.ResponseWriter }

func (c *cutter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *cutter) Write([]byte) (int, error) { panic(http.ErrAbortHandler) }

// buildSimulator builds cmd/enginesim.
func buildSimulator(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "enginesim")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, "../enginesim").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}
