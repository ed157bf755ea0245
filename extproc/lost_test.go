package extproc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/pointsman/pointsman/internal/fakeenvoy"
	"github.com/pointsman/pointsman/internal/ledger"
)

// points are where a stream can be lost, as the number of messages that arrive before.
var points = []struct {
	name     string
	messages int
}{{"before the headers", 0}, {"after the headers", 1}, {"after the body", 2}, {"at the end", 3}}

// Case 108, on the server alone: a stream lost at each point, half-closed or reset, 100,000 times.
func TestLostStreams(t *testing.T) {
	const times, workers = 100_000, 4
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	w := newServer(t, oneRoute)
	w.reach("a/m", "b/m", "c/m")
	e := &fakeenvoy.Envoy{BodyMode: filterv3.ProcessingMode_BUFFERED}
	r := chat("m")
	messages := []*extprocv3.ProcessingRequest{
		e.HeadersMessage(r), fakeenvoy.BodyMessage(r.Body, false), fakeenvoy.TrailersMessage(nil),
	}
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			for i := worker; i < times; i += workers {
				ctx, cancel := context.WithCancel(context.Background())
				how := io.EOF
				if i&4 != 0 {
					how = context.Canceled
				}
				s := &stream{ctx: ctx, in: messages[:points[i&3].messages], end: how, last: cancel}
				if err := w.server.Process(s); err != nil {
					t.Errorf("%s: %v", points[i&3].name, err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	w.wantIdle()
	if decided, answers := w.sink.count(); decided != times/2 || len(answers) != 0 {
		t.Errorf("%d decisions and %d answers, want %d and none", decided, len(answers), times/2)
	}
}

// The same over real connections, where a reset can overtake what was sent before it; and in the
// middle of a body.
func TestLostConnections(t *testing.T) {
	const times = 500
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	t.Run("streams", func(t *testing.T) {
		w := newWorld(t, oneRoute)
		large := fakeenvoy.Request{Body: []byte(`{"model":"m","x":"` + strings.Repeat("x", 1<<20) + `"}`)}
		for i := range times {
			r := chat("m")
			if i%50 == 0 {
				r = large
			}
			for _, p := range points {
				x, err := w.envoy.Open(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				messages := []*extprocv3.ProcessingRequest{w.envoy.HeadersMessage(r), fakeenvoy.BodyMessage(r.Body, false), fakeenvoy.TrailersMessage(nil)}
				for _, m := range messages[:p.messages] {
					if err := x.Stream().Send(m); err != nil {
						t.Fatal(err)
					}
				}
				if i%2 == 0 {
					x.Reset()
					continue
				}
				if err := x.Stream().CloseSend(); err != nil {
					t.Fatal(err)
				}
				for err == nil {
					_, err = x.Stream().Recv()
				}
				if !errors.Is(err, io.EOF) {
					t.Errorf("%s: %v", p.name, err)
				}
				x.Reset()
			}
		}
		w.wantIdle()
	})
	t.Run("Envoy killed", func(t *testing.T) {
		w := newWorld(t, oneRoute)
		for range 20 {
			e := w.dial()
			for range 5 {
				if _, err := e.Ask(t.Context(), chat("m")); err != nil {
					t.Fatal(err)
				}
			}
			e.Close()
		}
		w.wantIdle()
	})
}

// stream is a conversation without a connection: messages that arrive, and how it ends.
type stream struct {
	grpc.ServerStream
	ctx  context.Context
	in   []*extprocv3.ProcessingRequest
	end  error
	last func() // called when all has arrived
	sent func(*extprocv3.ProcessingResponse)
}

func (s *stream) Context() context.Context { return s.ctx }

func (s *stream) RecvMsg(m any) error {
	if len(s.in) == 0 {
		s.last()
		return s.end
	}
	in := m.(*extprocv3.ProcessingRequest)
	in.Request, in.ProtocolConfig = s.in[0].Request, s.in[0].ProtocolConfig
	s.in = s.in[1:]
	return nil
}

func (s *stream) SendMsg(m any) error {
	if _, err := proto.Marshal(m.(proto.Message)); err != nil {
		return fmt.Errorf("marshal: %w", err)
	}
	if s.sent != nil {
		s.sent(m.(*extprocv3.ProcessingResponse))
	}
	return nil
}

// Recv and Send belong to the interface; the server does without.
func (s *stream) Recv() (*extprocv3.ProcessingRequest, error) { return nil, errors.ErrUnsupported }
func (s *stream) Send(*extprocv3.ProcessingResponse) error    { return errors.ErrUnsupported }

var _ ledger.Sink = (*sink)(nil)
