package extproc

import (
	"slices"
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/pointsman/pointsman/internal/request"
	"github.com/pointsman/pointsman/internal/routing"
	"github.com/pointsman/pointsman/internal/wire"
)

// maxKept bounds a body whose scratch is kept for the next request, in bytes: few
// requests are larger, and a pool of scratch that has seen the body limit would
// hold that much for every core.
const maxKept = 1 << 20

// maxSpans bounds the places of a model name that are told to Envoy, some 40 bytes each. A
// body names its model once; one that does it more often than this is changed here, once,
// and served only by targets that want the same.
const maxSpans = 500

// scratch is what one decision is made of: what was read, and the reply. It belongs to one
// request from the arrival of the body until the reply was sent; gRPC has
// encoded a message when SendMsg returns and refers to it no more, as long as no
// stats handler or tracing is installed that keeps messages.
type scratch struct {
	request request.Request

	response  extprocv3.ProcessingResponse
	onBody    extprocv3.ProcessingResponse_RequestBody
	onHeaders extprocv3.ProcessingResponse_RequestHeaders // of a request without a body
	body      extprocv3.BodyResponse
	head      extprocv3.HeadersResponse
	common    extprocv3.CommonResponse
	headers   extprocv3.HeaderMutation
	decision  *corev3.HeaderValueOption
	length    *corev3.HeaderValueOption
	mutation  extprocv3.BodyMutation
	replaced  extprocv3.BodyMutation_Body
	metadata  []byte
	groups    [][]byte
	fields    []byte // of the metadata, beside the groups
	quote     request.Request
	text      []byte
}

func newScratch() *scratch {
	s := &scratch{
		decision: setHeader(wire.HeaderDecision, nil),
		length:   setHeader("content-length", nil),
	}
	s.onBody.RequestBody = &s.body
	s.body.Response = &s.common
	s.onHeaders.RequestHeaders = &s.head
	s.head.Response = &s.common
	s.quote.ModelSpans = []request.Span{{}}
	s.common.HeaderMutation = &s.headers
	s.common.ClearRouteCache = true
	s.mutation.Mutation = &s.replaced
	return s
}

func (s *Server) take() *scratch {
	if kept, ok := s.scratch.Get().(*scratch); ok {
		return kept
	}
	return newScratch()
}

func (s *Server) release(used *scratch) {
	if cap(used.replaced.Body) > maxKept || cap(used.request.Decoded) > maxKept {
		return
	}
	s.scratch.Put(used)
}

// reply is the answer to the body message, or to the headers of a request that has no
// body (nil): where to go. The decision has its id.
func (s *scratch) reply(p *prepared, d *routing.Decision, body []byte, client *credentials) *extprocv3.ProcessingResponse {
	pool := p.pool(d.Pool)
	kind := &pool.kinds[d.Kind]
	n, split := s.entries(p, d)
	first := p.target(d.Entry(0))

	set := s.headers.SetHeaders[:0]
	if first.cluster != nil {
		set = append(set, first.cluster)
	}
	s.decision.Header.RawValue = append(s.decision.Header.RawValue[:0], d.ID...)
	set = append(set, s.decision, pool.retry(n-1))
	if kind.timeout != nil {
		set = append(set, kind.timeout)
	}
	s.headers.RemoveHeaders = kind.remove
	s.common.BodyMutation = nil
	if s.replace(d.Model(0), split, body) {
		s.common.BodyMutation = &s.mutation
		s.length.Header.RawValue = strconv.AppendInt(s.length.Header.RawValue[:0], int64(len(s.replaced.Body)), 10)
		set = append(set, s.length)
		if s.request.Decoded != nil {
			s.headers.RemoveHeaders = append(slices.Clip(kind.remove), "content-encoding")
		}
	}
	s.headers.SetHeaders = set

	s.groups, s.fields = s.groups[:0], s.fields[:0]
	anyModel, passthrough := "", false
	for k := range n {
		t := p.target(d.Entry(k))
		s.groups = append(s.groups, t.group)
		passthrough = passthrough || t.passthrough
		if t.anyModel {
			anyModel = d.Model(k)
		}
	}
	if visible(anyModel) {
		s.fields = appendText(s.fields, wire.KeyModel, anyModel)
	}
	if d.Variant != "" {
		s.fields = appendText(s.fields, wire.KeyVariant, d.Variant)
	}
	if split {
		s.appendSpans(anyModel)
	}
	if passthrough {
		s.fields = client.append(s.fields)
	}
	s.metadata = appendMetadata(s.metadata[:0], s.groups, s.fields)
	s.response.Response = &s.onBody
	if body == nil {
		s.response.Response = &s.onHeaders
	}
	s.response.ProtoReflect().SetUnknown(s.metadata)
	return &s.response
}

