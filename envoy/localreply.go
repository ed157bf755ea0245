package envoy

import (
	"strings"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	celv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/filters/cel/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/pointsman/pointsman/internal/wire"
)

const (
	celFilter = "envoy.access_loggers.extension_filters.cel"

	// Envoy wants a runtime key beside a status to compare with; nothing sets it.
	statusRuntimeKey = "pointsman.local_reply.status"
)

// localReply is one kind of answer that Envoy makes itself and the row of the
// error table that it becomes.
type localReply struct {
	filter  *accesslogv3.AccessLogFilter
	err     wire.Error
	message string
}

// localReplyTable holds the kinds in the order of the mappers; the first match
// wins. Flags are those of the last attempt only. A client that does not send
// its request in time gets a plain 408 without a flag when its body is late, and
// flag DT when its headers took so long that the time of the undecided route is
// over when they come; a 404 of Envoy is its word for a path like "*".
func localReplyTable() []localReply {
	return []localReply{
		{flags("DT"), wire.ErrRequestTimeout, "the request did not arrive in time"},
		{flags("UT", "SI"), wire.ErrUpstreamTimeout, "no response from the upstream in time"},
		{flags("UF", "UC", "UR", "LR", "UPE"), wire.ErrUpstreamFailed, "the upstream ended without a response"},
		{flags("UH", "NC", "NR", "UO"), wire.ErrNoTarget, "no target can serve this request now"},
		{and(status(403), headerFilter(&routev3.HeaderMatcher{
			Name:                 "upgrade",
			HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true},
		})), wire.ErrNotSupported, "CONNECT and upgrades are not supported"},
		{status(400), wire.ErrBadRequest, "the request is not readable as HTTP"},
		{status(404), wire.ErrBadRequest, "the request is not readable as HTTP"},
		{status(408), wire.ErrRequestTimeout, "the request did not arrive in time"},
		{status(413), wire.ErrBodyTooLarge, "the request body is too large"},
		{status(431), wire.ErrHeadersTooLarge, "the request headers are too large"},
		{status(500), wire.ErrInternal, "internal error"},
	}
}

// localReplies gives Envoy's own answers the JSON of the error table, in the
// dialect of the path. There is no body_format at the top: it would rewrite the
// answers that come from pointsman, which the first mapper lets pass.
func localReplies(p *packer) *hcmv3.LocalReplyConfig {
	ours := &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ExtensionFilter{
		ExtensionFilter: &accesslogv3.ExtensionFilter{
			Name: celFilter,
			ConfigType: &accesslogv3.ExtensionFilter_TypedConfig{TypedConfig: p.pack(&celv3.ExpressionFilter{
				Expression: "response.code_details.startsWith('" + wire.DetailPrefix + "')",
			})},
		},
	}}
	out := &hcmv3.LocalReplyConfig{Mappers: []*hcmv3.ResponseMapper{{Filter: ours}}}
	// Behind a path prefix this is the changed path, hence the regex's ".*" at the start.
	anthropicPath := headerFilter(&routev3.HeaderMatcher{
		Name: ":path",
		HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
			MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: wire.AnthropicPathRegex}},
		}},
	})
	for _, r := range localReplyTable() {
		out.Mappers = append(out.Mappers,
			r.mapper(and(r.filter, anthropicPath), wire.Anthropic),
			r.mapper(r.filter, wire.OpenAI))
	}
	return out
}

func (r localReply) mapper(filter *accesslogv3.AccessLogFilter, d wire.Dialect) *hcmv3.ResponseMapper {
	// The body is a format string to Envoy.
	body := strings.ReplaceAll(string(r.err.Body(d, r.message)), "%", "%%")
	return &hcmv3.ResponseMapper{
		Filter:     filter,
		StatusCode: u32(uint32(r.err.Status)),
		BodyFormatOverride: &corev3.SubstitutionFormatString{
			ContentType: "application/json",
			Format: &corev3.SubstitutionFormatString_TextFormatSource{TextFormatSource: &corev3.DataSource{
				Specifier: &corev3.DataSource_InlineString{InlineString: body},
			}},
		},
	}
}

func flags(names ...string) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ResponseFlagFilter{
		ResponseFlagFilter: &accesslogv3.ResponseFlagFilter{Flags: names},
	}}
}

func status(code uint32) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_StatusCodeFilter{
		StatusCodeFilter: &accesslogv3.StatusCodeFilter{Comparison: &accesslogv3.ComparisonFilter{
			Op:    accesslogv3.ComparisonFilter_EQ,
			Value: &corev3.RuntimeUInt32{DefaultValue: code, RuntimeKey: statusRuntimeKey},
		}},
	}}
}

func and(filters ...*accesslogv3.AccessLogFilter) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_AndFilter{
		AndFilter: &accesslogv3.AndFilter{Filters: filters},
	}}
}
