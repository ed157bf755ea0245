package outcome

import (
	"math"
	"strconv"
	"strings"
	"time"

	logv3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	"google.golang.org/protobuf/proto"

	"github.com/pointsman/pointsman/internal/ledger"
	"github.com/pointsman/pointsman/internal/wire"
)

// readAttempt reads an entry of the log of attempts, heard now, into a. Whatever the
// entry lacks is absent from the attempt.
func readAttempt(e *logv3.HTTPAccessLogEntry, now time.Time, a *ledger.Attempt) {
	common := e.GetCommonProperties()
	sent := e.GetRequest().GetRequestHeaders()
	tags := common.GetCustomTags()
	total, ended := micros(tags[wire.TagTotalUS])
	firstHeader, _ := micros(tags[wire.TagFirstHeaderUS])
	firstBody, _ := micros(tags[wire.TagFirstBodyUS])
	code := int(e.GetResponse().GetResponseCode().GetValue())
	*a = ledger.Attempt{
		Decision:    sent[wire.HeaderDecision],
		Cluster:     common.GetUpstreamCluster(),
		Number:      attemptNumber(sent[wire.HeaderAttemptCount]),
		Outcome:     outcomeOf(code, common.GetResponseFlags(), ended || common.GetTimeToLastUpstreamRxByte() != nil),
		Status:      code,
		RetryAfter:  retryAfter(e.GetResponse().GetResponseHeaders()[wire.HeaderRetryAfter], now),
		FirstHeader: firstHeader,
		FirstBody:   firstBody,
		Total:       total,
	}
}

// outcomeOf reads status (0 = none), flags, and whether the end of the body was seen,
// as the table of the specification says (targets, "Where outcomes come from").
// Status comes first: an answer that failed over shows no end of its body. A client
// that leaves causes no flag.
func outcomeOf(code int, flags *logv3.ResponseFlags, bodyEnded bool) ledger.Outcome {
	switch {
	case code == 0 && timedOut(flags):
		return ledger.Timeout
	case code == 0 && flags.GetUpstreamOverflow():
		return ledger.Refused
	case code == 0 && flagged(flags):
		return ledger.NoResponse
	case code == 0:
		return ledger.ClientGone
	case code >= 400:
		return outcomeOfStatus(code)
	case bodyEnded:
		return ledger.Complete
	case flagged(flags):
		return ledger.Cut
	}
	return ledger.ClientLeft
}

func outcomeOfStatus(code int) ledger.Outcome {
	switch {
	case code == 401, code == 403:
		return ledger.AuthError
	case code == 408, code == 429, code >= 500:
		return ledger.ErrorStatus
	}
	return ledger.ClientError
}

// timedOut tells of a header or idle timeout.
func timedOut(f *logv3.ResponseFlags) bool {
	return f.GetUpstreamRequestTimeout() || f.GetStreamIdleTimeout() ||
		f.GetDurationTimeout() || f.GetUpstreamMaxStreamDurationReached()
}

// flagged tells whether any flag is set, also one that this program does not know.
func flagged(f *logv3.ResponseFlags) bool { return proto.Size(f) > 0 }

// maxMicros is the longest time that a time.Duration can hold, in microseconds.
const maxMicros = math.MaxInt64 / int64(time.Microsecond)

// micros reads a tag of microseconds; ok is false when its point in time was not
// reached. A known time is never 0.
func micros(tag string) (d time.Duration, ok bool) {
	n, err := strconv.ParseInt(tag, 10, 64)
	if err != nil || n < 0 || n > maxMicros {
		return 0, false
	}
	return time.Duration(max(n, 1)) * time.Microsecond, true
}

// attemptNumber reads the number that Envoy gave to the attempt; 0 = not known.
func attemptNumber(header string) int {
	first, _, _ := strings.Cut(header, ",")
	n, err := strconv.ParseUint(first, 10, 31)
	if err != nil {
		return 0
	}
	return int(n)
}
