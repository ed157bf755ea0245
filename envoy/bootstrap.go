package envoy

import (
	"bytes"
	"fmt"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pointsman/pointsman/internal/config"
	"github.com/pointsman/pointsman/internal/wire"
)

const (
	nodeID      = "pointsman-envoy"
	nodeCluster = "pointsman"
	adminOff    = "off"

	// How soon Envoy comes back after a restart of pointsman: after the first of
	// these, and at least every second one. Envoy's default grows to 30 s.
	reconnectBase = 100 * time.Millisecond
	reconnectMax  = time.Second

	// A pointsman whose machine or process is stuck is noticed by this.
	keepaliveInterval = 10 * time.Second
	keepaliveTimeout  = 5 * time.Second

	// A body goes to pointsman in one message; one of the usual limit must not
	// stop the connection for the others.
	pointsmanBuffer = 64 << 20
)

// Bootstrap is what Envoy is started with, as YAML with comments. Everything
// else comes over the delta ADS stream that it opens.
func Bootstrap(cfg *config.Config) ([]byte, error) {
	p := &packer{}
	b := &bootstrapv3.Bootstrap{
		Node: &corev3.Node{Id: nodeID, Cluster: nodeCluster},
		DynamicResources: &bootstrapv3.Bootstrap_DynamicResources{
			AdsConfig: &corev3.ApiConfigSource{
				ApiType:                   corev3.ApiConfigSource_DELTA_GRPC,
				TransportApiVersion:       corev3.ApiVersion_V3,
				SetNodeOnFirstMessageOnly: true,
				GrpcServices:              []*corev3.GrpcService{adsService()},
			},
			CdsConfig: adsSource(),
			LdsConfig: adsSource(),
		},
	}
	if cfg.Envoy.Admin != adminOff {
		addr, err := listenerAddress(cfg.Envoy.Admin)
		if err != nil {
			return nil, fmt.Errorf("envoy.admin: %w", err)
		}
		b.Admin = &bootstrapv3.Admin{Address: addr}
	}
	addr, err := grpcAddress(cfg.Listen.GRPC)
	if err != nil {
		return nil, fmt.Errorf("listen.grpc: %w", err)
	}
	b.StaticResources = &bootstrapv3.Bootstrap_StaticResources{
		Clusters: []*clusterv3.Cluster{pointsmanCluster(p, addr)},
	}
	if p.err != nil {
		return nil, p.err
	}
	return bootstrapYAML(b)
}

func adsService() *corev3.GrpcService {
	s := pointsmanService()
	s.GetEnvoyGrpc().RetryPolicy = &corev3.RetryPolicy{RetryBackOff: &corev3.BackoffStrategy{
		BaseInterval: durationpb.New(reconnectBase),
		MaxInterval:  durationpb.New(reconnectMax),
	}}
	return s
}

// pointsmanCluster carries ext_proc, xDS and the access logs. A stream of
// ext_proc lives as long as its answer, so its breakers are raised too.
func pointsmanCluster(p *packer, addr *corev3.Address) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                          wire.ClusterPointsman,
		ClusterDiscoveryType:          &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		ConnectTimeout:                durationpb.New(localConnectTimeout),
		PerConnectionBufferLimitBytes: u32(pointsmanBuffer),
		CircuitBreakers:               raisedBreakers(),
		TypedExtensionProtocolOptions: map[string]*anypb.Any{
			httpProtocolOptions: p.pack(&httpv3.HttpProtocolOptions{
				UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{
					ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
						ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{
							Http2ProtocolOptions: &corev3.Http2ProtocolOptions{
								ConnectionKeepalive: &corev3.KeepaliveSettings{
									Interval: durationpb.New(keepaliveInterval),
									Timeout:  durationpb.New(keepaliveTimeout),
								},
							},
						},
					},
				},
			}),
		},
		LoadAssignment: loadAssignment(wire.ClusterPointsman, &endpointv3.Endpoint{Address: addr}),
	}
}

func grpcAddress(a config.Address) (*corev3.Address, error) {
	if a.Network == "unix" {
		return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: a.Addr}}}, nil
	}
	host, port, err := splitHostPort(a.Addr)
	if err != nil {
		return nil, err
	}
	if port == 0 {
		return nil, fmt.Errorf("port 0 of %q leads nowhere", a.Addr)
	}
	ip, err := parseIP(host)
	if err != nil {
		return nil, err
	}
	return socketAddress(ip, port), nil
}

// bootstrapYAML writes the message in the order of its fields. The JSON between
// is what ties the text to Envoy's own types.
func bootstrapYAML(b *bootstrapv3.Bootstrap) ([]byte, error) {
	raw, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("bootstrap: %w", err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil { // JSON is YAML
		return nil, fmt.Errorf("bootstrap: %w", err)
	}
	plainStyle(&doc)
	comments := map[string]string{
		"node":              "Written by pointsman. Several Envoys may share these names.",
		"static_resources":  "The way to pointsman: ext_proc, xDS and access logs.",
		"dynamic_resources": "Everything else comes by delta ADS. The back-off says how soon Envoy\ncomes back after a restart of pointsman.",
		"admin":             "Envoy's own admin listener (envoy.admin).",
	}
	root := doc.Content[0]
	for i := 0; i < len(root.Content); i += 2 {
		root.Content[i].HeadComment = comments[root.Content[i].Value]
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(&doc); err != nil {
		return nil, fmt.Errorf("bootstrap: %w", err)
	}
	if err := enc.Close(); err != nil {
		return nil, fmt.Errorf("bootstrap: %w", err)
	}
	return out.Bytes(), nil
}

// plainStyle takes the quotes and braces of JSON away where YAML needs none.
func plainStyle(n *yaml.Node) {
	n.Style = 0
	for _, c := range n.Content {
		plainStyle(c)
	}
}
