package envoy_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	grpclogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/grpc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	earlyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/early_header_mutation/header_mutation/v3"
	priorityv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/router/cluster_specifiers/priority_group/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pointsman/pointsman/internal/config"
	"github.com/pointsman/pointsman/internal/wire"
)

// equal is one setting and what it must be.
type equal struct {
	setting   string
	got, want any
}

func check(t *testing.T, settings ...equal) {
	t.Helper()
	for _, s := range settings {
		if diff := cmp.Diff(s.want, s.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", s.setting, diff)
		}
	}
}

func unpack[M proto.Message](t *testing.T, a *anypb.Any, m M) M {
	t.Helper()
	if err := a.UnmarshalTo(m); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestListenerSettings holds what was found on a real Envoy and must not be lost.
func TestListenerSettings(t *testing.T) {
	res := build(t, testConfig())
	hcm := connectionManager(t, res)
	check(t,
		// limits.body may be as small as 64 KiB, and the larger of the two counts.
		equal{"connection buffer", res.Listener.GetPerConnectionBufferLimitBytes().GetValue(), uint32(64 << 10)},
		equal{"server header", hcm.GetServerHeaderTransformation().String(), "PASS_THROUGH"},
		equal{"stream_idle_timeout", hcm.GetStreamIdleTimeout().AsDuration(), time.Duration(0)},
		equal{"request_timeout", hcm.GetRequestTimeout() == nil, true},
		equal{"request_headers_timeout", hcm.GetRequestHeadersTimeout().AsDuration(), 300 * time.Second},
		equal{"max_request_headers_kb", hcm.GetMaxRequestHeadersKb().GetValue(), uint32(60)},
		equal{"use_remote_address", hcm.GetUseRemoteAddress().GetValue(), true},
		equal{"normalize_path", hcm.GetNormalizePath().GetValue(), true},
		equal{"accept_http_10", hcm.GetHttpProtocolOptions().GetAcceptHttp_10(), true},
		equal{"default_host_for_http_10", hcm.GetHttpProtocolOptions().GetDefaultHostForHttp_10(), "pointsman"},
		equal{"enable_trailers", hcm.GetHttpProtocolOptions().GetEnableTrailers(), true},
		equal{"upgrade_configs", len(hcm.GetUpgradeConfigs()), 0},
		equal{"route by RDS", hcm.GetRds().GetRouteConfigName(), wire.RouteName},
		equal{"route by ADS", hcm.GetRds().GetConfigSource().GetAds() != nil, true},
		equal{"filters", len(hcm.GetHttpFilters()), 2},
	)

	early := unpack(t, hcm.GetEarlyHeaderMutationExtensions()[0].GetTypedConfig(), &earlyv3.HeaderMutation{})
	var removed []string
	for _, m := range early.GetMutations() {
		removed = append(removed, m.GetRemove())
	}
	check(t, equal{"early removal", removed, wire.StrippedHeaders()})

	p := unpack(t, hcm.GetHttpFilters()[0].GetTypedConfig(), &extprocv3.ExternalProcessor{})
	mode := p.GetProcessingMode()
	check(t,
		equal{"ext_proc cluster", p.GetGrpcService().GetEnvoyGrpc().GetClusterName(), wire.ClusterPointsman},
		equal{"message_timeout", p.GetMessageTimeout().AsDuration(), 5 * time.Second},
		equal{"failure_mode_allow", p.GetFailureModeAllow(), true},
		equal{"request headers", mode.GetRequestHeaderMode().String(), "SEND"},
		equal{"request body", mode.GetRequestBodyMode().String(), "BUFFERED"},
		equal{"request trailers", mode.GetRequestTrailerMode().String(), "SEND"},
		equal{"response headers", mode.GetResponseHeaderMode().String(), "SKIP"},
		equal{"response body", mode.GetResponseBodyMode().String(), "NONE"},
		equal{"response trailers", mode.GetResponseTrailerMode().String(), "SEND"},
		equal{"allow_envoy", p.GetMutationRules().GetAllowEnvoy().GetValue(), true},
		equal{"allow_all_routing", p.GetMutationRules().GetAllowAllRouting().GetValue(), true},
		equal{"receiving namespaces", p.GetMetadataOptions().GetReceivingNamespaces().GetUntyped(), []string{wire.DecisionNamespace}},
		equal{"attributes", p.GetRequestAttributes(), []string{"source.address"}},
	)
}

func TestLogSettings(t *testing.T) {
	hcm := connectionManager(t, build(t, testConfig()))
	router := unpack(t, hcm.GetHttpFilters()[1].GetTypedConfig(), &routerv3.Router{})
	attempt := unpack(t, router.GetUpstreamLog()[0].GetTypedConfig(), &grpclogv3.HttpGrpcAccessLogConfig{})
	tags := map[string]string{}
	for _, tag := range attempt.GetCommonConfig().GetCustomTags() {
		tags[tag.GetTag()] = tag.GetValue()
	}
	check(t,
		equal{"attempt log", attempt.GetCommonConfig().GetLogName(), wire.LogAttempt},
		equal{"attempt log, batch", attempt.GetCommonConfig().GetBufferSizeBytes().GetValue(), uint32(0)},
		equal{"attempt log, request headers", attempt.GetAdditionalRequestHeadersToLog(), []string{wire.HeaderDecision, wire.HeaderAttemptCount}},
		equal{"attempt log, response headers", attempt.GetAdditionalResponseHeadersToLog(), []string{wire.HeaderRetryAfter}},
		equal{"attempt log, filter", router.GetUpstreamLog()[0].GetFilter() == nil, true},
		equal{"attempt log, tags", tags, map[string]string{
			wire.TagFirstHeaderUS: "%COMMON_DURATION(US_TX_BEG:US_RX_BEG:us)%",
			wire.TagFirstBodyUS:   "%COMMON_DURATION(US_TX_BEG:US_RX_BODY_BEG:us)%",
			wire.TagTotalUS:       "%COMMON_DURATION(US_TX_BEG:US_RX_END:us)%",
		}},
	)
	request := unpack(t, hcm.GetAccessLog()[0].GetTypedConfig(), &grpclogv3.HttpGrpcAccessLogConfig{})
	either := hcm.GetAccessLog()[0].GetFilter().GetOrFilter().GetFilters()
	check(t,
		equal{"request log", request.GetCommonConfig().GetLogName(), wire.LogRequest},
		equal{"request log, batch", request.GetCommonConfig().GetBufferSizeBytes().GetValue(), uint32(0)},
		equal{"request log, any flag", either[0].GetResponseFlagFilter() != nil && len(either[0].GetResponseFlagFilter().GetFlags()) == 0, true},
		equal{"request log, header", either[1].GetHeaderFilter().GetHeader().GetName(), wire.HeaderDecision},
		equal{"request log, absent", either[1].GetHeaderFilter().GetHeader().GetInvertMatch(), true},
	)
}

// TestLocalReplySettings: bodies equal pointsman's own, each kind in both dialects.
func TestLocalReplySettings(t *testing.T) {
	cfg := connectionManager(t, build(t, testConfig())).GetLocalReplyConfig()
	if cfg.GetBodyFormat() != nil {
		t.Error("a body format at the top would rewrite our own answers")
	}
	mappers := cfg.GetMappers()
	first := mappers[0]
	if first.GetFilter().GetExtensionFilter() == nil || first.GetStatusCode() != nil || first.GetBodyFormatOverride() != nil || first.GetBody() != nil {
		t.Errorf("our own answers do not pass untouched: %v", first)
	}
	byCode := map[string]bool{}
	for _, m := range mappers[1:] {
		format := m.GetBodyFormatOverride()
		if format.GetContentType() != "application/json" {
			t.Errorf("content type %q", format.GetContentType())
		}
		text := format.GetTextFormatSource().GetInlineString()
		var body struct {
			Type  string
			Error struct{ Message, Type, Code string }
		}
		if err := json.Unmarshal([]byte(text), &body); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if strings.Contains(text, "%") {
			t.Errorf("%s is a format with a command in it", text)
		}
		if anthropic := body.Type == "error"; anthropic != (m.GetFilter().GetAndFilter().GetFilters() != nil && len(m.GetFilter().GetAndFilter().GetFilters()) == 2 && strings.Contains(m.GetFilter().String(), wire.AnthropicPathRegex)) {
			t.Errorf("%s has the filter %v", text, m.GetFilter())
		}
		if body.Error.Code != "" {
			byCode[body.Error.Code] = true
		}
	}
	for _, e := range []wire.Error{
		wire.ErrBadRequest, wire.ErrRequestTimeout, wire.ErrBodyTooLarge, wire.ErrHeadersTooLarge,
		wire.ErrInternal, wire.ErrNotSupported, wire.ErrUpstreamFailed, wire.ErrNoTarget, wire.ErrUpstreamTimeout,
	} {
		if !byCode[e.Code] {
			t.Errorf("no local reply is %s", e.Code)
		}
	}
}

func TestRouteSettings(t *testing.T) {
	host := build(t, testConfig()).Route.GetVirtualHosts()[0]
	decided, undecided := host.GetRoutes()[0], host.GetRoutes()[1]
	action := decided.GetRoute()
	retry := action.GetRetryPolicy()
	groups := unpack(t, action.GetInlineClusterSpecifierPlugin().GetExtension().GetTypedConfig(), &priorityv3.PriorityGroupClusterSpecifier{})
	check(t,
		equal{"body limit", host.GetRequestBodyBufferLimit().GetValue(), uint64(32 << 20)},
		equal{"attempt count", host.GetIncludeRequestAttemptCount(), true},
		equal{"response headers", len(host.GetResponseHeadersToAdd()), 6},
		equal{"domains", host.GetDomains(), []string{"*"}},

		equal{"decided by", decided.GetMatch().GetHeaders()[0].GetName(), wire.HeaderDecision},
		equal{"namespace", groups.GetOverrideMetadataNamespace(), wire.DecisionNamespace},
		equal{"default group", groups.GetPriorityGroups()[0].GetClusters()[0].GetClusterName(), wire.ClusterNone},
		equal{"timeout", action.GetTimeout().AsDuration(), time.Duration(0)},
		equal{"idle_timeout", action.GetIdleTimeout().AsDuration(), 600 * time.Second},
		equal{"auto_host_rewrite", action.GetAutoHostRewrite().GetValue(), true},
		equal{"max_stream_duration of a decided request", action.GetMaxStreamDuration() == nil, true},

		equal{"retry_on", retry.GetRetryOn(), "connect-failure,refused-stream,reset,retriable-status-codes,envoy-ratelimited"},
		equal{"statuses", len(retry.GetRetriableStatusCodes()), 102},
		equal{"refresh_cluster_on_retry", retry.GetRefreshClusterOnRetry(), true},
		equal{"num_retries", retry.GetNumRetries().GetValue(), uint32(2)},
		equal{"per_try_timeout", retry.GetPerTryTimeout() == nil, true}, // comes per request
		equal{"per_try_idle_timeout", retry.GetPerTryIdleTimeout().AsDuration(), 600 * time.Second},
		equal{"base", retry.GetRetryBackOff().GetBaseInterval().AsDuration(), 100 * time.Millisecond},
		equal{"max", retry.GetRetryBackOff().GetMaxInterval().AsDuration(), 2 * time.Second},
		equal{"Retry-After", retry.GetRateLimitedRetryBackOff() == nil, true},

		equal{"undecided", undecided.GetRoute().GetCluster(), wire.ClusterNone},
		equal{"undecided, timeout", undecided.GetRoute().GetTimeout().AsDuration(), time.Duration(0)},
		equal{"timeouts.client", undecided.GetRoute().GetMaxStreamDuration().GetMaxStreamDuration().AsDuration(), 300 * time.Second},
	)

	cfg := testConfig()
	cfg.Timeouts = config.Timeouts{Connect: time.Second}
	cfg.Retry.BaseBackoff, cfg.Retry.MaxBackoff = 0, 0
	cfg.Retry.HonourRetryAfter = true
	cfg.ResponseHeaders = false
	host = build(t, cfg).Route.GetVirtualHosts()[0]
	retry = host.GetRoutes()[0].GetRoute().GetRetryPolicy()
	honour := retry.GetRateLimitedRetryBackOff()
	check(t,
		equal{"no idle limit of a stream", host.GetRoutes()[0].GetRoute().GetIdleTimeout().AsDuration(), time.Duration(0)},
		equal{"no idle limit", retry.GetPerTryIdleTimeout() == nil, true},
		equal{"no client limit", host.GetRoutes()[1].GetRoute().GetMaxStreamDuration() == nil, true},
		equal{"no response headers", len(host.GetResponseHeadersToAdd()), 0},
		equal{"smallest base", retry.GetRetryBackOff().GetBaseInterval().AsDuration(), time.Millisecond},
		equal{"Retry-After header", honour.GetResetHeaders()[0].GetName(), "retry-after"},
		equal{"Retry-After format", honour.GetResetHeaders()[0].GetFormat(), routev3.RetryPolicy_SECONDS},
		equal{"Retry-After limit", honour.GetMaxInterval().AsDuration(), 30 * time.Second},
	)
}

// TestStreamIdle: a request as a whole may be silent for idle_secs, or for as long as its
// attempts together may be before their headers.
func TestStreamIdle(t *testing.T) {
	const second = time.Second
	for name, c := range map[string]struct {
		settings string
		want     time.Duration
	}{
		"defaults":       {"", 600 * second},
		"no limit":       {"timeouts: {idle_secs: 0}", 0},
		"long enough":    {"timeouts: {idle_secs: 604800}", 604800 * second},
		"shortest":       {"timeouts: {connect_secs: 1, request_secs: 1, idle_secs: 20}", 20 * second},
		"a second apart": {"timeouts: {connect_secs: 1, request_secs: 1, idle_secs: 9}", (3*(1+1) + 2*2) * second},

		// 3 * (10 + 60) + 2 * 2 for streams; that of whole answers is the time of all attempts.
		"unary, in all":       {"timeouts: {request_secs: {stream: 60, unary: 100}, idle_secs: 100}", 214 * second},
		"unary counts":        {"timeouts: {request_secs: {stream: 60, unary: 500}, idle_secs: 100}", (3*(10+100) + 2*2) * second},
		"unary, goes on":      {"timeouts: {request_secs: {stream: 1, unary: 90}, idle_secs: 100}\nretry: {on_timeout: [unary]}", (3*(10+90) + 2*2) * second},
		"stream, in all":      {"timeouts: {request_secs: {stream: 150, unary: 1}, idle_secs: 100}\nretry: {on_timeout: []}", 150 * second},
		"an attempt, longer":  {"timeouts: {request_secs: {stream: 900, unary: 1}, idle_secs: 100}", (3*(10+100) + 2*2) * second},
		"an attempt, no time": {"timeouts: {request_secs: 0, idle_secs: 100}", (3*(10+100) + 2*2) * second},
		"one attempt":         {"timeouts: {request_secs: 0, idle_secs: 100}\nretry: {max_retries: 0}", 110 * second},
		"long waits":          {"timeouts: {idle_secs: 100}\nretry: {max_backoff_ms: 50000, on_timeout: [stream, unary]}", (3*(10+100) + 2*50) * second},
		"Retry-After":         {"timeouts: {request_secs: {stream: 60, unary: 100}, idle_secs: 100}\nretry: {honour_retry_after: true}", (3*(10+60) + 2*45) * second},
		"Retry-After, waits longer": {
			"timeouts: {request_secs: {stream: 60, unary: 100}, idle_secs: 100}\nretry: {honour_retry_after: true, max_backoff_ms: 60000}", (3*(10+60) + 2*60) * second,
		},
		"the longest route": {"timeouts: {request_secs: {stream: 60, unary: 1}, idle_secs: 200}\nretry: {max_retries: 0}\n" +
			"routes:\n  - {model: a, targets: [{provider: a}]}\n  - {model: b, retry: {max_retries: 3}, targets: [{provider: a}]}\n", (4*(10+60) + 3*2) * second},
	} {
		t.Run(name, func(t *testing.T) {
			text := "providers: [{name: a, url: \"http://127.0.0.1:1\"}]\n" + c.settings + "\n"
			if !strings.Contains(text, "routes:") {
				text += "routes: [{model: m, targets: [{provider: a}]}]\n"
			}
			cfg, err := config.Parse("test.yaml", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			action := build(t, cfg).Route.GetVirtualHosts()[0].GetRoutes()[0].GetRoute()
			check(t, equal{"idle_timeout", action.GetIdleTimeout().AsDuration(), c.want})
			if action.GetIdleTimeout() == nil {
				t.Error("left to Envoy's default")
			}
		})
	}
}

func TestClusterSettings(t *testing.T) {
	res := build(t, testConfig())
	c := res.Clusters["pm|gpu-a/org/llama~2070b"]
	options := unpack(t, c.GetTypedExtensionProtocolOptions()["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"], &httpv3.HttpProtocolOptions{})
	endpoint := c.GetLoadAssignment().GetEndpoints()[0].GetLbEndpoints()[0].GetEndpoint()
	th := c.GetCircuitBreakers().GetThresholds()[0]
	check(t,
		equal{"type", c.GetType(), clusterv3.Cluster_STATIC},
		equal{"connect_timeout", c.GetConnectTimeout().AsDuration(), 10 * time.Second},
		equal{"metadata", c.GetMetadata().GetFilterMetadata()["pointsman"].AsMap(), map[string]any{
			"target": "gpu-a/org/llama 70b", "provider": "gpu-a", "model": "org/llama 70b",
		}},
		equal{"hostname", endpoint.GetHostname(), "10.0.0.11:8000"},
		equal{"address", endpoint.GetAddress().GetSocketAddress().GetAddress(), "10.0.0.11"},
		equal{"port", endpoint.GetAddress().GetSocketAddress().GetPortValue(), uint32(8000)},
		equal{"HTTP/1", options.GetExplicitHttpConfig().GetHttpProtocolOptions() != nil, true},
		equal{"upstream idle", options.GetCommonHttpProtocolOptions().GetIdleTimeout().AsDuration(), 4 * time.Second},
		equal{"max_connections", th.GetMaxConnections().GetValue(), uint32(1_000_000)},
		equal{"max_pending_requests", th.GetMaxPendingRequests().GetValue(), uint32(1_000_000)},
		equal{"max_requests", th.GetMaxRequests().GetValue(), uint32(1_000_000)},
		equal{"max_retries", th.GetMaxRetries().GetValue(), uint32(1_000_000)},
		equal{"IPv6", res.Clusters["pm|b"].GetLoadAssignment().GetEndpoints()[0].GetLbEndpoints()[0].GetEndpoint().GetAddress().GetSocketAddress().GetAddress(), "fd00::1"},
	)
	// No slug, no header; and the empty cluster names nothing at all.
	if m := res.Clusters["pm|c"].GetMetadata().GetFilterMetadata()["pointsman"].AsMap(); m["provider"] != nil {
		t.Errorf("metadata %v", m)
	}
	none := res.Clusters[wire.ClusterNone]
	if none.GetMetadata() != nil || len(none.GetLoadAssignment().GetEndpoints()) != 0 {
		t.Errorf("the empty cluster is %v", none)
	}
}
