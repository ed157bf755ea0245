package extproc_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/pointsman/pointsman/internal/fakeenvoy"
	"github.com/pointsman/pointsman/internal/ledger"
	"github.com/pointsman/pointsman/internal/routing"
)

// BenchmarkDecision plays whole conversations. "alone" is the server without gRPC:
// reading, deciding, encoding the reply, end. "socket" adds gRPC on both sides of
// a Unix socket, the client's part included.
func BenchmarkDecision(b *testing.B) {
	for _, size := range []int{4 << 10, 32 << 10} {
		for _, model := range []string{"as it is", "rewritten"} {
			name := fmt.Sprintf("%dKiB %s", size>>10, model)
			yaml := eightTargets
			if model == "rewritten" {
				yaml = strings.ReplaceAll(eightTargets, "}", ", model: up}")
			}
			r := fakeenvoy.Request{Body: conversation(size), Header: usualHeaders()}
			b.Run("alone/"+name, func(b *testing.B) { benchmarkAlone(b, yaml, r) })
			b.Run("socket/"+name, func(b *testing.B) { benchmarkSocket(b, yaml, r) })
		}
	}
}

const eightTargets = `
routes:
  - model: m
    strategy: cache_aware
    targets: [{provider: a}, {provider: b}, {provider: c}, {provider: d}, {provider: e}, {provider: f}, {provider: g}, {provider: h}]
`

func benchmarkAlone(b *testing.B, routes string, r fakeenvoy.Request) {
	w := benchWorld(b, routes)
	e := &fakeenvoy.Envoy{BodyMode: filterv3.ProcessingMode_BUFFERED}
	messages := []*extprocv3.ProcessingRequest{e.HeadersMessage(r), fakeenvoy.BodyMessage(r.Body, true)}
	s := &stream{ctx: context.Background(), end: io.EOF, last: func() {}}
	var reply *extprocv3.ProcessingResponse
	s.sent = func(out *extprocv3.ProcessingResponse) { reply = out }
	s.last = func() { w.complete(reply) }
	b.SetBytes(int64(len(r.Body)))
	b.ReportAllocs()
	for b.Loop() {
		s.in = messages
		if err := w.server.Process(s); err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkSocket(b *testing.B, routes string, r fakeenvoy.Request) {
	w := benchWorld(b, routes)
	e := fakeenvoy.Dial(b, fakeenvoy.Serve(b, w.server))
	headers, body := e.HeadersMessage(r), fakeenvoy.BodyMessage(r.Body, true)
	var reply *extprocv3.ProcessingResponse
	b.SetBytes(int64(len(r.Body)))
	b.ReportAllocs()
	for b.Loop() {
		x, err := e.Open(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		for _, m := range []*extprocv3.ProcessingRequest{headers, body} {
			if err := x.Stream().Send(m); err != nil {
				b.Fatal(err)
			}
			if reply, err = x.Stream().Recv(); err != nil {
				b.Fatal(err)
			}
		}
		w.complete(reply)
		if err := x.End(); err != nil {
			b.Fatal(err)
		}
	}
}

// complete tells the ledger that the attempt went well, so that it gives the decision back.
func (w *world) complete(reply *extprocv3.ProcessingResponse) {
	set := reply.GetRequestBody().GetResponse().GetHeaderMutation().GetSetHeaders()
	w.ledger.AttemptEnded(&ledger.Attempt{
		Cluster: string(set[0].Header.RawValue), Decision: string(set[1].Header.RawValue), Number: 1,
		Outcome: ledger.Complete, Status: 200, Total: time.Millisecond,
	})
}

// conversation is a chat of this size.
func conversation(size int) []byte {
	var s strings.Builder
	s.WriteString(`{"model":"m","stream":true,"messages":[{"role":"system","content":"You are a helpful assistant."}`)
	for s.Len() < size-600 {
		s.WriteString(`,{"role":"user","content":"`)
		for i := range 80 {
			fmt.Fprintf(&s, "word%d ", i*s.Len()%9973)
		}
		s.WriteString(`"}`)
	}
	s.WriteString(`]}`)
	return []byte(s.String())
}

func usualHeaders() [][2]string {
	return [][2]string{
		{"content-type", "application/json"}, {"accept", "text/event-stream"}, {"authorization", "Bearer a-client-key-of-usual-length"},
		{"user-agent", "OpenAI/Python 1.99.0"}, {"x-stainless-lang", "python"}, {"x-stainless-package-version", "1.99.0"}, {"x-stainless-os", "Linux"},
	}
}

// benchWorld has eight engines, all reachable, and a ledger that tells nobody.
func benchWorld(b *testing.B, routes string) *world {
	b.Helper()
	var yaml strings.Builder
	yaml.WriteString("providers:\n")
	for i, name := range strings.Split("abcdefgh", "") {
		fmt.Fprintf(&yaml, "  - {name: %s, kind: vllm, url: \"http://127.0.0.1:%d\"}\n", name, 8001+i)
	}
	w := newServer(b, yaml.String()+routes)
	targets, _ := w.router.Snapshot().Targets()
	for id := range targets {
		w.reach(id)
	}
	w.ledgerWith(silent{})
	return w
}

// silent is a ledger.Sink that does nothing.
type silent struct{}

func (silent) Decided(*routing.Decision)                             {}
func (silent) Attempted(_, _ string, _ *ledger.Attempt, parked bool) {}
func (silent) Answered(ledger.Answer)                                {}
func (silent) Closed(ledger.Record)                                  {}
func (silent) Late()                                                 {}
