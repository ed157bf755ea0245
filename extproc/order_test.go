package extproc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pointsman/pointsman/extproc"
	"github.com/pointsman/pointsman/internal/fakeenvoy"
	"github.com/pointsman/pointsman/internal/request"
	"github.com/pointsman/pointsman/internal/routing"
	"github.com/pointsman/pointsman/internal/wire"
)

// kind names a reply: what it fits, and whether it changes anything.
func kind(out *extprocv3.ProcessingResponse) string {
	name := "?"
	switch r := out.Response.(type) {
	case *extprocv3.ProcessingResponse_RequestHeaders:
		name = "headers"
	case *extprocv3.ProcessingResponse_RequestBody:
		name = "body"
		if r.RequestBody.GetResponse() != nil {
			name = "decision"
		}
	case *extprocv3.ProcessingResponse_RequestTrailers:
		name = "trailers"
	case *extprocv3.ProcessingResponse_ResponseHeaders:
		name = "response headers"
	case *extprocv3.ProcessingResponse_ResponseBody:
		name = "response body"
	case *extprocv3.ProcessingResponse_ResponseTrailers:
		name = "response trailers"
	case *extprocv3.ProcessingResponse_ImmediateResponse:
		name = fmt.Sprint(r.ImmediateResponse.Status.Code.Number())
	}
	return name
}

// Every message in whatever order has one defined answer, and nothing is decided or
// counted twice. Report 022: the last piece of a body comes again.
func TestOddOrders(t *testing.T) {
	e := &fakeenvoy.Envoy{BodyMode: filterv3.ProcessingMode_BUFFERED}
	r := chat("m")
	headers := e.HeadersMessage(r)
	body := fakeenvoy.BodyMessage(r.Body, true)
	open := fakeenvoy.BodyMessage(r.Body, false)
	empty := fakeenvoy.BodyMessage(nil, true)
	trailers := fakeenvoy.TrailersMessage(nil)
	respHeaders := &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseHeaders{}}
	respBody := &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseBody{ResponseBody: &extprocv3.HttpBody{}}}
	respTrailers := &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseTrailers{}}
	window := &extprocv3.ProcessingRequest{ClientWindowUpdate: &extprocv3.ProcessingRequest_ClientWindowUpdate{}}
	unknown := &extprocv3.ProcessingRequest{}

	type messages = []*extprocv3.ProcessingRequest
	tests := []struct {
		name string
		send messages
		want []string // the replies; an immediate answer or "error" ends the stream
	}{
		{"as it should be", messages{headers, body}, []string{"headers", "decision"}},
		{"with trailers", messages{headers, open, trailers}, []string{"headers", "decision", "trailers"}},
		{"the body twice", messages{headers, body, body}, []string{"headers", "decision", "body"}},
		{"an empty last piece", messages{headers, body, empty, empty}, []string{"headers", "decision", "body", "body"}},
		{"a body after trailers", messages{headers, open, trailers, body}, []string{"headers", "decision", "trailers", "body"}},
		{"headers twice", messages{headers, headers, body}, []string{"headers", "headers", "decision"}},
		{"headers after all", messages{headers, body, headers}, []string{"headers", "decision", "headers"}},
		{"trailers twice", messages{headers, body, trailers, trailers}, []string{"headers", "decision", "trailers", "trailers"}},
		{"trailers for a body", messages{headers, trailers}, []string{"headers", "400"}},
		{"body first", messages{body}, []string{"500"}},
		{"trailers first", messages{trailers}, []string{"500"}},
		{"all of the response", messages{headers, body, respHeaders, respBody, respTrailers}, []string{"headers", "decision", "response headers", "response body", "response trailers"}},
		{"a response alone", messages{respHeaders, respBody}, []string{"response headers", "response body"}},
		{"a response in between", messages{headers, respHeaders, body}, []string{"headers", "response headers", "decision"}},
		{"flow control", messages{headers, window, body}, []string{"headers", "decision"}},
		{"unknown", messages{unknown}, []string{"error"}},
		{"unknown in between", messages{headers, unknown}, []string{"headers", "error"}},
		{"unknown after all", messages{headers, body, unknown}, []string{"headers", "decision", "error"}},
	}
	w := newWorld(t, oneRoute)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := w.of(t)
			before, _ := w.sink.count()
			x, err := w.envoy.Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range test.send {
				if err := x.Stream().Send(m); err != nil && !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
			}
			var got []string
			for range test.want {
				out, err := x.Stream().Recv()
				if status.Code(err) == codes.InvalidArgument {
					got = append(got, "error")
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, kind(out))
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("replies %q, want %q", got, test.want)
			}
			if last := got[len(got)-1]; last != "error" {
				w.end(x) // and nothing more is said
			}
			decided, _ := w.sink.count()
			if got, want := decided-before, strings.Count(fmt.Sprint(test.want), "decision"); got != want {
				t.Errorf("%d decisions, want %d", got, want)
			}
			w.wantIdle()
		})
	}
}

