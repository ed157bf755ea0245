package envoy_test

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	logdatav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	logv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pointsman/pointsman/internal/wire"
)

// What a test's client tells the stub to do.
const (
	headerList    = "x-test-list"    // clusters, separated by spaces
	headerHeaders = "x-test-headers" // more request headers: name=value
	headerMeta    = "x-test-meta"    // more of the decision's metadata: JSON
)

// stub stands in for pointsman: an ext_proc server that does what the client's
// headers say, and a log service that keeps what it hears.
type stub struct {
	server *grpc.Server

	mu       sync.Mutex
	asked    int // header messages heard
	attempts []*logdatav3.HTTPAccessLogEntry
	requests []*logdatav3.HTTPAccessLogEntry
}

func startStub(t testing.TB, socket string) *stub {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := &stub{server: grpc.NewServer(grpc.MaxRecvMsgSize(64 << 20))}
	extprocv3.RegisterExternalProcessorServer(s.server, s)
	logv3.RegisterAccessLogServiceServer(s.server, s)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.server.Serve(l)
	}()
	t.Cleanup(func() {
		s.server.Stop()
		<-done
	})
	return s
}

func (s *stub) Process(stream extprocv3.ExternalProcessor_ProcessServer) error {
	var list []string
	var extra [][2]string
	meta := map[string]any{}
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) || status.Code(err) == codes.Canceled {
			return nil
		}
		if err != nil {
			return err
		}
		resp := &extprocv3.ProcessingResponse{}
		switch m := req.Request.(type) {
		case *extprocv3.ProcessingRequest_RequestHeaders:
			s.mu.Lock()
			s.asked++
			s.mu.Unlock()
			for _, h := range m.RequestHeaders.GetHeaders().GetHeaders() {
				switch h.Key {
				case headerList:
					list = strings.Fields(string(h.RawValue))
				case headerMeta:
					if err := json.Unmarshal(h.RawValue, &meta); err != nil {
						return err
					}
				case headerHeaders:
					name, value, _ := strings.Cut(string(h.RawValue), "=")
					extra = append(extra, [2]string{name, value})
				}
			}
			common := &extprocv3.CommonResponse{}
			if m.RequestHeaders.EndOfStream {
				if len(list) == 0 {
					resp.Response = immediate()
					break
				}
				common = decide(resp, list, meta, extra)
			}
			resp.Response = &extprocv3.ProcessingResponse_RequestHeaders{
				RequestHeaders: &extprocv3.HeadersResponse{Response: common},
			}
		case *extprocv3.ProcessingRequest_RequestBody:
			if len(list) == 0 {
				resp.Response = immediate()
				break
			}
			resp.Response = &extprocv3.ProcessingResponse_RequestBody{
				RequestBody: &extprocv3.BodyResponse{Response: decide(resp, list, meta, extra)},
			}
		case *extprocv3.ProcessingRequest_RequestTrailers:
			resp.Response = &extprocv3.ProcessingResponse_RequestTrailers{
				RequestTrailers: &extprocv3.TrailersResponse{},
			}
		default:
			return status.Errorf(codes.Internal, "unexpected %T", m)
		}
		if err := stream.Send(resp); err != nil {
			return nil
		}
	}
}

// decide gives the decision in the form that design and extproc agree on.
func decide(resp *extprocv3.ProcessingResponse, list []string, meta map[string]any, extra [][2]string) *extprocv3.CommonResponse {
	var groups []any
	for _, name := range list {
		groups = append(groups, map[string]any{
			"name":     name,
			"clusters": []any{map[string]any{"cluster_name": name, "weight": 1}},
		})
	}
	meta[wire.KeyPriorityGroups] = groups
	inner, err := structpb.NewStruct(meta)
	if err != nil {
		panic(err)
	}
	resp.DynamicMetadata = &structpb.Struct{Fields: map[string]*structpb.Value{
		wire.DecisionNamespace: structpb.NewStructValue(inner),
	}}
	headers := append([][2]string{
		{wire.HeaderDecision, "stub-1"},
		{wire.HeaderMaxRetries, string(rune('0' + len(list) - 1))},
	}, extra...)
	mutation := &extprocv3.HeaderMutation{RemoveHeaders: []string{"authorization", "x-api-key"}}
	for _, h := range headers {
		mutation.SetHeaders = append(mutation.SetHeaders, &corev3.HeaderValueOption{
			Header:       &corev3.HeaderValue{Key: h[0], RawValue: []byte(h[1])},
			AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
		})
	}
	return &extprocv3.CommonResponse{HeaderMutation: mutation, ClearRouteCache: true}
}

// immediate is one of pointsman's own answers.
func immediate() *extprocv3.ProcessingResponse_ImmediateResponse {
	return &extprocv3.ProcessingResponse_ImmediateResponse{ImmediateResponse: &extprocv3.ImmediateResponse{
		Status:  &typev3.HttpStatus{Code: typev3.StatusCode_NotFound},
		Body:    []byte(`{"own":"answer"}`),
		Details: wire.ErrModelNotFound.Detail(),
	}}
}

func (s *stub) StreamAccessLogs(stream logv3.AccessLogService_StreamAccessLogsServer) error {
	name := ""
	for {
		msg, err := stream.Recv()
		if err != nil {
			return nil
		}
		if id := msg.GetIdentifier(); id != nil {
			name = id.GetLogName()
		}
		s.mu.Lock()
		switch name {
		case wire.LogAttempt:
			s.attempts = append(s.attempts, msg.GetHttpLogs().GetLogEntry()...)
		case wire.LogRequest:
			s.requests = append(s.requests, msg.GetHttpLogs().GetLogEntry()...)
		}
		s.mu.Unlock()
	}
}

func (s *stub) heard() (asked int, attempts, requests []*logdatav3.HTTPAccessLogEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked, append([]*logdatav3.HTTPAccessLogEntry(nil), s.attempts...), append([]*logdatav3.HTTPAccessLogEntry(nil), s.requests...)
}
