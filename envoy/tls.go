package envoy

import (
	"net/netip"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/pointsman/pointsman/internal/config"
)

const (
	transportTLS = "envoy.transport_sockets.tls"

	// SystemAuthorities is where the system keeps the certificates of the
	// authorities that it trusts, unless an Upstream says otherwise: the place of
	// Debian, of Alpine, and of Envoy's own images.
	SystemAuthorities = "/etc/ssl/certs/ca-certificates.crt"

	// alpnHTTP1 says what is spoken: a server may want to hear it.
	alpnHTTP1 = "http/1.1"
)

// upstreamTLS is TLS towards a provider, nil without https. The certificate is
// always checked, against the name that the configuration says. All files are
// read by Envoy.
func upstreamTLS(p *packer, pr *config.Provider, authorities string) *corev3.TransportSocket {
	if !pr.HTTPS {
		return nil
	}
	settings := config.ProviderTLS{}
	if pr.TLS != nil {
		settings = *pr.TLS
	}
	if settings.CA != "" {
		authorities = settings.CA
	} else if authorities == "" {
		authorities = SystemAuthorities
	}
	name := settings.ServerName
	if name == "" {
		name = pr.Hostname
	}
	san, sni := tlsv3.SubjectAltNameMatcher_DNS, name
	if _, err := netip.ParseAddr(name); err == nil {
		san, sni = tlsv3.SubjectAltNameMatcher_IP_ADDRESS, "" // SNI knows names only
	}
	common := &tlsv3.CommonTlsContext{
		AlpnProtocols: []string{alpnHTTP1},
		ValidationContextType: &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{
			TrustedCa: file(authorities),
			MatchTypedSubjectAltNames: []*tlsv3.SubjectAltNameMatcher{{
				SanType: san,
				Matcher: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: name}},
			}},
		}},
	}
	if settings.Cert != "" {
		common.TlsCertificates = []*tlsv3.TlsCertificate{{
			CertificateChain: file(settings.Cert),
			PrivateKey:       file(settings.Key),
		}}
	}
	return &corev3.TransportSocket{
		Name: transportTLS,
		ConfigType: &corev3.TransportSocket_TypedConfig{
			TypedConfig: p.pack(&tlsv3.UpstreamTlsContext{CommonTlsContext: common, Sni: sni}),
		},
	}
}

func file(name string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: name}}
}
