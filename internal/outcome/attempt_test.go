package outcome

import (
	"testing"
	"time"

	logv3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pointsman/pointsman/internal/ledger"
	"github.com/pointsman/pointsman/internal/tracker"
	"github.com/pointsman/pointsman/internal/wire"
)

// The table of "Where outcomes come from". Among its rows: the outcomes of case
// 396 (client leaves before headers, in the stream; engine cuts the stream) and of reports 027 and 030.
func TestOutcomeOf(t *testing.T) {
	unknown := &logv3.ResponseFlags{}
	unknown.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 1000, protowire.VarintType), 1))
	tests := []struct {
		name   string
		status int
		flags  *logv3.ResponseFlags
		ended  bool
		want   ledger.Outcome
	}{
		{"header timeout", 0, &logv3.ResponseFlags{UpstreamRequestTimeout: true}, false, ledger.Timeout},
		{"idle timeout before headers", 0, &logv3.ResponseFlags{StreamIdleTimeout: true}, false, ledger.Timeout},
		{"time of all attempts over", 0, &logv3.ResponseFlags{DurationTimeout: true}, false, ledger.Timeout},
		{"duration of the stream over", 0, &logv3.ResponseFlags{UpstreamMaxStreamDurationReached: true}, false, ledger.Timeout},
		{"timeout and overflow", 0, &logv3.ResponseFlags{UpstreamRequestTimeout: true, UpstreamOverflow: true}, false, ledger.Timeout},
		{"overflow", 0, &logv3.ResponseFlags{UpstreamOverflow: true}, false, ledger.Refused},
		{"refused", 0, &logv3.ResponseFlags{UpstreamConnectionFailure: true}, false, ledger.NoResponse},
		{"reset before headers", 0, &logv3.ResponseFlags{UpstreamRemoteReset: true}, false, ledger.NoResponse},
		{"closed before headers", 0, &logv3.ResponseFlags{UpstreamConnectionTermination: true}, false, ledger.NoResponse},
		{"protocol error", 0, &logv3.ResponseFlags{UpstreamProtocolError: true}, false, ledger.NoResponse},
		{"a flag of a later Envoy", 0, unknown, false, ledger.NoResponse},
		{"client gone", 0, nil, false, ledger.ClientGone},
		{"client gone, empty flags", 0, &logv3.ResponseFlags{}, false, ledger.ClientGone},

		{"400", 400, nil, true, ledger.ClientError},
		{"401", 401, nil, true, ledger.AuthError},
		{"403", 403, nil, true, ledger.AuthError},
		{"404", 404, nil, true, ledger.ClientError},
		{"408", 408, nil, true, ledger.ErrorStatus},
		{"422", 422, nil, true, ledger.ClientError},
		{"425", 425, nil, true, ledger.ClientError},
		{"429", 429, nil, true, ledger.ErrorStatus},
		{"499", 499, nil, true, ledger.ClientError},
		{"500", 500, nil, true, ledger.ErrorStatus},
		{"599", 599, nil, true, ledger.ErrorStatus},
		{"503 that is retried shows no end", 503, nil, false, ledger.ErrorStatus},
		{"503 with a flag", 503, &logv3.ResponseFlags{UpstreamRemoteReset: true}, false, ledger.ErrorStatus},
		{"404 whose body times out", 404, &logv3.ResponseFlags{StreamIdleTimeout: true}, false, ledger.ClientError},

		{"complete", 200, nil, true, ledger.Complete},
		{"complete with a flag", 200, &logv3.ResponseFlags{UpstreamConnectionTermination: true}, true, ledger.Complete},
		{"redirect", 302, nil, true, ledger.Complete},
		{"cut by the engine", 200, &logv3.ResponseFlags{UpstreamProtocolError: true}, false, ledger.Cut},
		{"stalled", 200, &logv3.ResponseFlags{StreamIdleTimeout: true}, false, ledger.Cut},
		{"client left", 200, nil, false, ledger.ClientLeft},
		{"client left, empty flags", 200, &logv3.ResponseFlags{}, false, ledger.ClientLeft},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := outcomeOf(test.status, test.flags, test.ended); got != test.want {
				t.Errorf("outcome %s, want %s", got, test.want)
			}
		})
	}
}

