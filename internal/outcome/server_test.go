package outcome

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	logv3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pointsman/pointsman/internal/fakeenvoy"
	"github.com/pointsman/pointsman/internal/ledger"
	"github.com/pointsman/pointsman/internal/tracker"
	"github.com/pointsman/pointsman/internal/wire"
)

// fakeLedger remembers what it hears.
type fakeLedger struct {
	sync.Mutex
	attempts []ledger.Attempt
	answers  []ledger.Answer
}

func (f *fakeLedger) AttemptEnded(a *ledger.Attempt) {
	f.Lock()
	defer f.Unlock()
	f.attempts = append(f.attempts, *a)
}

func (f *fakeLedger) AnsweredByProxy(a ledger.Answer) {
	f.Lock()
	defer f.Unlock()
	f.answers = append(f.answers, a)
}

// A stream names its log in its first message, and only that counts; logs that
// pointsman does not know are ignored.
func TestLogNames(t *testing.T) {
	attempt := fakeenvoy.Attempt{Decision: "7", Cluster: "pm|a", Number: 1, Status: 200, Total: time.Second}
	wantAttempt := ledger.Attempt{
		Decision: "7", Cluster: "pm|a", Number: 1, Outcome: ledger.Complete, Status: 200, RetryAfter: tracker.NoHint, Total: time.Second,
	}
	answer := &logv3.HTTPAccessLogEntry{Response: &logv3.HTTPResponseProperties{ResponseCode: wrapperspb.UInt32(413)}}
	wantAnswer := ledger.Answer{Status: 413, Code: "body_too_large"}
	tests := []struct {
		name, log string
		entry     *logv3.HTTPAccessLogEntry
		attempts  []ledger.Attempt
		answers   []ledger.Answer
	}{
		{"attempts", wire.LogAttempt, attempt.Entry(), []ledger.Attempt{wantAttempt, wantAttempt, wantAttempt}, nil},
		{"requests", wire.LogRequest, answer, nil, []ledger.Answer{wantAnswer, wantAnswer, wantAnswer}},
		{"unknown", "somebody's", attempt.Entry(), nil, nil},
		{"unnamed", "", attempt.Entry(), nil, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			var got fakeLedger
			s := New(Options{Ledger: &got})
			withServer(t, s, func(e *fakeenvoy.Envoy) {
				l, err := e.Log(t.Context(), test.log)
				if err != nil {
					t.Fatal(err)
				}
				// Two messages; only the first names the log.
				for _, entries := range [][]*logv3.HTTPAccessLogEntry{{test.entry, test.entry}, {test.entry}} {
					if err := l.Send(entries...); err != nil {
						t.Fatal(err)
					}
				}
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
			})
			if diff := cmp.Diff(test.attempts, got.attempts); diff != "" {
				t.Errorf("attempts (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.answers, got.answers); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
		})
	}
}

// An entry about an attempt that is still running says nothing of its outcome.
func TestIntermediateEntries(t *testing.T) {
	var got fakeLedger
	withServer(t, New(Options{Ledger: &got}), func(e *fakeenvoy.Envoy) {
		l, err := e.Log(t.Context(), wire.LogAttempt)
		if err != nil {
			t.Fatal(err)
		}
		entry := func(number int, typ logv3.AccessLogType) *logv3.HTTPAccessLogEntry {
			e := fakeenvoy.Attempt{Number: number}.Entry()
			e.CommonProperties.AccessLogType = typ
			return e
		}
		if err := l.Send(
			entry(1, logv3.AccessLogType_UpstreamPoolReady), entry(2, logv3.AccessLogType_UpstreamPeriodic),
			entry(3, logv3.AccessLogType_UpstreamEnd), entry(4, logv3.AccessLogType_DownstreamEnd), entry(5, logv3.AccessLogType_NotSet),
		); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
	var want []ledger.Attempt
	for number := 3; number <= 5; number++ {
		want = append(want, ledger.Attempt{Number: number, Outcome: ledger.ClientGone, RetryAfter: tracker.NoHint})
	}
	if diff := cmp.Diff(want, got.attempts); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
}

// panickingLedger panics over every attempt but the first.
type panickingLedger struct{ fakeLedger }

func (p *panickingLedger) AttemptEnded(a *ledger.Attempt) {
	if a.Number > 1 {
		panic("ZX-CANARY-17")
	}
	p.fakeLedger.AttemptEnded(a)
}

// A panic costs one entry: the stream lives, and the process. It is logged once, with its
// place and without its value.
func TestPanic(t *testing.T) {
	var got panickingLedger
	var log bytes.Buffer
	s := New(Options{Ledger: &got, Log: slog.New(slog.NewTextHandler(&log, nil))})
	withServer(t, s, func(e *fakeenvoy.Envoy) {
		l, err := e.Log(t.Context(), wire.LogAttempt)
		if err != nil {
			t.Fatal(err)
		}
		for _, number := range []int{1, 2, 3, 1} {
			if err := l.Send(fakeenvoy.Attempt{Number: number}.Entry()); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
	if len(got.attempts) != 2 {
		t.Errorf("%d attempts, want 2", len(got.attempts))
	}
	line := log.String()
	if strings.Count(line, "\n") != 1 || !strings.Contains(line, "panic=string") || !strings.Contains(line, "AttemptEnded") || strings.Contains(line, "CANARY") {
		t.Errorf("log:\n%s", line)
	}
}

// A lost connection ends the stream and leaves nothing behind.
func TestConnectionLost(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	var got fakeLedger
	withServer(t, New(Options{Ledger: &got}), func(e *fakeenvoy.Envoy) {
		l, err := e.Log(t.Context(), wire.LogAttempt)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Send(fakeenvoy.Attempt{Decision: "7", Number: 1, Status: 200}.Entry()); err != nil {
			t.Fatal(err)
		}
	})
}

// withServer runs f with an Envoy that is connected to s, and ends both.
func withServer(t *testing.T, s *Server, f func(*fakeenvoy.Envoy)) {
	t.Helper()
	t.Run("", func(t *testing.T) { f(fakeenvoy.Dial(t, fakeenvoy.Serve(t, s))) })
}
