package extproc

import (
	"context"
	"errors"
	"strings"

	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pointsman/pointsman/internal/request"
	"github.com/pointsman/pointsman/internal/routing"
	"github.com/pointsman/pointsman/internal/wire"
)

// phase is how far a conversation has come.
type phase uint8

const (
	begun   phase = iota // no message of the request yet
	asked                // the headers were heard, the body is awaited
	decided              // the request is on its way, or was answered
)

// conversation is one stream.
type conversation struct {
	server  *Server
	phase   phase
	headers headers
	path    string // with its query
	caller  string // "" = anonymous

	// decision is what the ledger is owed the end of.
	decision *routing.Decision
	// scratch holds what the reply is made of, until it was sent.
	scratch *scratch
}

// end is the one place where a request ends.
func (c *conversation) end() {
	c.sent()
	if c.decision != nil {
		c.server.opts.Ledger.StreamEnded(c.decision.Number)
	}
}

// sent says that the last reply is no longer referred to.
func (c *conversation) sent() {
	if c.scratch != nil {
		c.server.release(c.scratch)
		c.scratch = nil
	}
}

// answer gives the reply to a message, nil if there is none; last says that the
// stream ends after it. The request is lost when its handling panics, the process is not.
func (c *conversation) answer(ctx context.Context, in *extprocv3.ProcessingRequest) (out *extprocv3.ProcessingResponse, last bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.scratch = nil // in whatever state: not to be used again
			out, last, err = c.panicked(p), true, nil
		}
	}()
	if c.phase == begun {
		if setting, value := unusable(in); setting != "" {
			c.server.reportSetting(setting, value)
			return c.refuse(wire.ErrInternal, "", internalError, 0), true, nil
		}
	}
	switch m := in.Request.(type) {
	case *extprocv3.ProcessingRequest_RequestHeaders:
		return c.onHeaders(ctx, in, m.RequestHeaders)
	case *extprocv3.ProcessingRequest_RequestBody:
		return c.onBody(ctx, m.RequestBody.GetBody())
	case *extprocv3.ProcessingRequest_RequestTrailers:
		return c.onTrailers()
	// Nothing of a response is asked for; a filter that sends it all the same
	// waits for a reply.
	case *extprocv3.ProcessingRequest_ResponseHeaders:
		return c.server.empty.responseHeaders, false, nil
	case *extprocv3.ProcessingRequest_ResponseBody:
		return c.server.empty.responseBody, false, nil
	case *extprocv3.ProcessingRequest_ResponseTrailers:
		return c.server.empty.responseTrailers, false, nil
	}
	if in.ClientWindowUpdate != nil {
		return nil, false, nil // flow control needs no reply
	}
	return nil, false, status.Error(codes.InvalidArgument, "ext_proc message of an unknown kind")
}

// unusable names the setting of the filter, and its value, under which no choice can be
// made on the body. A proxy too old to tell its body mode gets the benefit of the doubt.
func unusable(first *extprocv3.ProcessingRequest) (setting, value string) {
	if first.ObservabilityMode {
		return "observability_mode", "true"
	}
	const body = "processing_mode.request_body_mode"
	if p := first.ProtocolConfig; p != nil && p.RequestBodyMode != filterv3.ProcessingMode_BUFFERED {
		return body, p.RequestBodyMode.String()
	}
	switch first.Request.(type) {
	case *extprocv3.ProcessingRequest_RequestBody, *extprocv3.ProcessingRequest_RequestTrailers:
		return "processing_mode.request_header_mode", filterv3.ProcessingMode_SKIP.String()
	}
	return "", ""
}

func (c *conversation) onHeaders(ctx context.Context, in *extprocv3.ProcessingRequest, m *extprocv3.HttpHeaders) (*extprocv3.ProcessingResponse, bool, error) {
	if c.phase != begun {
		return c.server.empty.requestHeaders, false, nil
	}
	c.phase = asked
	c.headers.list = m.GetHeaders().GetHeaders()
	c.path = c.headers.Get(":path")
	method := c.headers.Get(":method")
	if method == "CONNECT" || c.headers.upgrade() {
		return c.refuse(wire.ErrNotSupported, "", "CONNECT and upgrades are not supported", 0), true, nil
	}
	snapshot := c.server.opts.Router.Snapshot()
	c.caller = c.server.callerOf(&snapshot.Config.Callers, in, &c.headers)
	if method == "GET" || method == "HEAD" {
		if id, ok := modelsPath(c.path); ok {
			return c.models(snapshot, id), true, nil
		}
	}
	if !m.GetEndOfStream() {
		return c.server.empty.requestHeaders, false, nil
	}
	return c.decide(ctx, snapshot, nil)
}

// onBody decides. In BUFFERED mode the one body message is the whole body, also when
// trailers follow and its end-of-stream flag is not set; one that comes after the
// decision is a repetition.
func (c *conversation) onBody(ctx context.Context, body []byte) (*extprocv3.ProcessingResponse, bool, error) {
	if c.phase == decided {
		return c.server.empty.requestBody, false, nil
	}
	if body == nil {
		body = []byte{} // there was a message
	}
	return c.decide(ctx, c.server.opts.Router.Snapshot(), body)
}

// decide reads and chooses. A body of nil is none, and the request's headers are answered.
func (c *conversation) decide(ctx context.Context, snapshot *routing.Snapshot, body []byte) (*extprocv3.ProcessingResponse, bool, error) {
	c.phase = decided
	c.scratch = c.server.take()
	q := &c.scratch.request
	err := snapshot.Reader.Read(c.path, &c.headers, body, q)
	if err == nil && q.Model == "" {
		err = request.MissingModel
	}
	if err != nil {
		byPath := (errors.Is(err, request.MissingModel) || errors.Is(err, request.MissingBody)) && snapshot.ServesPath(q.Path)
		if !byPath {
			return c.refuseFault(err, snapshot), true, nil
		}
		// Its path says where it goes; nothing of it says anything to a strategy.
		path := q.Path
		q.Reset()
		q.Path = path
	}
	d, err := c.server.opts.Router.Decide(ctx, snapshot, q, c.caller)
	if err != nil {
		var r *routing.Refusal
		if errors.As(err, &r) {
			return c.refuse(r.Cause, r.Pool, r.Message, r.RetryAfter), true, nil
		}
		return nil, false, err // the client has gone
	}
	c.decision = d
	c.server.opts.Ledger.Open(d)
	if c.scratch.outgrows(d, body, snapshot.Config.Limits.Body) {
		return c.refuseFault(request.BodyTooLarge, snapshot), true, nil
	}
	// Another snapshot may have come into force, and decided.
	p := c.server.preparedFor(c.server.opts.Router.Snapshot())
	var client credentials
	if len(p.passthrough) > 0 {
		client.authorization = strings.Join(c.headers.Values(wire.HeaderAuthorization), ", ")
		client.xAPIKey = strings.Join(c.headers.Values(wire.HeaderXAPIKey), ", ")
	}
	c.headers.list = nil
	return c.scratch.reply(p, d, body, &client), false, nil
}

// onTrailers says which fault it is that trailers came and no body did: Envoy sends no
// body message for an empty one, and after the trailers it routes no more.
func (c *conversation) onTrailers() (*extprocv3.ProcessingResponse, bool, error) {
	if c.phase == decided {
		return c.server.empty.requestTrailers, false, nil
	}
	return c.refuse(wire.ErrMissingBody, "", request.MissingBody.Error(), 0), true, nil
}
