package wire

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

func TestClusterName(t *testing.T) {
	for _, test := range []struct{ id, want string }{
		{"gpu-a/meta-llama/Llama-3.1-70B", "pm|gpu-a/meta-llama/Llama-3.1-70B"},
		{"a_b.c:d/*", "pm|a_b.c:d/*"},
		{"p/m 1", "pm|p/m~201"},
		{"p/a|b", "pm|p/a~7Cb"},
		{"p/~7C", "pm|p/~7E7C"},
		{"p/ü", "pm|p/~C3~BC"},
		{"none", "pm|none"},
		{"", "pm|"},
	} {
		if got := ClusterName(test.id); got != test.want {
			t.Errorf("ClusterName(%q) = %q, want %q", test.id, got, test.want)
		}
	}
}

// original undoes ClusterName. That it exists shows that ClusterName is injective.
func original(cluster string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(cluster, ClusterPrefix)
	if !ok {
		return "", false
	}
	var b strings.Builder
	for i := 0; i < len(rest); i++ {
		if rest[i] != '~' {
			b.WriteByte(rest[i])
			continue
		}
		if i+2 >= len(rest) {
			return "", false
		}
		const hex = "0123456789ABCDEF"
		high, low := strings.IndexByte(hex, rest[i+1]), strings.IndexByte(hex, rest[i+2])
		if high < 0 || low < 0 {
			return "", false
		}
		b.WriteByte(byte(high<<4 | low))
		i += 2
	}
	return b.String(), true
}

func FuzzClusterName(f *testing.F) {
	for _, id := range []string{"", "none", "a/b", "a~b", "~7E", "a|b", "\x00\xff", "ü", "pointsman_none"} {
		f.Add(id)
	}
	safe := regexp.MustCompile(`^pm\|[A-Za-z0-9._:/*~-]*$`)
	f.Fuzz(func(t *testing.T, id string) {
		name := ClusterName(id)
		if back, ok := original(name); !ok || back != id {
			t.Errorf("ClusterName(%q) = %q, which stands for %q (%t)", id, name, back, ok)
		}
		if !safe.MatchString(name) {
			t.Errorf("ClusterName(%q) = %q has unsafe bytes", id, name)
		}
		if name == ClusterNone || name == ClusterPointsman {
			t.Errorf("ClusterName(%q) = %q is not a target's", id, name)
		}
	})
}

func TestDialectOf(t *testing.T) {
	for _, test := range []struct {
		path string
		want Dialect
	}{
		{"/v1/messages", Anthropic},
		{"/v1/messages/count_tokens", Anthropic},
		{"/v1/messages/render", Anthropic},
		{"/v1/messages/count_tokens/render", Anthropic},
		{"/v1/messages?beta=true", Anthropic},
		{"/v1/messages?", Anthropic},
		{"/anthropic/v1/messages", Anthropic},
		{"/v1/messages/", Anthropic},
		{"/v1/messages/render/", Anthropic},
		{"/v1/messages/count_tokens//?beta=true", Anthropic},
		{"//v1/messages", Anthropic},
		{"/v1/messages//render", OpenAI},
		{"/v1/messages/batches", OpenAI},
		{"/v1/messages/render/count_tokens", OpenAI},
		{"/v1/messagesx", OpenAI},
		{"/xv1/messages", OpenAI},
		{"/v1/chat/completions", OpenAI},
		{"/v1/chat/completions?next=/v1/messages", OpenAI},
		{"", OpenAI},
	} {
		if got := DialectOf(test.path); got != test.want {
			t.Errorf("DialectOf(%q) = %d, want %d", test.path, got, test.want)
		}
	}
}

// Envoy writes its own errors by the regex, pointsman its by DialectOf: a client must
// not get two dialects on one path.
func FuzzDialectOf(f *testing.F) {
	for _, path := range []string{
		"/v1/messages", "/v1/messages/count_tokens", "/v1/messages/render", "/v1/messages/count_tokens/render",
		"/v1/messages/render/count_tokens", "/v1/messages/render/render", "/v1/messages?x=/v1/messages", "/x?y=/v1/messages",
		"//v1/messages?", "/v1/messages/", "/v1/messages/render//?/", "/v1/messages//render", "/v1/messages//count_tokens", "/v1/messages/?", "?/v1/messages", "/v1/messages?/render", "/v1/chat/completions", "",
	} {
		f.Add(path)
	}
	regex := regexp.MustCompile(`\A(?:` + AnthropicPathRegex + `)\z`) // Envoy matches the whole path
	f.Fuzz(func(t *testing.T, path string) {
		if strings.ContainsFunc(path, unicode.IsControl) {
			return // no path in HTTP
		}
		if got, want := DialectOf(path) == Anthropic, regex.MatchString(path); got != want {
			t.Errorf("path %q: DialectOf says Anthropic %t, the regex %t", path, got, want)
		}
	})
}

