package envoy

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pointsman/pointsman/internal/config"
	"github.com/pointsman/pointsman/internal/wire"
)

// Resources is everything that a connected Envoy is given. It and what it
// holds must not be changed once built: xds shares it between streams.
type Resources struct {
	// Clusters by name: wire.ClusterNone and one for each distinct target id.
	Clusters map[string]*clusterv3.Cluster
	Listener *listenerv3.Listener
	Route    *routev3.RouteConfiguration

	// Secrets by name: the keys of providers.
	Secrets map[string]*tlsv3.Secret

	// Targets gives the target id of each cluster that stands for one, Needs the
	// secret of each cluster that names one.
	Targets, Needs map[string]string
	// External are the ids of targets whose clusters are the user's own
	// (envoy.clusters: external): no proxy is asked whether it can reach them.
	External []string
	// Chain is what the filters of all these clusters do.
	Chain Chain
}

// Upstream is what is known of a provider beyond its configuration.
type Upstream struct {
	// Addresses are where it is. Without one its targets have no cluster.
	Addresses []netip.AddrPort
	// Key is its key. A provider that needs one and has none has no cluster: an
	// empty secret would make Envoy answer 401 by itself.
	Key string
	// Authorities is a file with the authorities that the system trusts, as Envoy finds
	// it; "" = SystemAuthorities.
	Authorities string
}

// Build makes the resources of a configuration, given what is known of its
// providers by name. An error means that the configuration holds something that
// config.Load would have refused, or that a key cannot be sent.
func Build(cfg *config.Config, up map[string]Upstream) (*Resources, error) {
	return BuildOver(cfg, up, ChainNone)
}

// BuildOver is Build for Envoys that run requests over resources of this chain: the
// new ones do no less. A request in the middle of its list may have been given a key
// that the next target, by then without a chain, would see.
func BuildOver(cfg *config.Config, up map[string]Upstream, running Chain) (*Resources, error) {
	p := &packer{}
	res := &Resources{
		Clusters: map[string]*clusterv3.Cluster{wire.ClusterNone: emptyCluster()},
		Secrets:  map[string]*tlsv3.Secret{},
		Targets:  map[string]string{},
		Needs:    map[string]string{},
		Chain:    max(chainOf(cfg), running),
	}
	addr, err := listenerAddress(cfg.Envoy.Listener)
	if err != nil {
		return nil, fmt.Errorf("envoy.listener: %w", err)
	}
	res.Listener = listener(p, addr)
	res.Route = route(p, cfg)
	if err := addTargets(p, res, cfg, up); err != nil {
		return nil, err
	}
	if p.err != nil {
		return nil, p.err
	}
	return res, nil
}

// addTargets adds one cluster for each target id, however many pools hold it, and
// the secrets that the clusters need.
func addTargets(p *packer, res *Resources, cfg *config.Config, up map[string]Upstream) error {
	for _, t := range cfg.Targets() {
		if t.ProviderIndex < 0 || t.ProviderIndex >= len(cfg.Providers) {
			return fmt.Errorf("target %q: no such provider", t.ID)
		}
		pr := &cfg.Providers[t.ProviderIndex]
		u := up[pr.Name]
		if cfg.Envoy.Clusters == config.ClustersExternal {
			if len(u.Addresses) > 0 {
				res.External = append(res.External, t.ID)
			}
			continue
		}
		if len(u.Addresses) == 0 || pr.Credentials.Key() && u.Key == "" {
			continue
		}
		c := targetCluster(p, res.Chain, t, pr, u, cfg.Timeouts.Connect)
		res.Clusters[c.GetName()] = c
		res.Targets[c.GetName()] = t.ID
		if !pr.Credentials.Key() {
			continue
		}
		s, err := secret(pr, u.Key)
		if err != nil {
			return err
		}
		res.Secrets[s.GetName()] = s
		res.Needs[c.GetName()] = s.GetName()
	}
	return nil
}

// packer packs typed configurations and keeps the first error, so that the
// resources below can be written as the literals they are.
type packer struct{ err error }

// pack is deterministic: equal configurations give equal bytes, on which the
// versions of the resources are computed.
func (p *packer) pack(m proto.Message) *anypb.Any {
	a := &anypb.Any{}
	if err := anypb.MarshalFrom(a, m, proto.MarshalOptions{Deterministic: true}); err != nil && p.err == nil {
		p.err = fmt.Errorf("pack %s: %w", m.ProtoReflect().Descriptor().FullName(), err)
	}
	return a
}

// listenerAddress reads "host:port". No host means every IPv4 address.
func listenerAddress(s string) (*corev3.Address, error) {
	host, port, err := splitHostPort(s)
	if err != nil {
		return nil, err
	}
	if host == "" {
		host = "0.0.0.0"
	}
	ip, err := parseIP(host)
	if err != nil {
		return nil, err
	}
	a := socketAddress(ip, port)
	if ip.Is6() && ip.IsUnspecified() {
		// As elsewhere, "[::]" takes IPv4 clients too.
		a.GetSocketAddress().Ipv4Compat = true
	}
	return a, nil
}

func splitHostPort(s string) (string, uint16, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return "", 0, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("bad port %q", port)
	}
	return host, uint16(n), nil
}

// parseIP takes an IP address or localhost: Envoy's listeners and STATIC
// clusters know no names.
func parseIP(host string) (netip.Addr, error) {
	if host == "localhost" {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), nil
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%q is not an IP address", host)
	}
	return ip, nil
}

func socketAddress(ip netip.Addr, port uint16) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address:       ip.String(),
		PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(port)},
	}}}
}

func u32(n uint32) *wrapperspb.UInt32Value { return wrapperspb.UInt32(n) }
