package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/enginesim"
)

// Tokens reach the client one by one, not in one piece at the end (report 031).
func TestTokenByToken(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, enginesim.Options{Decode: 10})
	m := newMesh(t, f.providers()+"routes:\n"+f.route("llama", "round_robin", "other-name"))
	m.reachable(1)
	s, err := m.open(chat("llama", "x", true, 20))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	begin := time.Now()
	var first, last time.Duration
	for {
		data, ok := s.next()
		if !ok || data == "[DONE]" {
			break
		}
		if first == 0 {
			first = time.Since(begin)
		}
		last = time.Since(begin)
	}
	// 20 tokens take 2 s; buffered, they would come at once.
	if last-first < time.Second {
		t.Errorf("first event after %v, last after %v", first, last)
	}
	m.settled()
}

// Case 396, reports 027 and 030: who ends an answer early decides its outcome.
func TestAborts(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, enginesim.Options{Decode: 20})
	m := newMesh(t, "cooldown: {base_secs: 60}\n"+f.providers()+"routes:\n"+f.route("llama", "round_robin", "llama"))
	m.reachable(1)
	outcome := func(word string) float64 {
		return m.metric("pointsman_outcomes_total", fmt.Sprintf("outcome=%q", word))
	}
	const n = 20

	t.Run("client leaves in the stream", func(t *testing.T) {
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() {
				s, err := m.open(chat("llama", "x", true, 600))
				if err != nil {
					t.Error(err)
					return
				}
				s.next()
				s.close()
			})
		}
		wg.Wait()
		f.quiet(t) // the engine saw the cancel
		m.settled()
		eventually(t, "outcomes", func() error {
			if got := outcome("client_left"); got != n {
				return fmt.Errorf("%v client_left", got)
			}
			return nil
		})
	})

	t.Run("client leaves before the headers", func(t *testing.T) {
		f.faults(t, "a", silent)
		before := f[0].Stats().Requests
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() { _, _ = do(ctx, http.MethodPost, m.base+chatPath, chat("llama", "x", true, 1)) })
		}
		eventually(t, "the engine has all requests", func() error {
			if got := f[0].Stats().Requests - before; got != n {
				return fmt.Errorf("%d", got)
			}
			return nil
		})
		cancel()
		wg.Wait()
		f.faults(t, "a")
		f.quiet(t)
		m.settled()
		eventually(t, "outcomes", func() error {
			if got := outcome("client_gone"); got != n {
				return fmt.Errorf("%v client_gone", got)
			}
			return nil
		})
		if code := m.metric("pointsman_requests_total", `code="499"`); code != n {
			t.Errorf("%v requests counted 499", code)
		}
		if m.metric("pointsman_target_eligible") != 1 {
			t.Error("a client that left parked the target")
		}
	})

	t.Run("engine cuts the stream", func(t *testing.T) {
		for _, action := range []enginesim.Action{enginesim.Reset, enginesim.Close} {
			before := outcome("cut")
			after := 3
			f.faults(t, "a", enginesim.Fault{Action: action, AfterTokens: &after})
			var wg sync.WaitGroup
			for range n {
				wg.Go(func() {
					s, err := m.open(chat("llama", "x", true, 600))
					if err != nil {
						t.Error(err)
						return
					}
					if _, whole := s.rest(); whole {
						t.Errorf("%s: a cut stream came to its end", action)
					}
				})
			}
			wg.Wait()
			m.settled()
			eventually(t, "outcomes", func() error {
				if got := outcome("cut") - before; got != n {
					return fmt.Errorf("%v cut after %s", got, action)
				}
				return nil
			})
		}
		f.faults(t, "a")
	})

	t.Run("client leaves in the upload", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		reader, sent := newStalling(strings.Repeat(" ", 100_000))
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.base+chatPath, reader)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			if resp, err := client.Do(req); err == nil {
				_ = resp.Body.Close()
			}
		}()
		<-sent
		// The client reads no more from a body whose request was cancelled, but it
		// waits for a read in progress.
		cancel()
		_ = reader.Close()
		<-done
		m.settled()
	})
}

// stalling is a body that stops in the middle until its request is cancelled.
type stalling struct {
	text string
	sent chan struct{}
	once sync.Once
	stop chan struct{}
}

func newStalling(text string) (*stalling, chan struct{}) {
	s := &stalling{text: text, sent: make(chan struct{}), stop: make(chan struct{})}
	return s, s.sent
}

func (s *stalling) Read(p []byte) (int, error) {
	if s.text != "" {
		n := copy(p, s.text)
		s.text = s.text[n:]
		return n, nil
	}
	s.once.Do(func() { close(s.sent) })
	<-s.stop
	return 0, context.Canceled
}

func (s *stalling) Close() error {
	select {
	case <-s.stop:
	default:
		close(s.stop)
	}
	return nil
}

// 1,500 answers at once: no limit of the proxy is met (design, defaults that bite).
func TestManyStreams(t *testing.T) {
	t.Parallel()
	const streams = 1500
	f := newFleet(t, 3, enginesim.Options{Decode: 4, Batch: streams})
	m := newMesh(t, f.providers()+"routes:\n"+f.route("llama", "round_robin", "llama"))
	m.reachable(3)
	var wg sync.WaitGroup
	var good, top atomic.Int64
	opened := make(chan struct{}, streams)
	release := make(chan struct{})
	for i := range streams {
		wg.Go(func() {
			s, err := m.open(chat("llama", fmt.Sprint(i), true, 40))
			opened <- struct{}{}
			if err != nil {
				t.Errorf("stream %d: %v", i, err)
				return
			}
			if s.resp.StatusCode != 200 {
				t.Errorf("stream %d: status %d", i, s.resp.StatusCode)
				s.close()
				return
			}
			<-release
			if _, whole := s.rest(); whole {
				good.Add(1)
			}
		})
	}
	for range streams {
		<-opened
	}
	top.Store(int64(m.metric("pointsman_in_flight")))
	close(release)
	wg.Wait()
	if good.Load() != streams {
		t.Errorf("%d of %d answers whole", good.Load(), streams)
	}
	if top.Load() < streams/2 {
		t.Errorf("only %d were in flight at once: the test shows nothing", top.Load())
	}
	m.settled()
}
