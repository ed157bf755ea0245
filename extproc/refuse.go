package extproc

import (
	"errors"
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/pointsman/pointsman/internal/ledger"
	"github.com/pointsman/pointsman/internal/request"
	"github.com/pointsman/pointsman/internal/routing"
	"github.com/pointsman/pointsman/internal/wire"
)

// internalError is all that a client learns about a fault of ours.
const internalError = "internal error"

// refuse answers a request with an error and counts it. Pool is the pool that it was
// meant for, if that is known; retryAfter is in seconds, 0 = not said.
func (c *conversation) refuse(e wire.Error, pool, message string, retryAfter int) *extprocv3.ProcessingResponse {
	c.phase = decided
	a := ledger.Answer{Pool: pool, Status: e.Status, Code: e.Code}
	if c.decision != nil {
		a.Decision = c.decision.ID
	}
	c.server.opts.Ledger.Refused(a)
	return c.errorAnswer(e, message, retryAfter)
}

// refuseFault answers a request that could not be read.
func (c *conversation) refuseFault(err error, snapshot *routing.Snapshot) *extprocv3.ProcessingResponse {
	var fault request.Fault
	if !errors.As(err, &fault) {
		return c.refuse(wire.ErrInternal, "", internalError, 0)
	}
	e, message := routing.FaultAnswer(fault, snapshot.Config.Limits.Body)
	return c.refuse(e, "", message, 0)
}

// panicked answers the request whose handling panicked with p. What counts answers may
// have been the one to panic.
func (c *conversation) panicked(p any) *extprocv3.ProcessingResponse {
	c.server.reportPanic(p)
	func() {
		defer func() { _ = recover() }()
		c.refuse(wire.ErrInternal, "", internalError, 0)
	}()
	return c.errorAnswer(wire.ErrInternal, internalError, 0)
}

func (c *conversation) errorAnswer(e wire.Error, message string, retryAfter int) *extprocv3.ProcessingResponse {
	out := immediate(e.Status, e.Body(wire.DialectOf(c.path), message), e.Detail())
	if retryAfter > 0 {
		m := out.ImmediateResponse.Headers
		m.SetHeaders = append(m.SetHeaders, setHeader(wire.HeaderRetryAfter, strconv.AppendInt(nil, int64(retryAfter), 10)))
	}
	return &extprocv3.ProcessingResponse{Response: out}
}

// immediate is an answer that Envoy gives the client at once. The details tell
// Envoy's reply mapper, and the request log, that it is ours.
func immediate(status int, body []byte, details string) *extprocv3.ProcessingResponse_ImmediateResponse {
	return &extprocv3.ProcessingResponse_ImmediateResponse{ImmediateResponse: &extprocv3.ImmediateResponse{
		Status: &typev3.HttpStatus{Code: typev3.StatusCode(status)},
		Headers: &extprocv3.HeaderMutation{SetHeaders: []*corev3.HeaderValueOption{
			setHeader("content-type", []byte("application/json")),
		}},
		Body:    body,
		Details: details,
	}}
}

// setHeader sets a header to one value, whatever the request or answer had there.
func setHeader(name string, value []byte) *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{
		Header:       &corev3.HeaderValue{Key: name, RawValue: value},
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}
}
