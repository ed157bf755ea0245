package fakeenvoy

import (
	"context"
	"strconv"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	logv3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	alsv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pointsman/pointsman/internal/wire"
)

// Log is the stream of one access log.
type Log struct {
	name   string
	named  bool
	stream alsv3.AccessLogService_StreamAccessLogsClient
}

// Log opens a stream for the log of this name.
func (e *Envoy) Log(ctx context.Context, name string) (*Log, error) {
	stream, err := e.logs.StreamAccessLogs(ctx)
	if err != nil {
		return nil, err
	}
	return &Log{name: name, stream: stream}, nil
}

// Send sends entries in one message. The first message names the log.
func (l *Log) Send(entries ...*logv3.HTTPAccessLogEntry) error {
	m := &alsv3.StreamAccessLogsMessage{LogEntries: &alsv3.StreamAccessLogsMessage_HttpLogs{
		HttpLogs: &alsv3.StreamAccessLogsMessage_HTTPAccessLogEntries{LogEntry: entries},
	}}
	if !l.named {
		m.Identifier = &alsv3.StreamAccessLogsMessage_Identifier{
			Node: &corev3.Node{Id: "fake", Cluster: "fake"}, LogName: l.name,
		}
		l.named = true
	}
	return l.stream.Send(m)
}

// Close ends the stream. When it returns, every entry was read.
func (l *Log) Close() error {
	_, err := l.stream.CloseAndRecv()
	return err
}

// Attempt describes an attempt that ended, as Envoy's router sees it.
type Attempt struct {
	Decision string
	Cluster  string
	Number   int
	Status   int // 0 = no response headers
	// Flags are the entry's response flags; nil = none.
	Flags      *logv3.ResponseFlags
	RetryAfter string
	// Times from the attempt's start; 0 = the point was not reached.
	FirstHeader, FirstBody, Total time.Duration
}

// Entry is the log entry of an attempt, with the fields that Envoy fills.
func (a Attempt) Entry() *logv3.HTTPAccessLogEntry {
	e := &logv3.HTTPAccessLogEntry{
		CommonProperties: &logv3.AccessLogCommon{
			UpstreamCluster: a.Cluster,
			ResponseFlags:   a.Flags,
			CustomTags:      make(map[string]string),
			AccessLogType:   logv3.AccessLogType_UpstreamEnd,
		},
		ProtocolVersion: logv3.HTTPAccessLogEntry_HTTP11,
		Request: &logv3.HTTPRequestProperties{
			RequestMethod:  corev3.RequestMethod_POST,
			Path:           "/v1/chat/completions",
			RequestHeaders: map[string]string{wire.HeaderDecision: a.Decision, wire.HeaderAttemptCount: strconv.Itoa(a.Number)},
		},
		Response: &logv3.HTTPResponseProperties{ResponseHeaders: make(map[string]string)},
	}
	for tag, d := range map[string]time.Duration{
		wire.TagFirstHeaderUS: a.FirstHeader, wire.TagFirstBodyUS: a.FirstBody, wire.TagTotalUS: a.Total,
	} {
		if d > 0 {
			e.CommonProperties.CustomTags[tag] = strconv.FormatInt(d.Microseconds(), 10)
		}
	}
	if a.Total > 0 {
		e.CommonProperties.TimeToLastUpstreamRxByte = durationpb.New(a.Total)
	}
	if a.Status != 0 {
		e.Response.ResponseCode = wrapperspb.UInt32(uint32(a.Status))
		e.Response.ResponseCodeDetails = "via_upstream"
	}
	if a.RetryAfter != "" {
		e.Response.ResponseHeaders[wire.HeaderRetryAfter] = a.RetryAfter
	}
	return e
}
