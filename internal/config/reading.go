package config

import (
	"fmt"
	"strings"
)

// Ordered is a list of words whose order counts: it stays as the file has it.
type Ordered []string

// Session says where the key of a session is read from.
type Session struct {
	// Headers are in lower case.
	Headers    Ordered `yaml:"headers" format:"header" default:"[x-session-id]" doc:"request headers that are asked in this order for the session; the first with a value that is not empty counts. Of any letter case. [] = none"`
	BodyFields Ordered `yaml:"body_fields" enum:"user|prompt_cache_key|previous_response_id|session_id|metadata.user_id" default:"[]" doc:"fields of the body that are asked in this order when no header names the session"`
}

// Affinity is about what is compared of a prompt.
type Affinity struct {
	MaxText       int64 `yaml:"max_text" unit:"bytes" default:"32KiB" min:"1KiB" max:"64KiB" doc:"how much of the beginning of a prompt is compared; length and digest are always those of the whole"`
	StripTokenIDs bool  `yaml:"strip_token_ids" default:"true" doc:"the headers with token ids, x-pointsman-token-ids and x-rolter-vllm-token-ids, go no further than pointsman"`
}

// header checks the name of a request header and gives it in lower case.
func header(s string) (string, error) {
	if !headerForm.MatchString(s) {
		return "", fmt.Errorf("must be the name of a header, such as x-session-id, not %s", quote(s))
	}
	return strings.ToLower(s), nil
}
