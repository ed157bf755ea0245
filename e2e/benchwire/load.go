package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
)

const (
	// inProgress is how many requests the client keeps going at once.
	inProgress = 8
	// conversations is how many different prompts come again and again; every
	// freshEvery-th request has a prompt of its own.
	conversations = 256
	freshEvery    = 4
)

// load makes requests of one size.
type load struct {
	size   int
	bodies [][]byte
	next   atomic.Uint64
}

func newLoad(size int) *load {
	l := &load{size: size}
	rng := rand.New(rand.NewPCG(1, uint64(size)))
	for range conversations {
		l.bodies = append(l.bodies, body(rng, size, ""))
	}
	return l
}

// body is a chat of size bytes: a system prompt that all share, then turns of
// plain words.
func body(rng *rand.Rand, size int, first string) []byte {
	var b strings.Builder
	b.WriteString(`{"model":"bench","stream":true,"messages":[{"role":"system","content":"You are a helpful assistant. Answer briefly."}`)
	for b.Len() < size {
		b.WriteString(`,{"role":"user","content":"` + first)
		for range 120 {
			fmt.Fprintf(&b, "word%d ", rng.IntN(100_000))
		}
		b.WriteString(`"}`)
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}

func (l *load) body() []byte {
	n := l.next.Add(1)
	if n%freshEvery != 0 {
		return l.bodies[n%conversations]
	}
	// A prompt that nobody has seen: another first turn in front of a known one.
	known := l.bodies[n%conversations]
	at := strings.Index(string(known), `"user","content":"`) + len(`"user","content":"`)
	fresh := fmt.Appendf(nil, "%sfresh %d ", known[:at], n)
	return append(fresh, known[at:]...)
}

func headers(size int) *corev3.HeaderMap {
	m := &corev3.HeaderMap{}
	for _, h := range [][2]string{
		{":authority", "llm.example"}, {":path", "/v1/chat/completions"}, {":method", "POST"}, {":scheme", "http"},
		{"content-type", "application/json"}, {"content-length", fmt.Sprint(size)}, {"accept", "text/event-stream"},
		{"authorization", "Bearer a-client-key-of-usual-length"}, {"user-agent", "OpenAI/Python 1.99.0"},
		{"x-stainless-lang", "python"}, {"x-stainless-package-version", "1.99.0"}, {"x-stainless-os", "Linux"},
		{"x-forwarded-proto", "http"}, {"x-request-id", "0b1f9a1c-8df7-4b0a-9f4e-5a1a0f3c2d11"},
	} {
		m.Headers = append(m.Headers, &corev3.HeaderValue{Key: h[0], RawValue: []byte(h[1])})
	}
	return m
}

// round plays n requests and gives the server's CPU time per request.
func (s *server) round(ctx context.Context, l *load, n int) (time.Duration, error) {
	before, err := s.cpu()
	if err != nil {
		return 0, err
	}
	var left atomic.Int64
	left.Store(int64(n))
	errs := make(chan error, inProgress)
	var wg sync.WaitGroup
	for w := range inProgress {
		client := extprocv3.NewExternalProcessorClient(s.conns[w%len(s.conns)])
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := play(ctx, client, l.body()); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return 0, err
	default:
	}
	after, err := s.cpu()
	return (after - before) / time.Duration(n), err
}

// play is one request as Envoy plays it.
func play(ctx context.Context, client extprocv3.ExternalProcessorClient, body []byte) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.Process(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(&extprocv3.ProcessingRequest{
		Request:        &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: &extprocv3.HttpHeaders{Headers: headers(len(body))}},
		ProtocolConfig: &extprocv3.ProtocolConfiguration{RequestBodyMode: filterv3.ProcessingMode_BUFFERED},
	}); err != nil {
		return err
	}
	if _, err := stream.Recv(); err != nil {
		return err
	}
	if err := stream.Send(&extprocv3.ProcessingRequest{
		Request: &extprocv3.ProcessingRequest_RequestBody{RequestBody: &extprocv3.HttpBody{Body: body, EndOfStream: true}},
	}); err != nil {
		return err
	}
	out, err := stream.Recv()
	if err != nil {
		return err
	}
	if out.GetRequestBody() == nil {
		return fmt.Errorf("no decision: %v", out)
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	_, _ = stream.Recv() // the end of the stream
	return nil
}