func TestErrorBody(t *testing.T) {
	const message = `say "no" to <b> & ` + "\u2028"
	for _, test := range []struct {
		dialect Dialect
		want    map[string]any
	}{
		{OpenAI, map[string]any{"error": map[string]any{"message": message, "type": "overloaded_error", "code": "no_target"}}},
		{Anthropic, map[string]any{"type": "error", "error": map[string]any{"type": "overloaded_error", "message": message}}},
	} {
		var got map[string]any
		if err := json.Unmarshal(ErrNoTarget.Body(test.dialect, message), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("dialect %d: %s", test.dialect, diff)
		}
	}
}

// The bytes too: the proxy's own answers have this order of keys.
func TestErrorBodyBytes(t *testing.T) {
	const openAI = `{"error":{"message":"m","type":"not_found_error","code":"model_not_found"}}`
	if got := string(ErrModelNotFound.Body(OpenAI, "m")); got != openAI {
		t.Errorf("got %s, want %s", got, openAI)
	}
	const anthropic = `{"type":"error","error":{"type":"not_found_error","message":"m"}}`
	if got := string(ErrModelNotFound.Body(Anthropic, "m")); got != anthropic {
		t.Errorf("got %s, want %s", got, anthropic)
	}
	if got := ErrModelNotFound.Detail(); got != "pointsman_model_not_found" {
		t.Errorf("detail %q", got)
	}
}

// All error rows and what the specification says of them (targets, §1.4).
func TestErrorTable(t *testing.T) {
	want := map[string]Error{
		"missing_body":               {400, "missing_body", "invalid_request_error"},
		"invalid_json":               {400, "invalid_json", "invalid_request_error"},
		"invalid_encoding":           {400, "invalid_encoding", "invalid_request_error"},
		"missing_model":              {400, "missing_model", "invalid_request_error"},
		"bad_request":                {400, "bad_request", "invalid_request_error"},
		"no_permitted_target":        {403, "no_permitted_target", "permission_error"},
		"model_not_found":            {404, "model_not_found", "not_found_error"},
		"request_timeout":            {408, "request_timeout", "invalid_request_error"},
		"body_too_large":             {413, "body_too_large", "invalid_request_error"},
		"unsupported_encoding":       {415, "unsupported_encoding", "invalid_request_error"},
		"saturated":                  {429, "saturated", "rate_limit_error"},
		"headers_too_large":          {431, "headers_too_large", "invalid_request_error"},
		"internal":                   {500, "internal", "api_error"},
		"not_supported":              {501, "not_supported", "invalid_request_error"},
		"upstream_connection_failed": {502, "upstream_connection_failed", "api_error"},
		"no_target":                  {503, "no_target", "overloaded_error"},
		"upstream_timeout":           {504, "upstream_timeout", "api_error"},
	}
	got := map[string]Error{}
	for _, e := range []Error{ErrMissingBody, ErrInvalidJSON, ErrInvalidEncoding, ErrMissingModel, ErrNoPermittedTarget,
		ErrModelNotFound, ErrUnsupportedEncoding, ErrSaturated, ErrInternal, ErrNotSupported, ErrNoTarget, ErrBadRequest,
		ErrRequestTimeout, ErrBodyTooLarge, ErrHeadersTooLarge, ErrUpstreamFailed, ErrUpstreamTimeout} {
		got[e.Code] = e
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Everything that could name a destination or forge an entry of the log is stripped.
func TestStrippedHeaders(t *testing.T) {
	stripped := map[string]bool{}
	for _, h := range StrippedHeaders() {
		if h != strings.ToLower(h) {
			t.Errorf("%q is not lower case", h)
		}
		if stripped[h] {
			t.Errorf("%q stands twice", h)
		}
		stripped[h] = true
	}
	for _, h := range []string{HeaderCluster, HeaderDecision, HeaderMaxRetries, HeaderTimeoutMS, HeaderPerTryTimeoutMS,
		HeaderAttemptCount, HeaderDataParallelRank} {
		if !stripped[h] {
			t.Errorf("%q is not stripped", h)
		}
	}
}
