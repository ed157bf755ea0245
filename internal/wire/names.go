package wire

import "strings"

// Request headers that pointsman sets or strips. All are lower case.
const (
	// HeaderCluster carries the cluster of the first choice, read by
	// cluster_header routes of an Envoy that pointsman does not own.
	HeaderCluster = "x-pointsman-cluster"
	// HeaderDecision carries the decision id. It reaches the upstream.
	HeaderDecision = "x-pointsman-decision"

	HeaderMaxRetries       = "x-envoy-max-retries"
	HeaderTimeoutMS        = "x-envoy-upstream-rq-timeout-ms"
	HeaderPerTryTimeoutMS  = "x-envoy-upstream-rq-per-try-timeout-ms"
	HeaderAttemptCount     = "x-envoy-attempt-count"
	HeaderDataParallelRank = "x-data-parallel-rank"
	HeaderRetryAfter       = "retry-after"
)

// Response headers that name the target which served (spec: targets, retries).
const (
	HeaderServedProvider = "x-pointsman-provider"
	HeaderServedTarget   = "x-pointsman-target"
	HeaderServedModel    = "x-pointsman-model"
	HeaderServedAttempts = "x-pointsman-attempts"
	HeaderServedVariant  = "x-pointsman-variant"
)

// StrippedHeaders are removed from every client request before anything reads
// it: a client may neither choose a destination nor forge a log entry, nor let an
// engine believe that it was chosen in a way that it was not.
func StrippedHeaders() []string {
	return []string{
		HeaderCluster, HeaderDecision,
		HeaderMaxRetries, "x-envoy-retry-on", "x-envoy-retry-grpc-on",
		"x-envoy-retriable-status-codes", "x-envoy-retriable-header-names",
		HeaderTimeoutMS, HeaderPerTryTimeoutMS,
		"x-envoy-upstream-rq-timeout-alt-response", "x-envoy-upstream-alt-stat-name",
		"x-envoy-hedge-on-per-try-timeout", HeaderAttemptCount, HeaderDataParallelRank,
		"x-envoy-original-dst-host", "x-envoy-original-host",
		HeaderServedProvider, HeaderServedTarget, HeaderServedModel, HeaderServedAttempts, HeaderServedVariant,
		"x-gateway-destination-endpoint", "x-rolter-node-id",
	}
}

// Dynamic metadata of a decision, made by extproc and read by Envoy.
const (
	DecisionNamespace = "pointsman.decision"
	KeyPriorityGroups = "priority_groups"
	KeyModel          = "model"
	KeyVariant        = "variant"

	// For targets whose model is not that of all entries: the places of the
	// model in the body, [[offset, length], ...]; the model that the client asked for;
	// true for multipart, where the value stands bare; and what to put there on
	// targets that serve whatever is asked.
	KeySpans = "spans"
	KeyAsked = "asked"
	KeyForm  = "form"
	KeyText  = "text"

	// The client's own credentials, given if an entry of the list is to get
	// them. Nothing that writes may log this namespace.
	KeyAuthorization = "authorization"
	KeyXAPIKey       = "x_api_key"
)

// Headers that carry credentials.
const (
	HeaderAuthorization = "authorization"
	HeaderXAPIKey       = "x-api-key"
)

// Cluster metadata, made by envoy and read by Envoy's response headers.
const (
	ClusterNamespace   = "pointsman"
	ClusterKeyTarget   = "target"
	ClusterKeyProvider = "provider"
	ClusterKeyModel    = "model"
)

// Names of Envoy resources.
const (
	// ClusterPrefix begins the name of every cluster that belongs to a target,
	// and of no other: a target may have any id, "none" for example.
	ClusterPrefix = "pm|"
	// SecretPrefix begins the name of every secret.
	SecretPrefix = "pm-key|"
	// ClusterNone has no host: an undecided request ends there, with 503.
	ClusterNone = "pointsman_none"
	// ClusterPointsman is the static cluster of the bootstrap that leads to
	// pointsman's own gRPC listener.
	ClusterPointsman = "pointsman"
	ListenerName     = "pointsman"
	RouteName        = "pointsman"
)

// Access logs. A log stream names its log only in its first message.
const (
	// LogAttempt has one entry per upstream attempt (the router's upstream log).
	LogAttempt = "pointsman.attempt"
	// LogRequest has one entry per answer that no engine made.
	LogRequest = "pointsman.request"

	// Custom tags of LogAttempt: microseconds from the attempt's start, "-" or
	// absent when the point was not reached.
	TagFirstHeaderUS = "first_header_us"
	TagFirstBodyUS   = "first_body_us"
	TagTotalUS       = "total_us"
)

// ClusterName is the name of the Envoy cluster of a target. Target ids hold
// only letters, digits and "._:/*-" when explicit; a derived id carries an
// upstream model, which may hold anything, so every other byte is written as
// ~XX (upper-case hexadecimal). Different ids give different names.
func ClusterName(targetID string) string { return resourceName(ClusterPrefix, targetID) }

// SecretName is the name of the Envoy secret that holds a provider's key, made like
// that of a cluster.
func SecretName(provider string) string { return resourceName(SecretPrefix, provider) }

func resourceName(prefix, id string) string {
	var b strings.Builder
	b.Grow(len(prefix) + len(id))
	b.WriteString(prefix)
	const hex = "0123456789ABCDEF"
	for i := range len(id) {
		c := id[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("._:/*-", c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteByte('~')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	return b.String()
}
