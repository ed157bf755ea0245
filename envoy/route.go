package envoy

import (
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	priorityv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/router/cluster_specifiers/priority_group/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pointsman/pointsman/internal/config"
	"github.com/pointsman/pointsman/internal/wire"
)

const (
	priorityGroupSpecifier = "envoy.router.cluster_specifier_plugin.priority_group"

	// retryOn is what may move a request to the next entry of its list. reset
	// covers an attempt that ends without an answer; envoy-ratelimited is there
	// because without it an engine's own x-envoy-ratelimited header forbids the retry.
	retryOn = "connect-failure,refused-stream,reset,retriable-status-codes,envoy-ratelimited"

	// longestRetryAfter bounds the Retry-After that a retry waits for; beyond it
	// the ordinary wait applies (spec: targets, retries).
	longestRetryAfter = 30 * time.Second

	// shortestBackoff stands for retry.base_backoff_ms: 0, which Envoy refuses.
	shortestBackoff = time.Millisecond
)

// route is the whole routing of the default shape: a decided request goes where
// its decision says, any other to the cluster without hosts.
func route(p *packer, cfg *config.Config) *routev3.RouteConfiguration {
	return &routev3.RouteConfiguration{
		Name: wire.RouteName,
		VirtualHosts: []*routev3.VirtualHost{{
			Name:                       wire.RouteName,
			Domains:                    []string{"*"},
			IncludeRequestAttemptCount: true, // the number of an attempt in the upstream log
			RequestBodyBufferLimit:     wrapperspb.UInt64(uint64(cfg.Limits.Body)),
			ResponseHeadersToAdd:       servedHeaders(cfg.ResponseHeaders),
			Routes:                     []*routev3.Route{decidedRoute(p, cfg), undecidedRoute(cfg)},
		}},
	}
}

// decidedRoute takes the requests that carry a decision: the header is removed
// from what clients send before anything reads it, so only extproc can set it.
func decidedRoute(p *packer, cfg *config.Config) *routev3.Route {
	specifier := p.pack(&priorityv3.PriorityGroupClusterSpecifier{
		// Used only if the decision's metadata is missing: 503.
		PriorityGroups: []*priorityv3.PriorityGroup{{
			Name:     "none",
			Clusters: []*priorityv3.ClusterWeight{{ClusterName: wire.ClusterNone, Weight: u32(1)}},
		}},
		OverrideMetadataNamespace: wire.DecisionNamespace,
	})
	return &routev3.Route{
		Name: "decided",
		// The name of the first choice is of use to a cluster_header route only, and
		// nothing that belongs to one target may be seen by another.
		RequestHeadersToRemove: []string{wire.HeaderCluster},
		Match: &routev3.RouteMatch{
			PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"},
			Headers: []*routev3.HeaderMatcher{{
				Name:                 wire.HeaderDecision,
				HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true},
			}},
		},
		Action: &routev3.Route_Route{Route: &routev3.RouteAction{
			ClusterSpecifier: &routev3.RouteAction_InlineClusterSpecifierPlugin{
				InlineClusterSpecifierPlugin: &routev3.ClusterSpecifierPlugin{
					Extension: &corev3.TypedExtensionConfig{Name: priorityGroupSpecifier, TypedConfig: specifier},
				},
			},
			// Host is that of the endpoint, anew on each attempt.
			HostRewriteSpecifier: &routev3.RouteAction_AutoHostRewrite{AutoHostRewrite: wrapperspb.Bool(true)},
			// The time limit to the response headers comes with each request.
			Timeout:     durationpb.New(0),
			IdleTimeout: durationpb.New(streamIdle(cfg)),
			RetryPolicy: retryPolicy(cfg),
		}},
	}
}

// streamIdle is the time without a byte in either direction after which a decided
// request ends as a whole; 0 = none. The limit of an attempt is timeouts.idle_secs
// itself (retryPolicy), but Envoy drops that one when the attempt's time to its headers
// is over, even if they have come: an engine that sends the headers of a stream and
// then hangs would never be cut. This limit stays (docs/adr/0003-idle-limit.md).
//
// It must not end a request that goes from one silent target to the next, so it is the
// longest silence before headers that any route allows, and idle_secs at least:
//
//	max(idle_secs, silence of every route and kind)
//	defaults: stream 3 * (10 s + 60 s) + 2 * 2 s = 214 s, unary 600 s, so it is 600 s
func streamIdle(cfg *config.Config) time.Duration {
	if cfg.Timeouts.Idle == 0 {
		return 0
	}
	longest := cfg.Timeouts.Idle
	for i := range cfg.Routes {
		r := &cfg.Routes[i]
		longest = max(longest,
			silence(cfg, r.Retry, "stream", r.Timeouts.Request.Stream),
			silence(cfg, r.Retry, "unary", r.Timeouts.Request.Unary))
	}
	for i := range cfg.Groups {
		g := &cfg.Groups[i]
		longest = max(longest,
			silence(cfg, g.Retry, "stream", g.Timeouts.Request.Stream),
			silence(cfg, g.Retry, "unary", g.Timeouts.Request.Unary))
	}
	return longest
}

