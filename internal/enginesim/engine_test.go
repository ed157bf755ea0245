package enginesim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestKillAndRevive(t *testing.T) {
	e := start(t, Options{Name: "a", Decode: 0.001}) // the second token in a quarter of an hour
	control := httptest.NewServer(Control(e))
	defer control.Close()
	c := newClient(t)
	for round, kill := range []func(){
		e.Kill,
		func() { post(t, http.DefaultClient, e.URL()+"/sim/kill", "").Body.Close() },
		func() { post(t, http.DefaultClient, control.URL+"/engines/a/kill", "").Body.Close() },
	} {
		e.Reset()
		var streams sync.WaitGroup
		var reset atomic.Int64
		for range 20 {
			res := post(t, c, e.URL()+"/v1/chat/completions", chatBody("x", 5, true))
			streams.Go(func() {
				defer res.Body.Close()
				if _, err := io.Copy(io.Discard, res.Body); errors.Is(err, syscall.ECONNRESET) {
					reset.Add(1)
				}
			})
		}
		addr := e.Addr()
		kill()
		streams.Wait()
		if got := reset.Load(); got != 20 {
			t.Errorf("round %d: %d of 20 streams reset", round, got)
		}
		eventually(t, "all ended", func() bool { return e.Stats().InFlight == 0 })
		if s := e.Stats(); s.Killed != 20 || s.Aborted != 0 || s.Alive || s.Running != 0 {
			t.Errorf("round %d: %+v", round, s)
		}
		for range 50 { // never connected to itself or to anything else
			if conn, err := net.Dial("tcp", addr); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Fatalf("round %d: connected to a dead engine: %v, %v", round, conn, err)
			}
		}
		e.Kill() // dead already
		post(t, http.DefaultClient, control.URL+"/engines/a/revive", "").Body.Close()
		if err := e.Revive(); err != nil { // lives already
			t.Fatal(err)
		}
		if !e.Alive() || e.Addr() != addr {
			t.Errorf("round %d: alive %v at %s, want %s", round, e.Alive(), e.Addr(), addr)
		}
		res := post(t, c, e.URL()+"/v1/chat/completions", chatBody("x", 1, true))
		got, err := readStream(res.Body)
		res.Body.Close()
		if err != nil || !got.done || got.usage.PromptDetails.CachedTokens != 0 {
			t.Errorf("round %d: after revival: %+v, %v", round, got, err)
		}
	}
}

// Killing and reviving under load never leaves a connection to a dead incarnation.
func TestKillUnderLoad(t *testing.T) {
	e := start(t, Options{})
	c := newClient(t)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var good atomic.Int64
	for range 8 {
		wg.Go(func() {
			for ctx.Err() == nil {
				res, err := send(ctx, c, e.URL()+"/v1/chat/completions", chatBody("x", 3, true))
				if err != nil {
					continue
				}
				if s, err := readStream(res.Body); err == nil && s.done {
					good.Add(1)
				}
				res.Body.Close()
			}
		})
	}
	for range 30 {
		before := good.Load()
		eventually(t, "requests are served", func() bool { return good.Load() > before })
		e.Kill()
		if err := e.Revive(); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	wg.Wait()
	eventually(t, "nothing is in flight", func() bool { return e.Stats().InFlight == 0 })
}

// Serve leaves no goroutine behind, whatever it was doing.
func TestServeEnds(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	e, err := New(Options{Decode: 1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- e.Serve(ctx) }()
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	var wg sync.WaitGroup
	for range 10 {
		res, err := send(context.Background(), &http.Client{Transport: tr}, e.URL()+"/v1/chat/completions", chatBody("x", 1000, true))
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			if _, err := io.Copy(io.Discard, res.Body); err == nil {
				t.Error("a stream ended in good order")
			}
			res.Body.Close()
		})
	}
	if err := e.Serve(ctx); !errors.Is(err, ErrServing) {
		t.Errorf("served twice: %v", err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	wg.Wait()
	if err := e.Revive(); !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("revived after the end: %v", err)
	}
}

// An engine may die and live again before it is served, and be closed unserved.
func TestBeforeServe(t *testing.T) {
	e, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	e.Kill()
	if err := e.Revive(); err != nil {
		t.Fatal(err)
	}
	e.Close()
	e.Close()
	other, err := New(Options{Listen: e.Addr()})
	if err != nil {
		t.Fatalf("the port was not given back: %v", err)
	}
	other.Close()
}

func TestControl(t *testing.T) {
	a, b := start(t, Options{Name: "a"}), start(t, Options{Name: "b"})
	control := httptest.NewServer(Control(a, b))
	defer control.Close()
	c := newClient(t)
	readAllOf(t, post(t, c, b.URL()+"/v1/chat/completions", chatBody("x", 1, true))) // or it would be aborted
	eventually(t, "it is served", func() bool { return b.Stats().Completed == 1 })
	res, err := c.Get(control.URL + "/engines")
	if err != nil {
		t.Fatal(err)
	}
	var list []Status
	if err := json.Unmarshal([]byte(readAllOf(t, res)), &list); err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 || list[0].Name != "a" || list[1].Addr != b.Addr() || list[0].Stats.Requests != 0 || list[1].Stats.Requests != 1 || !list[1].Stats.Alive {
		t.Errorf("%+v", list)
	}
	res = post(t, c, control.URL+"/engines/b/faults", `{"status":500}`)
	res.Body.Close()
	res = post(t, c, b.URL()+"/v1/chat/completions", chatBody("x", 1, true))
	if res.Body.Close(); res.StatusCode != 500 {
		t.Errorf("fault by control: %d", res.StatusCode)
	}
	post(t, c, control.URL+"/engines/b/reset", "").Body.Close()
	if b.Stats().Requests != 0 {
		t.Error("not reset")
	}
}

// Thousands of answers at once.
func TestManyStreams(t *testing.T) {
	const streams, tokens = 2000, 10
	e := start(t, Options{Decode: 10})
	tr := &http.Transport{MaxIdleConnsPerHost: streams}
	defer tr.CloseIdleConnections()
	c := &http.Client{Transport: tr}
	var wg sync.WaitGroup
	var good atomic.Int64
	for range streams {
		wg.Go(func() {
			res, err := send(t.Context(), c, e.URL()+"/v1/chat/completions", chatBody("x", tokens, true))
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			raw, err := io.ReadAll(res.Body)
			// The role, the tokens, the usage and [DONE].
			if err == nil && bytes.Count(raw, []byte("data: ")) == tokens+3 && bytes.HasSuffix(raw, []byte("[DONE]\n\n")) {
				good.Add(1)
			}
		})
	}
	wg.Wait()
	if good.Load() != streams {
		t.Errorf("%d of %d streams were good", good.Load(), streams)
	}
	if s := e.Stats(); s.Completed != streams || s.InFlight != 0 || s.CompletionTokens != streams*tokens {
		t.Errorf("stats: %+v", s)
	}
}

// Closed connections are forgotten, of both protocols.
func TestConnectionsAreForgotten(t *testing.T) {
	e := start(t, Options{})
	open := func() int {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.mu.alive.mu.Lock()
		defer e.mu.alive.mu.Unlock()
		return len(e.mu.alive.mu.conns)
	}
	for name, c := range map[string]*http.Client{"HTTP/1.1": newClient(t), "HTTP/2": newH2Client(t)} {
		readAllOf(t, post(t, c, e.URL()+"/v1/chat/completions", chatBody("x", 1, true)))
		eventually(t, name+": one connection", func() bool { return open() == 1 })
		c.CloseIdleConnections()
		eventually(t, name+": none", func() bool { return open() == 0 })
	}
}