// entries tells how many entries of the list Envoy is told, and whether the body differs
// between them. Where it does, each target's cluster puts its own model into it; where they have
// no means to, or the model stands in the body too often, the list ends before the
// first entry that wants another model than the first one.
func (s *scratch) entries(p *prepared, d *routing.Decision) (n int, split bool) {
	if len(s.request.ModelSpans) == 0 {
		return d.Len(), false
	}
	for k := 1; k < d.Len(); k++ {
		if d.Model(k) == d.Model(0) {
			continue
		}
		if p.chained && p.chainedNow() && len(s.request.ModelSpans) <= maxSpans {
			return d.Len(), true
		}
		return k, false
	}
	return d.Len(), false
}

// replace makes another body, if one is needed: with the model of all entries, or, where they differ
// and it came compressed, as it is without its encoding.
func (s *scratch) replace(model string, split bool, body []byte) bool {
	switch {
	case len(s.request.ModelSpans) == 0:
		return false
	case split:
		if s.request.Decoded == nil {
			return false
		}
		s.replaced.Body = append(s.replaced.Body[:0], s.request.Decoded...)
		return true
	case model == s.request.Model:
		return false
	}
	if s.request.Decoded != nil {
		body = s.request.Decoded
	}
	s.replaced.Body = s.request.AppendModel(s.replaced.Body[:0], body, model)
	return true
}

// appendSpans says where the model stands, and for targets that serve whatever is asked
// what to put there.
func (s *scratch) appendSpans(anyModel string) {
	s.fields = appendSpans(s.fields, s.request.ModelSpans)
	s.fields = appendText(s.fields, wire.KeyAsked, s.request.Model)
	if s.request.Form {
		s.fields = appendTrue(s.fields, wire.KeyForm)
	}
	if anyModel != "" {
		s.quote.Form = s.request.Form
		s.text = s.quote.AppendModel(s.text[:0], nil, anyModel)
		s.fields = appendText(s.fields, wire.KeyText, s.text)
	}
}

// credentials are the client's own, for targets to which they are passed on.
type credentials struct{ authorization, xAPIKey string }

func (c *credentials) append(dst []byte) []byte {
	if c.authorization != "" {
		dst = appendText(dst, wire.KeyAuthorization, c.authorization)
	}
	if c.xAPIKey != "" {
		dst = appendText(dst, wire.KeyXAPIKey, c.xAPIKey)
	}
	return dst
}

// empty are the replies that change nothing. They are shared by all streams.
type empty struct {
	requestHeaders, requestBody, requestTrailers    *extprocv3.ProcessingResponse
	responseHeaders, responseBody, responseTrailers *extprocv3.ProcessingResponse
}

func newEmpty() empty {
	return empty{
		requestHeaders: &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestHeaders{
			RequestHeaders: &extprocv3.HeadersResponse{},
		}},
		requestBody: &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestBody{
			RequestBody: &extprocv3.BodyResponse{},
		}},
		requestTrailers: &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestTrailers{
			RequestTrailers: &extprocv3.TrailersResponse{},
		}},
		responseHeaders: &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseHeaders{
			ResponseHeaders: &extprocv3.HeadersResponse{},
		}},
		responseBody: &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseBody{
			ResponseBody: &extprocv3.BodyResponse{},
		}},
		responseTrailers: &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseTrailers{
			ResponseTrailers: &extprocv3.TrailersResponse{},
		}},
	}
}
