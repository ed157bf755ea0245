package outcome

import (
	"strings"
	"testing"

	logv3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pointsman/pointsman/internal/ledger"
	"github.com/pointsman/pointsman/internal/wire"
)

func TestReadAnswer(t *testing.T) {
	gone := &logv3.ResponseFlags{DownstreamConnectionTermination: true}
	reset := &logv3.ResponseFlags{DownstreamRemoteReset: true}
	type ignored struct{}
	tests := []struct {
		name     string
		decision string
		status   uint32
		details  string
		flags    *logv3.ResponseFlags
		want     any
	}{
		{"our own error", "", 404, "pointsman_model_not_found", nil, ignored{}},
		{"our own list of models", "", 200, "pointsman_models", nil, ignored{}},
		{"our own error after the decision", "7", 500, "pointsman_internal", nil, ignored{}},
		{"not ours at all", "", 200, "via_upstream", nil, ignored{}},

		{"unreadable", "", 400, "http1.codec_error", nil, ledger.Answer{Status: 400, Code: "bad_request"}},
		{"slow client", "", 408, "request_overall_timeout", nil, ledger.Answer{Status: 408, Code: "request_timeout"}},
		{"body too large", "", 413, "request_payload_too_large", nil, ledger.Answer{Status: 413, Code: "body_too_large"}},
		{"headers too large", "", 431, "request_headers_too_large", nil, ledger.Answer{Status: 431, Code: "headers_too_large"}},
		{"filter error", "", 500, "mismatch_between_content_length_and_the_length_of_the_mutated_body", nil, ledger.Answer{Status: 500, Code: "internal"}},
		{"upgrade", "", 501, "upgrade_failed", nil, ledger.Answer{Status: 501, Code: "not_supported"}},
		{"undecided", "", 503, "no_healthy_upstream", &logv3.ResponseFlags{NoHealthyUpstream: true}, ledger.Answer{Status: 503, Code: "no_target"}},

		{
			"last attempt reset", "7", 502, "upstream_reset_before_response_started{connection_termination}",
			&logv3.ResponseFlags{UpstreamConnectionTermination: true}, ledger.Answer{Decision: "7", Status: 502, Code: "upstream_connection_failed"},
		},
		{
			"last attempt silent", "7", 504, "upstream_per_try_timeout",
			&logv3.ResponseFlags{UpstreamRequestTimeout: true}, ledger.Answer{Decision: "7", Status: 504, Code: "upstream_timeout"},
		},
		{"another status of Envoy's own", "", 426, "low_version", nil, ledger.Answer{Status: 426, Code: "low_version"}},
		{"details that quote", "", 418, "some_reason{secret words}", nil, ledger.Answer{Status: 418, Code: "some_reason"}},
		{"long details", "", 418, strings.Repeat("x", 100), nil, ledger.Answer{Status: 418, Code: strings.Repeat("x", 64)}},

		{"client gone before a decision", "", 0, "downstream_remote_disconnect", gone, ledger.Answer{Status: 499, Code: "client_gone"}},
		{"client gone before any response", "7", 0, "downstream_remote_disconnect", gone, ledger.Answer{Decision: "7", Status: 499, Code: "client_gone"}},
		{"client reset before any response", "7", 0, "http2.remote_reset", reset, ledger.Answer{Decision: "7", Status: 499, Code: "client_gone"}},
		{"client left the answer", "7", 200, "downstream_remote_disconnect", gone, ledger.Answer{Decision: "7", Status: 200}},
		{"client left an engine's error", "7", 500, "downstream_remote_disconnect", gone, ledger.Answer{Decision: "7", Status: 500}},
		{
			"engine cut its answer", "7", 200, "upstream_reset_after_response_started{remote_reset}",
			&logv3.ResponseFlags{UpstreamRemoteReset: true}, ledger.Answer{Decision: "7", Status: 200},
		},
		{
			"cut as it was silent", "7", 200, "stream_idle_timeout",
			&logv3.ResponseFlags{StreamIdleTimeout: true}, ledger.Answer{Decision: "7", Status: 200, Idle: true},
		},
		{
			"an engine's error cut as it was silent", "7", 400, "stream_idle_timeout",
			&logv3.ResponseFlags{StreamIdleTimeout: true}, ledger.Answer{Decision: "7", Status: 400, Idle: true},
		},
		{
			"silent before any response", "7", 504, "stream_idle_timeout",
			&logv3.ResponseFlags{StreamIdleTimeout: true}, ledger.Answer{Decision: "7", Status: 504, Code: "upstream_timeout", Idle: true},
		},
		{ // here the attempt has a flag of its own
			"cut by the limit of the attempt", "7", 400, "upstream_per_try_idle_timeout",
			&logv3.ResponseFlags{UpstreamRequestTimeout: true}, ledger.Answer{Decision: "7", Status: 400},
		},
		{
			"cut when the time of all attempts was over", "7", 200, "response_timeout",
			&logv3.ResponseFlags{UpstreamRequestTimeout: true}, ledger.Answer{Decision: "7", Status: 200},
		},
		{
			"engine's answer after all retries", "7", 503, "via_upstream",
			&logv3.ResponseFlags{UpstreamRetryLimitExceeded: true}, ledger.Answer{Decision: "7", Status: 503},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e := &logv3.HTTPAccessLogEntry{
				CommonProperties: &logv3.AccessLogCommon{ResponseFlags: test.flags},
				Request:          &logv3.HTTPRequestProperties{},
				Response:         &logv3.HTTPResponseProperties{ResponseCodeDetails: test.details},
			}
			if test.status != 0 {
				e.Response.ResponseCode = wrapperspb.UInt32(test.status)
			}
			if test.decision != "" {
				e.Request.RequestHeaders = map[string]string{wire.HeaderDecision: test.decision}
			}
			var got any = ignored{}
			if a, ok := readAnswer(e); ok {
				got = a
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadAnswerOfNothing(t *testing.T) {
	want := ledger.Answer{Status: 499, Code: "client_gone"}
	if got, ok := readAnswer(nil); !ok || got != want {
		t.Errorf("readAnswer(nil) = %v, %v, want %v", got, ok, want)
	}
}
