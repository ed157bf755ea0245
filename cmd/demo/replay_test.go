package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/enginesim"
	"github.com/pointsman/pointsman/internal/trace"
)

// What the client makes of every way in which an answer can go.
func TestFollow(t *testing.T) {
	e, err := enginesim.New(enginesim.Options{Name: "ca-mid"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- e.Serve(ctx) }()
	defer func() {
		end()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	b := newBoard(theRoutes(), time.Now())
	c := newClient(e.URL(), b)
	defer c.close()
	chat, err := body("m", strings.Repeat("x", 6400), 5)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name    string
		fault   enginesim.Fault
		cancel  bool
		outcome outcome
		engine  string
		reason  string
	}{
		{name: "whole", outcome: complete, engine: "ca-mid"},
		{name: "error", fault: enginesim.Fault{Status: 503, Body: "no place"}, outcome: lost, reason: "status 503: no place"},
		{name: "reset", fault: enginesim.Fault{Action: enginesim.Reset}, outcome: lost, reason: "reset"},
		{name: "cut", fault: enginesim.Fault{Action: enginesim.Close, AfterTokens: new(2)}, outcome: broken, engine: "ca-mid", reason: "EOF"},
		{name: "no end", fault: enginesim.Fault{Action: enginesim.End, AfterTokens: new(2)}, outcome: broken, engine: "ca-mid", reason: "[DONE]"},
		{name: "we left", fault: enginesim.Fault{Action: enginesim.Hang}, cancel: true, outcome: abandoned, reason: "canceled"},
		{name: "we left in the stream", fault: enginesim.Fault{Action: enginesim.Hang, AfterTokens: new(2)}, cancel: true, outcome: abandoned, engine: "ca-mid", reason: "canceled"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e.Reset()
			if err := e.SetFaults(tt.fault); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.cancel {
				time.AfterFunc(300*time.Millisecond, cancel)
			}
			got := c.follow(ctx, 0, chat, "s")
			if got.outcome != tt.outcome || got.engine != tt.engine || !strings.Contains(got.reason, tt.reason) {
				t.Errorf("%+v", got)
			}
			if tt.outcome == complete && (got.ttft <= 0 || got.prompt < 1600 || got.cached != 0) {
				t.Errorf("%+v", got)
			}
			last, _ := e.Last()
			if last.Headers.Get("X-Session-Id") != "s" || last.Model != "m" {
				t.Errorf("sent %+v", last)
			}
		})
	}
	if err := e.SetFaults(); err != nil {
		t.Fatal(err)
	}
	if got := c.follow(t.Context(), 0, chat, "s"); got.cached == 0 {
		t.Errorf("the prompt was there before: %+v", got)
	}
}

// arrival is what a server sees of a request.
type arrival struct{ model, session, prompt string }

// recorder answers requests when it is released, and notes them at once.
type recorder struct {
	mu       sync.Mutex
	arrivals []arrival
	release  chan struct{}
}

func (s *recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var b chatRequest
	if err := json.NewDecoder(r.Body).Decode(&b); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.arrivals = append(s.arrivals, arrival{b.Model, r.Header.Get("X-Session-Id"), b.Messages[0].Content})
	s.mu.Unlock()
	<-s.release
	_, _ = w.Write([]byte("data: [DONE]\n\n"))
}

func (s *recorder) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.arrivals)
}

// Both routes get the same requests, round after round with new texts, whether
// or not anything is answered.
func TestReplayIsOpenLoopAndFair(t *testing.T) {
	s := &recorder{release: make(chan struct{})}
	server := httptest.NewServer(s)
	defer server.Close()
	rows := []trace.Row{
		{Timestamp: 0, InputLength: 600, OutputLength: 4, HashIDs: []uint64{0, 1}},
		{Timestamp: 0, InputLength: 700, OutputLength: 4, HashIDs: []uint64{0, 2}},
		{Timestamp: 3000, InputLength: 1100, OutputLength: 4, HashIDs: []uint64{0, 1, 3}},
	}
	b := newBoard(theRoutes(), time.Now())
	c := newClient(server.URL, b)
	defer c.close()
	p := newReplay(trace.Requests(rows, seed), theRoutes(), c)
	sending, stop := context.WithCancel(t.Context())
	defer stop()
	played := make(chan struct{})
	go func() {
		p.play(t.Context(), sending, time.Now())
		close(played)
	}()
	deadline := time.Now().Add(20 * time.Second)
	for s.count() < 12 { // two rounds of three requests to two routes
		if time.Now().After(deadline) {
			t.Fatalf("%d requests arrived", s.count())
		}
		time.Sleep(time.Millisecond)
	}
	stop()
	<-played
	close(s.release)
	p.wait(20 * time.Second)

	byRoute := map[string]map[arrival]int{}
	sessions := map[string]bool{}
	for _, a := range s.arrivals {
		model := a.model
		a.model = ""
		if byRoute[model] == nil {
			byRoute[model] = map[arrival]int{}
		}
		byRoute[model][a]++
		sessions[a.session] = true
	}
	if diff := cmp.Diff(byRoute["conv-cache-aware"], byRoute["conv-round-robin"], cmp.AllowUnexported(arrival{})); diff != "" {
		t.Errorf("the routes got different requests:\n%s", diff)
	}
	for a, n := range byRoute["conv-cache-aware"] {
		if n != 1 {
			t.Errorf("%s: the same text %d times", a.session, n)
		}
	}
	if len(sessions) != 4 {
		t.Errorf("sessions %v, want two in each round", sessions)
	}
	v := b.look(time.Now())
	if v.routes[0].sent != v.routes[1].sent || v.routes[0].inFlight != 0 || v.skipped != 0 {
		t.Errorf("%+v", v)
	}
}

// More than maxInFlight are not sent, to none of the routes.
func TestReplaySkips(t *testing.T) {
	s := &recorder{release: make(chan struct{})}
	server := httptest.NewServer(s)
	defer server.Close()
	b := newBoard(theRoutes(), time.Now())
	c := newClient(server.URL, b)
	defer c.close()
	p := newReplay(nil, theRoutes(), c)
	p.slots = make(chan struct{}, 5)
	for range 4 {
		p.send(t.Context(), "x", "s", 1)
	}
	close(s.release)
	p.wait(20 * time.Second)
	if v := b.look(time.Now()); v.skipped != 2 || v.routes[0].sent != 2 || v.routes[1].sent != 2 {
		t.Errorf("skipped %d, sent %d and %d", v.skipped, v.routes[0].sent, v.routes[1].sent)
	}
}

// What has no response headers in spite of the time it had is lost.
func TestOverdue(t *testing.T) {
	p := &performance{board: newBoard(theRoutes(), time.Now())}
	p.board.sent(0)
	p.board.sent(0)
	p.board.answered(0, "ca-slow") // late, but on its way
	v := p.board.look(time.Now())
	p.overdue(&v)
	if v.routes[0].lost != 1 || v.routes[1].lost != 0 || v.verdict() == nil || !strings.Contains(v.verdict().Error(), "1 without response headers") {
		t.Errorf("lost %d: %v", v.routes[0].lost, v.verdict())
	}
}