// A filter in whose mode no choice can be made is answered 500 and named in one line,
// however many requests it sends.
func TestBodyModes(t *testing.T) {
	tests := []struct {
		mode    filterv3.ProcessingMode_BodySendMode
		observe bool
		want    string
	}{
		{filterv3.ProcessingMode_NONE, false, "setting=processing_mode.request_body_mode value=NONE"},
		{filterv3.ProcessingMode_STREAMED, false, "setting=processing_mode.request_body_mode value=STREAMED"},
		{filterv3.ProcessingMode_BUFFERED_PARTIAL, false, "setting=processing_mode.request_body_mode value=BUFFERED_PARTIAL"},
		{filterv3.ProcessingMode_FULL_DUPLEX_STREAMED, false, "setting=processing_mode.request_body_mode value=FULL_DUPLEX_STREAMED"},
		{99, false, "setting=processing_mode.request_body_mode value=99"},
		{filterv3.ProcessingMode_BUFFERED, true, "setting=observability_mode value=true"},
	}
	for _, test := range tests {
		t.Run(test.want, func(t *testing.T) {
			w := newWorld(t, oneRoute)
			w.envoy.BodyMode, w.envoy.Observe = test.mode, test.observe
			for range 5 {
				w.wantError(w.ask(chat("m")), "/v1/chat/completions", wire.ErrInternal, "", "internal error")
			}
			got := w.log.String()
			if strings.Count(got, "\n") != 1 || !strings.Contains(got, test.want) || !strings.Contains(got, "needed=") {
				t.Errorf("log:\n%swant one line with %s", got, test.want)
			}
			w.envoy.BodyMode, w.envoy.Observe = filterv3.ProcessingMode_BUFFERED, false
			w.end(w.ask(chat("m")))
		})
	}
}

// A body that comes without headers names the other setting.
func TestHeaderMode(t *testing.T) {
	w := newWorld(t, oneRoute)
	x, err := w.envoy.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Stream().Send(fakeenvoy.BodyMessage([]byte("{}"), true)); err != nil {
		t.Fatal(err)
	}
	if out, err := x.Stream().Recv(); err != nil || kind(out) != "500" {
		t.Errorf("reply %v, %v", out, err)
	}
	if got := w.log.String(); !strings.Contains(got, "setting=processing_mode.request_header_mode value=SKIP") {
		t.Errorf("log: %s", got)
	}
}

// panicking is a router that panics with a value while it is set.
type panicking struct {
	extproc.Router
	value any
}

func (p *panicking) Decide(ctx context.Context, s *routing.Snapshot, q *request.Request, caller string) (*routing.Decision, error) {
	if p.value != nil {
		panic(p.value)
	}
	return p.Router.Decide(ctx, s, q, caller)
}

// A panic costs one request, on one connection that lives. What it says of the request is
// not logged; the place is.
func TestPanic(t *testing.T) {
	w := newServer(t, oneRoute)
	w.reach("a/m", "b/m", "c/m")
	router := &panicking{Router: w.router}
	w.server = extproc.New(extproc.Options{Router: router, Ledger: w.ledger, Log: w.log.logger(), Start: time.Unix(created, 0)})
	w.envoy = w.dial()
	const canary = "ZX-CANARY-17"
	for range 3 {
		router.value = errors.New(canary)
		w.wantError(w.ask(chat("m")), "/v1/chat/completions", wire.ErrInternal, "", "internal error")
		router.value = nil
		x := w.ask(chat("m"))
		if x.Answer != nil {
			t.Errorf("the next request is answered %+v", x.Answer)
		}
		w.end(x)
	}
	got := w.log.String()
	if strings.Count(got, "\n") != 1 || !strings.Contains(got, "panic=*errors.errorString") || !strings.Contains(got, "Decide") {
		t.Errorf("log:\n%s\nwant one line that names type and place", got)
	}
	if strings.Contains(got, canary) {
		t.Errorf("logged the value of the panic:\n%s", got)
	}
	w.wantIdle()
}

// failingSink panics when a decision is opened: after the ledger has taken it over.
type failingSink struct{ *sink }

func (failingSink) Decided(*routing.Decision) { panic("in the sink") }

// A panic after the decision was opened releases it all the same.
func TestPanicAfterTheDecision(t *testing.T) {
	w := newServer(t, oneRoute)
	w.reach("a/m", "b/m", "c/m")
	w.ledgerWith(failingSink{w.sink})
	w.envoy = w.dial()
	x := w.ask(chat("m"))
	if x.Answer == nil || x.Answer.Status != 500 {
		t.Errorf("answer %+v, want 500", x.Answer)
	}
	w.wantIdle()
}

// The client leaves while its request waits for a target: the wait ends, and nothing is
// counted.
func TestClientLeavesWhileDeciding(t *testing.T) {
	w := newServer(t, oneRoute)
	waiting := &waitingRouter{Router: w.router, entered: make(chan struct{}), left: make(chan error, 1)}
	w.server = extproc.New(extproc.Options{Router: waiting, Ledger: w.ledger, Log: w.log.logger(), Start: time.Unix(created, 0)})
	w.envoy = w.dial()
	x, err := w.envoy.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := chat("m")
	for _, m := range []*extprocv3.ProcessingRequest{w.envoy.HeadersMessage(r), fakeenvoy.BodyMessage(r.Body, true)} {
		if err := x.Stream().Send(m); err != nil {
			t.Fatal(err)
		}
	}
	<-waiting.entered
	x.Reset()
	if err := <-waiting.left; !errors.Is(err, context.Canceled) {
		t.Errorf("the wait ended with %v", err)
	}
	w.wantIdle()
	if decided, answers := w.sink.count(); decided != 0 || len(answers) != 0 {
		t.Errorf("counted %d decisions, answers %v", decided, answers)
	}
}

// waitingRouter waits as long as the client does.
type waitingRouter struct {
	extproc.Router
	entered chan struct{}
	left    chan error
}

func (r *waitingRouter) Decide(ctx context.Context, _ *routing.Snapshot, _ *request.Request, _ string) (*routing.Decision, error) {
	close(r.entered)
	<-ctx.Done()
	r.left <- ctx.Err()
	return nil, ctx.Err()
}
