package request

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"
)

// TestSession is cases 146-148 and 357, and report 064.
func TestSession(t *testing.T) {
	long := strings.Repeat("k", 256)
	hash := func(s string) string { return fmt.Sprintf("%016x", xxh3.HashString(s)) }
	tests := []struct {
		name            string
		headers, fields []string // of the options
		h               header
		members         string
		want            string
	}{
		{"the default", nil, nil, header{"x-session-id": {"s1"}}, `"user":"u"`, "s1"},
		{"none", nil, nil, header{}, `"user":"u"`, ""},
		{"report 064: empty", nil, nil, header{"x-session-id": {""}}, `"x":1`, ""},
		{"report 064: spaces only", nil, nil, header{"x-session-id": {"   "}}, `"x":1`, ""},
		{"trimmed", nil, nil, header{"x-session-id": {" s1\t"}}, `"x":1`, "s1"},
		{"the first of a repeated header", nil, nil, header{"x-session-id": {"s1", "s2"}}, `"x":1`, "s1"},
		{"case 146: only x-b", []string{"x-a", "x-b"}, nil, header{"x-b": {"b"}, "x-session-id": {"s"}}, `"x":1`, "b"},
		{"case 146: both", []string{"x-a", "x-b"}, nil, header{"x-a": {"a"}, "x-b": {"b"}}, `"x":1`, "a"},
		{"x-a empty", []string{"x-a", "x-b"}, nil, header{"x-a": {" "}, "x-b": {"b"}}, `"x":1`, "b"},
		{"option in capitals", []string{"X-A"}, nil, header{"x-a": {"a"}}, `"x":1`, "a"},
		{"case 147: user", nil, []string{"user"}, header{}, `"user":"u"`, "u"},
		{"header and body", nil, []string{"user"}, header{"x-session-id": {"s"}}, `"user":"u"`, "s"},
		{"case 148: not a string", nil, []string{"metadata.user_id"}, header{}, `"metadata":{"user_id":5}`, ""},
		{"metadata.user_id", nil, []string{"metadata.user_id"}, header{}, `"metadata":{"user_id":"w"}`, "w"},
		{"metadata of another kind", nil, []string{"metadata.user_id"}, header{}, `"metadata":"user_id"`, ""},
		{"the last metadata", nil, []string{"metadata.user_id"}, header{}, `"metadata":{"user_id":"v"},"metadata":{}`, ""},
		{"the last user_id", nil, []string{"metadata.user_id"}, header{}, `"metadata":{"user_id":"v","user_id":"w"}`, "w"},
		{"case 357: session_id", nil, []string{"session_id"}, header{}, `"session_id":"s"`, "s"},
		{"prompt_cache_key", nil, []string{"prompt_cache_key"}, header{}, `"prompt_cache_key":"p"`, "p"},
		{"previous_response_id", nil, []string{"previous_response_id"}, header{}, `"previous_response_id":"r"`, "r"},
		{"in the order of the option", nil, []string{"session_id", "user"}, header{}, `"user":"u","session_id":"s"`, "s"},
		{"the first that is not empty", nil, []string{"session_id", "user"}, header{}, `"user":"u","session_id":" \n\t "`, "u"},
		{"the last duplicate", nil, []string{"user"}, header{}, `"user":"u","user":"v"`, "v"},
		{"the last duplicate is no string", nil, []string{"user"}, header{}, `"user":"u","user":null`, ""},
		{"body, trimmed and decoded", nil, []string{"user"}, header{}, `"user":" \n\u00e9\"\t"`, `é"`},
		{"an unknown option", nil, []string{"model", "user"}, header{}, `"user":"u"`, "u"},
		{"as long as may be", nil, nil, header{"x-session-id": {long}}, `"x":1`, long},
		{"longer", nil, nil, header{"x-session-id": {" " + long + "k"}}, `"x":1`, hash(long + "k")},
		{"longer, in the body", nil, []string{"user"}, header{}, `"user":"` + long + `k "`, hash(long + "k")},
		{"as long in the body", nil, []string{"user"}, header{}, `"user":"` + long + ` "`, long},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			opts := DefaultOptions()
			if test.headers != nil {
				opts.SessionHeaders = test.headers
			}
			opts.SessionBodyFields = test.fields
			got := read(NewReader(opts), chatPath, test.h, []byte(`{"model":"m",`+test.members+`}`))
			if got.Session != test.want || got.Err != "" {
				t.Errorf("%s session %q, want %q", got.Err, got.Session, test.want)
			}
		})
	}
	for _, name := range SessionBodyFields() {
		if sessionField(name) == none {
			t.Errorf("%s is listed and not known", name)
		}
	}
}
