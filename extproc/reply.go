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

// scratch is what one decision is made of: what was read, and the reply. It belongs to one
// request from the arrival of the body until the reply was sent; gRPC has
// encoded a message when SendMsg returns and refers to it no more, as long as no
// stats handler or tracing is installed that keeps messages.
type scratch struct {
	request request.Request

	response extprocv3.ProcessingResponse
	oneof    extprocv3.ProcessingResponse_RequestBody
	body     extprocv3.BodyResponse
	common   extprocv3.CommonResponse
	headers  extprocv3.HeaderMutation
	decision *corev3.HeaderValueOption
	length   *corev3.HeaderValueOption
	mutation extprocv3.BodyMutation
	replaced extprocv3.BodyMutation_Body
	metadata []byte
	groups   [][]byte
}

func newScratch() *scratch {
	s := &scratch{
		decision: setHeader(wire.HeaderDecision, nil),
		length:   setHeader("content-length", nil),
	}
	s.response.Response = &s.oneof
	s.oneof.RequestBody = &s.body
	s.body.Response = &s.common
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

// reply is the answer to the body message: where to go. The decision has its id.
func (s *scratch) reply(pool *preparedPool, d *routing.Decision, body []byte) *extprocv3.ProcessingResponse {
	kind := &pool.kinds[d.Kind]
	first := pool.targets[d.Entry(0)]

	set := s.headers.SetHeaders[:0]
	if first.cluster != nil {
		set = append(set, first.cluster)
	}
	s.decision.Header.RawValue = append(s.decision.Header.RawValue[:0], d.ID...)
	set = append(set, s.decision, pool.retries[d.Len()-1])
	if kind.timeout != nil {
		set = append(set, kind.timeout)
	}
	s.headers.RemoveHeaders = kind.remove
	s.common.BodyMutation = nil
	if model := d.Entry(0).Model; model != s.request.Model {
		if s.request.Decoded != nil {
			body = s.request.Decoded
			s.headers.RemoveHeaders = append(slices.Clip(kind.remove), "content-encoding")
		}
		s.replaced.Body = s.request.AppendModel(s.replaced.Body[:0], body, model)
		s.common.BodyMutation = &s.mutation
		s.length.Header.RawValue = strconv.AppendInt(s.length.Header.RawValue[:0], int64(len(s.replaced.Body)), 10)
		set = append(set, s.length)
	}
	s.headers.SetHeaders = set

	s.groups = s.groups[:0]
	for k := range d.Len() {
		s.groups = append(s.groups, pool.targets[d.Entry(k)].group)
	}
	s.metadata = appendMetadata(s.metadata[:0], s.groups, first.model)
	s.response.ProtoReflect().SetUnknown(s.metadata)
	return &s.response
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
