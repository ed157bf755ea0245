package envoy

import (
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	grpclogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/grpc/v3"
	tracingv3 "github.com/envoyproxy/go-control-plane/envoy/type/tracing/v3"

	"github.com/pointsman/pointsman/internal/wire"
)

const httpGRPCLog = "envoy.access_loggers.http_grpc"

// attemptLog writes one entry per upstream attempt, when it ends: all that
// pointsman learns about engines. Metadata is absent from these entries, so the
// decision is named by its request header.
func attemptLog(p *packer) []*accesslogv3.AccessLog {
	common := logConfig(wire.LogAttempt)
	// Microseconds since the attempt's first byte went out. An engine that sends
	// its headers at once is told from its first token by the second.
	for _, tag := range [][2]string{
		{wire.TagFirstHeaderUS, "%COMMON_DURATION(US_TX_BEG:US_RX_BEG:us)%"},
		{wire.TagFirstBodyUS, "%COMMON_DURATION(US_TX_BEG:US_RX_BODY_BEG:us)%"},
		{wire.TagTotalUS, "%COMMON_DURATION(US_TX_BEG:US_RX_END:us)%"},
	} {
		common.CustomTags = append(common.CustomTags, &tracingv3.CustomTag{
			Tag: tag[0], Type: &tracingv3.CustomTag_Value{Value: tag[1]},
		})
	}
	return []*accesslogv3.AccessLog{grpcLog(p, nil, &grpclogv3.HttpGrpcAccessLogConfig{
		CommonConfig: common,
		// Envoy's own attempt counter is 0 in these entries.
		AdditionalRequestHeadersToLog:  []string{wire.HeaderDecision, wire.HeaderAttemptCount},
		AdditionalResponseHeadersToLog: []string{wire.HeaderRetryAfter},
	})}
}

// requestLog writes one entry per answer that no engine made, or that did not
// end well: any response flag, or no decision. Nothing is sent for a good answer.
func requestLog(p *packer) []*accesslogv3.AccessLog {
	flagged := &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ResponseFlagFilter{
		ResponseFlagFilter: &accesslogv3.ResponseFlagFilter{},
	}}
	undecided := headerFilter(&routev3.HeaderMatcher{
		Name:                 wire.HeaderDecision,
		HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true},
		InvertMatch:          true,
	})
	filter := &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_OrFilter{
		OrFilter: &accesslogv3.OrFilter{Filters: []*accesslogv3.AccessLogFilter{flagged, undecided}},
	}}
	return []*accesslogv3.AccessLog{grpcLog(p, filter, &grpclogv3.HttpGrpcAccessLogConfig{
		CommonConfig:                  logConfig(wire.LogRequest),
		AdditionalRequestHeadersToLog: []string{wire.HeaderDecision},
	})}
}

// logConfig is common to both logs. Entries are not batched: a count that moves
// during a failover has to move now.
func logConfig(name string) *grpclogv3.CommonGrpcAccessLogConfig {
	return &grpclogv3.CommonGrpcAccessLogConfig{
		LogName:             name,
		GrpcService:         pointsmanService(),
		TransportApiVersion: corev3.ApiVersion_V3,
		BufferSizeBytes:     u32(0),
	}
}

func grpcLog(p *packer, filter *accesslogv3.AccessLogFilter, config *grpclogv3.HttpGrpcAccessLogConfig) *accesslogv3.AccessLog {
	return &accesslogv3.AccessLog{
		Name:       httpGRPCLog,
		Filter:     filter,
		ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: p.pack(config)},
	}
}

func headerFilter(m *routev3.HeaderMatcher) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_HeaderFilter{
		HeaderFilter: &accesslogv3.HeaderFilter{Header: m},
	}}
}
