package envoy

import (
	"time"

	mutationrulesv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	earlyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/early_header_mutation/header_mutation/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pointsman/pointsman/internal/wire"
)

const (
	// connectionBuffer is the smallest value that limits.body may have. The body
	// limit in force is the larger of this and the route's, so it must never be
	// above limits.body; and it must not follow it, or a changed limit would
	// renew the listener.
	connectionBuffer = 64 << 10

	// messageTimeout is how long a silent pointsman is waited for; Envoy's
	// default of 200 ms would end requests on a busy machine.
	messageTimeout = 5 * time.Second

	// headersTimeout bounds the request headers alone, which no route can know
	// about. It is the default of timeouts.client, fixed so that a change of that does
	// not renew the listener.
	headersTimeout = 300 * time.Second

	// maxHeadersKiB is the limit of the request headers; maxHeaders is the
	// number of headers that could fit into it (four bytes each at least), so
	// that the size alone decides.
	maxHeadersKiB = 60
	maxHeaders    = maxHeadersKiB << 10 / 4

	// maxStreams is how many answers one HTTP/2 connection may have open; the
	// default of 1024 would be a limit of concurrency in the proxy.
	maxStreams = 1_000_000

	// defaultHost stands in for the Host header that HTTP/1.0 may leave out.
	defaultHost = "pointsman"

	// Names of Envoy's extensions.
	filterHCM     = "envoy.filters.network.http_connection_manager"
	filterExtProc = "envoy.filters.http.ext_proc"
	filterRouter  = "envoy.filters.http.router"
	earlyMutation = "envoy.http.early_header_mutation.header_mutation"
)

// listener is where clients come in. Nothing but its address depends on the
// configuration: see the package comment.
func listener(p *packer, addr *corev3.Address) *listenerv3.Listener {
	return &listenerv3.Listener{
		Name:                          wire.ListenerName,
		Address:                       addr,
		PerConnectionBufferLimitBytes: u32(connectionBuffer),
		FilterChains: []*listenerv3.FilterChain{{
			Filters: []*listenerv3.Filter{{
				Name:       filterHCM,
				ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: p.pack(connectionManager(p))},
			}},
		}},
	}
}

func connectionManager(p *packer) *hcmv3.HttpConnectionManager {
	return &hcmv3.HttpConnectionManager{
		StatPrefix:                 wire.ListenerName,
		UseRemoteAddress:           wrapperspb.Bool(true),
		NormalizePath:              wrapperspb.Bool(true),
		ServerHeaderTransformation: hcmv3.HttpConnectionManager_PASS_THROUGH, // an engine's Server header stays its own

		// How long an answer may be silent is the decided route's affair (streamIdle); the
		// headers of a request and its body have their own clocks.
		StreamIdleTimeout:     durationpb.New(0),
		RequestHeadersTimeout: durationpb.New(headersTimeout),
		MaxRequestHeadersKb:   u32(maxHeadersKiB),
		CommonHttpProtocolOptions: &corev3.HttpProtocolOptions{
			MaxHeadersCount: u32(maxHeaders),
		},
		HttpProtocolOptions: &corev3.Http1ProtocolOptions{
			AcceptHttp_10:         true, // refused with 426 by default
			DefaultHostForHttp_10: defaultHost,
			EnableTrailers:        true,
		},
		Http2ProtocolOptions: &corev3.Http2ProtocolOptions{
			MaxConcurrentStreams: u32(maxStreams),
		},

		EarlyHeaderMutationExtensions: []*corev3.TypedExtensionConfig{{
			Name:        earlyMutation,
			TypedConfig: p.pack(stripped()),
		}},
		AccessLog:        requestLog(p),
		LocalReplyConfig: localReplies(p),
		RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{
			ConfigSource:    adsSource(),
			RouteConfigName: wire.RouteName,
		}},
		HttpFilters: []*hcmv3.HttpFilter{
			httpFilter(filterExtProc, p.pack(extProc())),
			httpFilter(filterRouter, p.pack(&routerv3.Router{
				UpstreamLog: attemptLog(p),
				// Or the target of a retry is told the Host of the one before, as
				// x-envoy-original-host.
				SuppressEnvoyHeaders: true,
			})),
		},
	}
}

// stripped removes, before anything else reads the request, what a client may
// not say: with failure_mode_allow its headers would be obeyed while pointsman is away.
func stripped() *earlyv3.HeaderMutation {
	m := &earlyv3.HeaderMutation{}
	for _, h := range wire.StrippedHeaders() {
		m.Mutations = append(m.Mutations, &mutationrulesv3.HeaderMutation{
			Action: &mutationrulesv3.HeaderMutation_Remove{Remove: h},
		})
	}
	return m
}

// extProc is the filter that asks pointsman.
func extProc() *extprocv3.ExternalProcessor {
	return &extprocv3.ExternalProcessor{
		GrpcService:    pointsmanService(),
		MessageTimeout: durationpb.New(messageTimeout),
		// With the empty cluster of the undecided route this means 503 for new
		// requests while pointsman is away, and answers in progress go on when
		// it is killed; without it every running stream would be cut.
		FailureModeAllow: true,
		ProcessingMode: &extprocv3.ProcessingMode{
			RequestHeaderMode:  extprocv3.ProcessingMode_SEND,
			RequestBodyMode:    extprocv3.ProcessingMode_BUFFERED,
			RequestTrailerMode: extprocv3.ProcessingMode_SEND, // a request of trailers alone has no body message
			ResponseHeaderMode: extprocv3.ProcessingMode_SKIP,
			ResponseBodyMode:   extprocv3.ProcessingMode_NONE,
			// Sends nothing, but holds the stream to the end of the answer.
			ResponseTrailerMode: extprocv3.ProcessingMode_SEND,
		},
		// Without allow_envoy the x-envoy-* headers of the decision are dropped silently.
		MutationRules: &mutationrulesv3.HeaderMutationRules{
			AllowAllRouting: wrapperspb.Bool(true),
			AllowEnvoy:      wrapperspb.Bool(true),
		},
		// Metadata in any other namespace is dropped.
		MetadataOptions: &extprocv3.MetadataOptions{
			ReceivingNamespaces: &extprocv3.MetadataOptions_MetadataNamespaces{
				Untyped: []string{wire.DecisionNamespace},
			},
		},
		RequestAttributes: []string{"source.address"},
	}
}

func httpFilter(name string, config *anypb.Any) *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: config}}
}

// adsSource says "by the stream that this came by".
func adsSource() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ResourceApiVersion:    corev3.ApiVersion_V3,
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
	}
}

// pointsmanService leads to pointsman's own gRPC listener.
func pointsmanService() *corev3.GrpcService {
	return &corev3.GrpcService{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
		EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: wire.ClusterPointsman},
	}}
}
