package fakeenvoy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pointsman/pointsman/internal/wire"
)

// Request is what a client sends.
type Request struct {
	Method string // POST by default
	Path   string // /v1/chat/completions by default; with its query
	Header [][2]string
	Body   []byte
	// Chunked leaves the content length out, so that Envoy learns of the end of the
	// body, also of an empty one, only with its last piece.
	Chunked  bool
	Trailers [][2]string
	// OldHeaders sends header values as text, as Envoys did before they had raw values.
	OldHeaders bool
	// From is the address and port of the client's connection, "" = not told.
	From string
	// Metadata is what filters before ext_proc have set, by namespace.
	Metadata map[string]map[string]string
}

// Answer is one that Envoy gives the client because pointsman says so.
type Answer struct {
	Status  int
	Header  Header
	Body    string
	Details string
}

// Exchange is a request after its conversation: answered, or on its way upstream.
type Exchange struct {
	Answer *Answer // nil if the request is routed

	// What the upstream gets, and where Envoy looks for it.
	Header   Header
	Body     []byte
	Clusters []string // in the order of the attempts
	// Metadata is the decision's, without the clusters.
	Metadata map[string]any

	stream extprocv3.ExternalProcessor_ProcessClient
	cancel context.CancelFunc
}

// Decision is the id of the decision, "" if there is none.
func (x *Exchange) Decision() string { return x.Header.Get(wire.HeaderDecision) }

// Stream is the conversation, for messages that Envoy should not send.
func (x *Exchange) Stream() extprocv3.ExternalProcessor_ProcessClient { return x.stream }

// End ends the stream as Envoy does when the answer is complete, and waits for the
// server's end.
func (x *Exchange) End() error {
	defer x.cancel()
	if err := x.stream.CloseSend(); err != nil {
		return err
	}
	return x.WaitEnd()
}

// WaitEnd waits until the server has ended the stream. It is an error if it says
// anything before.
func (x *Exchange) WaitEnd() error {
	out, err := x.stream.Recv()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil {
		return fmt.Errorf("a message that nobody asked for: %v", out)
	}
	return err
}

// Reset resets the stream, as Envoy does when the client has gone.
func (x *Exchange) Reset() { x.cancel() }

// Ask plays a request until Envoy would route or answer it.
func (e *Envoy) Ask(ctx context.Context, r Request) (*Exchange, error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := e.extProc.Process(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	x := &Exchange{stream: stream, cancel: cancel}
	if err := x.play(e, r); err != nil {
		cancel()
		return nil, err
	}
	return x, nil
}

// Open opens a stream without saying anything.
func (e *Envoy) Open(ctx context.Context) (*Exchange, error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := e.extProc.Process(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	return &Exchange{stream: stream, cancel: cancel}, nil
}

func (x *Exchange) play(e *Envoy, r Request) error {
	x.Header, x.Body = r.headers(), r.Body
	hasBody := len(r.Body) > 0 || r.Chunked
	if err := x.stream.Send(e.HeadersMessage(r)); err != nil {
		return err
	}
	if done, err := x.apply(false); done || err != nil {
		return err
	}
	// An empty body in front of trailers gives no body message.
	if hasBody && (len(r.Body) > 0 || len(r.Trailers) == 0) {
		if err := x.stream.Send(BodyMessage(r.Body, len(r.Trailers) == 0)); err != nil {
			return err
		}
		if done, err := x.apply(true); done || err != nil {
			return err
		}
	}
	if len(r.Trailers) > 0 {
		if err := x.stream.Send(TrailersMessage(r.Trailers)); err != nil {
			return err
		}
		if _, err := x.apply(false); err != nil {
			return err
		}
	}
	return nil
}

// HeadersMessage is the first message about a request.
func (e *Envoy) HeadersMessage(r Request) *extprocv3.ProcessingRequest {
	m := &corev3.HeaderMap{}
	for _, h := range r.headers() {
		v := &corev3.HeaderValue{Key: h[0], RawValue: []byte(h[1])}
		if r.OldHeaders {
			v = &corev3.HeaderValue{Key: h[0], Value: h[1]}
		}
		m.Headers = append(m.Headers, v)
	}
	out := &extprocv3.ProcessingRequest{
		Request: &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: &extprocv3.HttpHeaders{
			Headers:     m,
			EndOfStream: len(r.Body) == 0 && !r.Chunked && len(r.Trailers) == 0,
		}},
		ObservabilityMode: e.Observe,
		ProtocolConfig:    &extprocv3.ProtocolConfiguration{RequestBodyMode: e.BodyMode},
	}
	if r.From != "" {
		out.Attributes = map[string]*structpb.Struct{
			"envoy.filters.http.ext_proc": {Fields: map[string]*structpb.Value{"source.address": structpb.NewStringValue(r.From)}},
		}
	}
	for namespace, values := range r.Metadata {
		if out.MetadataContext == nil {
			out.MetadataContext = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{}}
		}
		fields := map[string]*structpb.Value{}
		for key, value := range values {
			fields[key] = structpb.NewStringValue(value)
		}
		out.MetadataContext.FilterMetadata[namespace] = &structpb.Struct{Fields: fields}
	}
	return out
}

// BodyMessage is a message with a body, or a piece of one.
func BodyMessage(body []byte, endOfStream bool) *extprocv3.ProcessingRequest {
	return &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestBody{
		RequestBody: &extprocv3.HttpBody{Body: body, EndOfStream: endOfStream},
	}}
}

// TrailersMessage is the last message about a request that has trailers.
func TrailersMessage(trailers [][2]string) *extprocv3.ProcessingRequest {
	m := &corev3.HeaderMap{}
	for _, h := range trailers {
		m.Headers = append(m.Headers, &corev3.HeaderValue{Key: h[0], RawValue: []byte(h[1])})
	}
	return &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestTrailers{
		RequestTrailers: &extprocv3.HttpTrailers{Trailers: m},
	}}
}

func (r *Request) headers() Header {
	h := Header{{":method", r.Method}, {":path", r.Path}, {":scheme", "http"}, {":authority", "llm.example"}}
	if r.Method == "" {
		h[0][1] = "POST"
	}
	if r.Path == "" {
		h[1][1] = "/v1/chat/completions"
	}
	h = append(h, r.Header...)
	if len(r.Body) > 0 && !r.Chunked {
		h = append(h, [2]string{"content-length", strconv.Itoa(len(r.Body))})
	}
	return append(h, [2]string{"x-forwarded-proto", "http"}, [2]string{"x-request-id", "0b1f9a1c-8df7-4b0a-9f4e-5a1a0f3c2d11"})
}
