package envoy

import (
	"net/netip"
	"slices"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pointsman/pointsman/internal/config"
	"github.com/pointsman/pointsman/internal/wire"
)

const (
	// Envoy's default breakers end requests that pointsman meant to be served:
	// max_retries 3 of the failed cluster limits failover (212 of 300 requests
	// lost at 20 at once), max_requests 1024 counts the ext_proc streams, which
	// live as long as answers. Limits of concurrency belong in pointsman, so all
	// four are out of the way.
	breakerThreshold = 1_000_000

	// A connection is given up after this idle time: before the engine closes it.
	// uvicorn, under vLLM and SGLang, closes after 5 s; a request sent at that
	// very moment is reset and would park a healthy target.
	upstreamIdle = 4 * time.Second

	// For clusters that nobody waits for: one has no host, pointsman is on this machine.
	localConnectTimeout = time.Second

	// Names of the extensions that are keys or names in Envoy's configuration.
	httpProtocolOptions = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
)

// emptyCluster is where an undecided request ends: no host, so 503. It has no
// metadata, which Envoy would copy into the response headers of such answers.
// It must be among the first clusters: a route that names an unknown cluster is refused.
func emptyCluster() *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                 wire.ClusterNone,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		ConnectTimeout:       durationpb.New(localConnectTimeout),
		LoadAssignment:       &endpointv3.ClusterLoadAssignment{ClusterName: wire.ClusterNone},
	}
}

// targetCluster is the cluster of one target. Its type is STATIC always: a
// cluster of names that do not resolve is accepted without a host, answers 503
// and is never retried.
func targetCluster(p *packer, chain Chain, t config.Target, pr *config.Provider, u Upstream, connect time.Duration) *clusterv3.Cluster {
	name := wire.ClusterName(t.ID)
	var endpoints []*endpointv3.Endpoint
	for _, addr := range slices.Compact(slices.SortedFunc(slices.Values(u.Addresses), netip.AddrPort.Compare)) {
		endpoints = append(endpoints, &endpointv3.Endpoint{
			Address: socketAddress(addr.Addr(), addr.Port()),
			// With auto_host_rewrite this is the Host of every attempt here,
			// whatever the attempt before was told.
			Hostname: pr.Host,
		})
	}
	return &clusterv3.Cluster{
		Name:                 name,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		ConnectTimeout:       durationpb.New(connect),
		CircuitBreakers:      raisedBreakers(),
		Metadata:             targetMetadata(t, pr),
		TransportSocket:      upstreamTLS(p, pr, u.Authorities),
		TypedExtensionProtocolOptions: map[string]*anypb.Any{
			httpProtocolOptions: p.pack(&httpv3.HttpProtocolOptions{
				CommonHttpProtocolOptions: &corev3.HttpProtocolOptions{
					IdleTimeout:     durationpb.New(upstreamIdle),
					MaxHeadersCount: u32(maxHeaders),
				},
				UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{
					ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
						ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_HttpProtocolOptions{
							HttpProtocolOptions: &corev3.Http1ProtocolOptions{},
						},
					},
				},
				HttpFilters: filters(p, chain, t, pr),
			}),
		},
		LoadAssignment: loadAssignment(name, endpoints...),
	}
}

// targetMetadata is what the response headers say about the target. A value
// that is absent adds no header, so an empty one is left out.
func targetMetadata(t config.Target, pr *config.Provider) *corev3.Metadata {
	fields := map[string]*structpb.Value{}
	for key, value := range map[string]string{
		wire.ClusterKeyTarget:   t.ID,
		wire.ClusterKeyProvider: pr.Slug,
		wire.ClusterKeyModel:    t.Model,
	} {
		if value != "" {
			fields[key] = structpb.NewStringValue(value)
		}
	}
	return &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{
		wire.ClusterNamespace: {Fields: fields},
	}}
}

func raisedBreakers() *clusterv3.CircuitBreakers {
	return &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
		MaxConnections:     u32(breakerThreshold),
		MaxPendingRequests: u32(breakerThreshold),
		MaxRequests:        u32(breakerThreshold),
		MaxRetries:         u32(breakerThreshold),
	}}}
}

func loadAssignment(cluster string, endpoints ...*endpointv3.Endpoint) *endpointv3.ClusterLoadAssignment {
	var lb []*endpointv3.LbEndpoint
	for _, e := range endpoints {
		lb = append(lb, &endpointv3.LbEndpoint{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: e}})
	}
	return &endpointv3.ClusterLoadAssignment{
		ClusterName: cluster,
		Endpoints:   []*endpointv3.LocalityLbEndpoints{{LbEndpoints: lb}},
	}
}