func TestReadAttempt(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		name  string
		entry *logv3.HTTPAccessLogEntry
		want  ledger.Attempt
	}{
		{"nil", nil, ledger.Attempt{Outcome: ledger.ClientGone, RetryAfter: tracker.NoHint}},
		{"empty", &logv3.HTTPAccessLogEntry{}, ledger.Attempt{Outcome: ledger.ClientGone, RetryAfter: tracker.NoHint}},
		{
			"complete",
			entry("7", "pm|a", "2", 200, map[string]string{wire.TagFirstHeaderUS: "542", wire.TagFirstBodyUS: "301756", wire.TagTotalUS: "900000"}, ""),
			ledger.Attempt{
				Decision: "7", Cluster: "pm|a", Number: 2, Outcome: ledger.Complete, Status: 200, RetryAfter: tracker.NoHint,
				FirstHeader: 542 * time.Microsecond, FirstBody: 301756 * time.Microsecond, Total: 900 * time.Millisecond,
			},
		},
		{
			"points that were not reached", // first_body_us and total_us have no value
			entry("7", "pm|a", "1", 200, map[string]string{wire.TagFirstHeaderUS: "542", wire.TagFirstBodyUS: "-", wire.TagTotalUS: "-"}, ""),
			ledger.Attempt{
				Decision: "7", Cluster: "pm|a", Number: 1, Outcome: ledger.ClientLeft, Status: 200, RetryAfter: tracker.NoHint,
				FirstHeader: 542 * time.Microsecond,
			},
		},
		{
			"less than a microsecond is known",
			entry("7", "pm|a", "1", 200, map[string]string{wire.TagTotalUS: "0"}, ""),
			ledger.Attempt{
				Decision: "7", Cluster: "pm|a", Number: 1, Outcome: ledger.Complete, Status: 200, RetryAfter: tracker.NoHint,
				Total: time.Microsecond,
			},
		},
		{
			"times that are none",
			entry("7", "pm|a", "1", 200, map[string]string{wire.TagFirstHeaderUS: "-5", wire.TagFirstBodyUS: "1.5", wire.TagTotalUS: "9223372036854775807"}, ""),
			ledger.Attempt{Decision: "7", Cluster: "pm|a", Number: 1, Outcome: ledger.ClientLeft, Status: 200, RetryAfter: tracker.NoHint},
		},
		{
			"Retry-After",
			entry("7", "pm|a", "1", 503, nil, "7"),
			ledger.Attempt{Decision: "7", Cluster: "pm|a", Number: 1, Outcome: ledger.ErrorStatus, Status: 503, RetryAfter: 7 * time.Second},
		},
		{"no number", entry("7", "pm|a", "", 404, nil, ""), ledger.Attempt{Decision: "7", Cluster: "pm|a", Outcome: ledger.ClientError, Status: 404, RetryAfter: tracker.NoHint}},
		{"a number that is none", entry("7", "pm|a", "-1", 404, nil, ""), ledger.Attempt{Decision: "7", Cluster: "pm|a", Outcome: ledger.ClientError, Status: 404, RetryAfter: tracker.NoHint}},
		{"a joined number", entry("7", "pm|a", "3,1", 404, nil, ""), ledger.Attempt{Decision: "7", Cluster: "pm|a", Number: 3, Outcome: ledger.ClientError, Status: 404, RetryAfter: tracker.NoHint}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := ledger.Attempt{Decision: "of the entry before", Status: 1, Total: 1}
			readAttempt(test.entry, now, &got)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("attempt (-want +got):\n%s", diff)
			}
		})
	}
}

// The start of the attempt is not always known: the end of the body counts all the
// same, and no time is made up.
func TestEndWithoutStart(t *testing.T) {
	e := entry("7", "pm|a", "1", 200, map[string]string{wire.TagTotalUS: "-"}, "")
	e.CommonProperties.TimeToLastUpstreamRxByte = durationpb.New(time.Second)
	var got ledger.Attempt
	readAttempt(e, time.Now(), &got)
	if got.Outcome != ledger.Complete || got.Total != 0 {
		t.Errorf("outcome %s after %s, want complete after an unknown time", got.Outcome, got.Total)
	}
}

func entry(decision, cluster, number string, status uint32, tags map[string]string, retryAfter string) *logv3.HTTPAccessLogEntry {
	return &logv3.HTTPAccessLogEntry{
		CommonProperties: &logv3.AccessLogCommon{UpstreamCluster: cluster, CustomTags: tags},
		Request: &logv3.HTTPRequestProperties{RequestHeaders: map[string]string{
			wire.HeaderDecision: decision, wire.HeaderAttemptCount: number,
		}},
		Response: &logv3.HTTPResponseProperties{
			ResponseCode:    wrapperspb.UInt32(status),
			ResponseHeaders: map[string]string{wire.HeaderRetryAfter: retryAfter},
		},
	}
}
