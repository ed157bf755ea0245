package envoy

import (
	"fmt"

	mutationrulesv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	injectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/credential_injector/v3"
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
	codecv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/upstream_codec/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	genericv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/injected_credentials/generic/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"github.com/zeebo/xxh3"

	"github.com/pointsman/pointsman/internal/config"
	"github.com/pointsman/pointsman/internal/wire"
)

const (
	filterHeaderMutation = "envoy.filters.http.header_mutation"
	filterLua            = "envoy.filters.http.lua"
	filterInjector       = "envoy.filters.http.credential_injector"
	filterUpstreamCodec  = "envoy.filters.http.upstream_codec"
	genericCredential    = "envoy.http.injected_credentials.generic"

	// bearer goes before a key in the authorization header.
	bearer = "Bearer "
)

// Chain is what the filters of every target's cluster do. All attempts of a request
// share one map of headers in Envoy: what the chain of one attempt has set is
// there in the next. So as soon as one target needs a chain, every target has one
// that sets, or takes away, all that any other may have set.
type Chain int

// The chains. Each does what those before it do.
const (
	// ChainNone has no filters: extproc says all there is to say, once per request.
	ChainNone Chain = iota
	// ChainKeys resets and sets the headers that carry credentials.
	ChainKeys
	// ChainRewrite resets and sets path, body and content-length too.
	ChainRewrite
)

// chainOf is the least chain that serves the configuration.
func chainOf(cfg *config.Config) Chain {
	if !cfg.Chained() {
		return ChainNone
	}
	for i := range cfg.Providers {
		if cfg.Providers[i].Prefix != "" {
			return ChainRewrite
		}
	}
	for i := range cfg.Routes {
		if severalModels(cfg.Routes[i].Lists()...) {
			return ChainRewrite
		}
	}
	for i := range cfg.Groups {
		if severalModels(cfg.Groups[i].Members) {
			return ChainRewrite
		}
	}
	return ChainKeys
}

func severalModels(lists ...[]config.Target) bool {
	models := map[string]bool{}
	for _, list := range lists {
		for _, t := range list {
			if t.Weight > 0 { // the others are never listed
				models[t.Model] = true
			}
		}
	}
	return len(models) > 1
}

// filters is the chain of one target. The headers are first reset, because an
// error in Lua lets the request go on.
func filters(p *packer, chain Chain, t config.Target, pr *config.Provider) []*hcmv3.HttpFilter {
	if chain == ChainNone {
		return nil
	}
	out := []*hcmv3.HttpFilter{httpFilter(filterHeaderMutation, p.pack(resetHeaders(pr)))}
	if chain >= ChainRewrite {
		out = append(out, httpFilter(filterLua, p.pack(&luav3.Lua{DefaultSourceCode: &corev3.DataSource{
			Specifier: &corev3.DataSource_InlineString{InlineString: script(t.Model, pr.Prefix)},
		}})))
	}
	if pr.Credentials.Key() {
		out = append(out, httpFilter(filterInjector, p.pack(injector(p, pr))))
	}
	return append(out, httpFilter(filterUpstreamCodec, p.pack(&codecv3.UpstreamCodec{})))
}

// resetHeaders takes away what another target's chain has set. The client's own
// credentials were removed by extproc; where they are to be passed on, they
// come from the decision, and an absent one adds no header.
func resetHeaders(pr *config.Provider) *mutationv3.HeaderMutation {
	var m []*mutationrulesv3.HeaderMutation
	for _, h := range []string{wire.HeaderAuthorization, wire.HeaderXAPIKey, wire.HeaderDataParallelRank} {
		m = append(m, &mutationrulesv3.HeaderMutation{Action: &mutationrulesv3.HeaderMutation_Remove{Remove: h}})
	}
	if pr.Credentials.Passthrough {
		for _, h := range [][2]string{
			{wire.HeaderAuthorization, wire.KeyAuthorization},
			{wire.HeaderXAPIKey, wire.KeyXAPIKey},
		} {
			m = append(m, &mutationrulesv3.HeaderMutation{Action: &mutationrulesv3.HeaderMutation_Append{
				Append: &corev3.HeaderValueOption{
					Header:       &corev3.HeaderValue{Key: h[0], Value: decisionValue(h[1])},
					AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
				},
			}})
		}
	}
	return &mutationv3.HeaderMutation{Mutations: &mutationv3.Mutations{RequestMutations: m}}
}

// injector sets the provider's key, which Envoy holds as a secret of its own: so it
// stands in no cluster and no dump, and can be replaced without touching either.
func injector(p *packer, pr *config.Provider) *injectorv3.CredentialInjector {
	generic := &genericv3.Generic{
		Credential: &tlsv3.SdsSecretConfig{Name: secretName(pr), SdsConfig: adsSource()},
		Header:     wire.HeaderXAPIKey,
	}
	if pr.Kind != kindAnthropic {
		generic.Header, generic.HeaderValuePrefix = wire.HeaderAuthorization, bearer
	}
	return &injectorv3.CredentialInjector{
		Overwrite:  true,
		Credential: &corev3.TypedExtensionConfig{Name: genericCredential, TypedConfig: p.pack(generic)},
	}
}

// secretName is the name of a provider's key. It changes with the place that the key is
// sent to or comes from: key and cluster reach Envoy one after the other, and under one
// name a provider that moves to another service would for a moment send the key of the one to
// the other. A key that is replaced where it was keeps its name, and so its cluster.
func secretName(pr *config.Provider) string {
	place := xxh3.HashString(pr.URL + "\x00" + pr.Credentials.Env + "\x00" + pr.Credentials.File)
	return fmt.Sprintf("%s/%016x", wire.SecretName(pr.Name), place)
}

// The kind of provider that takes its key in x-api-key.
const kindAnthropic = "anthropic"

// secret holds a provider's key.
func secret(pr *config.Provider, key string) (*tlsv3.Secret, error) {
	for i := range len(key) {
		if key[i] < ' ' || key[i] == 0x7f {
			return nil, fmt.Errorf("provider %q: its key holds a control character", pr.Name)
		}
	}
	return &tlsv3.Secret{
		Name: secretName(pr),
		Type: &tlsv3.Secret_GenericSecret{GenericSecret: &tlsv3.GenericSecret{
			Secret: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: key}},
		}},
	}, nil
}