// silence is how long a request of this kind can be without a byte before its response
// headers: connecting, an attempt and a wait over and over, but no longer than a limit
// of all attempts together.
func silence(cfg *config.Config, retry config.RouteRetry, kind string, limit time.Duration) time.Duration {
	perTry := slices.Contains(retry.OnTimeout, kind)
	attempt := cfg.Timeouts.Idle
	if perTry && limit > 0 {
		attempt = min(attempt, limit)
	}
	wait := cfg.Retry.MaxBackoff
	if cfg.Retry.HonourRetryAfter {
		wait = max(wait, longestRetryAfter*3/2) // up to half as long again
	}
	retries := time.Duration(retry.MaxRetries)
	total := (retries+1)*(cfg.Timeouts.Connect+attempt) + retries*wait
	if !perTry && limit > 0 {
		total = min(total, limit)
	}
	return total
}

// undecidedRoute is the route of a request until extproc has decided, and to its
// end when pointsman is away. Its stream limit is the time that a client has to
// send its request; the decision moves the request to the other route and so
// ends it. A request that is not there in time is answered 408.
func undecidedRoute(cfg *config.Config) *routev3.Route {
	action := &routev3.RouteAction{
		ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: wire.ClusterNone},
		Timeout:          durationpb.New(0),
	}
	if cfg.Timeouts.Client > 0 {
		action.MaxStreamDuration = &routev3.RouteAction_MaxStreamDuration{
			MaxStreamDuration: durationpb.New(cfg.Timeouts.Client),
		}
	}
	return &routev3.Route{
		Name:   "undecided",
		Match:  &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
		Action: &routev3.Route_Route{Route: action},
	}
}

func retryPolicy(cfg *config.Config) *routev3.RetryPolicy {
	statuses := make([]uint32, 0, len(cfg.Retry.OnStatus))
	for _, s := range cfg.Retry.OnStatus {
		statuses = append(statuses, uint32(s))
	}
	base := max(cfg.Retry.BaseBackoff, shortestBackoff)
	policy := &routev3.RetryPolicy{
		RetryOn: retryOn,
		// One by one: Envoy's own "5xx" would also retry what is not in the list.
		RetriableStatusCodes: statuses,
		// The number that counts comes per request: x-envoy-max-retries.
		NumRetries: u32(uint32(max(cfg.Retry.MaxRetries, 0))),
		// Without this a retry goes to the cluster that has just failed.
		RefreshClusterOnRetry: true,
		RetryBackOff: &routev3.RetryPolicy_RetryBackOff{
			BaseInterval: durationpb.New(base),
			MaxInterval:  durationpb.New(max(cfg.Retry.MaxBackoff, base)),
		},
	}
	if cfg.Timeouts.Idle > 0 {
		// Silent before the headers: retried. Silent after them: cut.
		policy.PerTryIdleTimeout = durationpb.New(cfg.Timeouts.Idle)
	}
	if cfg.Retry.HonourRetryAfter {
		policy.RateLimitedRetryBackOff = &routev3.RetryPolicy_RateLimitedRetryBackOff{
			ResetHeaders: []*routev3.RetryPolicy_ResetHeader{{
				Name:   wire.HeaderRetryAfter,
				Format: routev3.RetryPolicy_SECONDS,
			}},
			MaxInterval: durationpb.New(longestRetryAfter),
		}
	}
	return policy
}

// servedHeaders name the target that answered, always the last attempt's. They
// overwrite what an engine says; an absent value adds none. Of two entries for one
// name the last that has a value counts: a cluster that serves one model says so,
// one that serves every model of a provider leaves it to the decision.
func servedHeaders(on bool) []*corev3.HeaderValueOption {
	if !on {
		return nil
	}
	cluster := func(key string) string { return "%CLUSTER_METADATA(" + wire.ClusterNamespace + ":" + key + ")%" }
	var out []*corev3.HeaderValueOption
	for _, h := range [][2]string{
		{wire.HeaderServedTarget, cluster(wire.ClusterKeyTarget)},
		{wire.HeaderServedProvider, cluster(wire.ClusterKeyProvider)},
		{wire.HeaderServedModel, decisionValue(wire.KeyModel)},
		{wire.HeaderServedModel, cluster(wire.ClusterKeyModel)},
		{wire.HeaderServedAttempts, "%UPSTREAM_REQUEST_ATTEMPT_COUNT%"},
		{wire.HeaderServedVariant, decisionValue(wire.KeyVariant)},
	} {
		out = append(out, &corev3.HeaderValueOption{
			Header:       &corev3.HeaderValue{Key: h[0], Value: h[1]},
			AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
		})
	}
	return out
}

// decisionValue is Envoy's format for a value of the decision's metadata.
func decisionValue(key string) string {
	return "%DYNAMIC_METADATA(" + wire.DecisionNamespace + ":" + key + ")%"
}
