package outcome

import (
	"strings"

	logv3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"

	"github.com/pointsman/pointsman/internal/ledger"
	"github.com/pointsman/pointsman/internal/wire"
)

const (
	// statusClientGone stands for the status of a request whose client left before any
	// response, codeClientGone for its code.
	statusClientGone = 499
	codeClientGone   = "client_gone"

	// statusTimeLimit is what Envoy answers when a time limit is over. Once the response has
	// begun it only cuts it, and the status is the upstream's.
	statusTimeLimit = 504

	// Beginnings of Envoy's details of an answer that an upstream made: a whole one, and one
	// that was cut.
	viaUpstream = "via_upstream"
	cutUpstream = "upstream_reset_after_response_started"

	// maxCode bounds a code that is taken from Envoy's details, in bytes.
	maxCode = 64
)

// readAnswer reads an entry of the log of requests. ok is false for those that
// pointsman answered itself, which were counted when it did, and for what passed by it:
// an upstream's answer without a decision. The code is "" when an upstream
// answered, but the client or the upstream did not see it through.
func readAnswer(e *logv3.HTTPAccessLogEntry) (a ledger.Answer, ok bool) {
	details := e.GetResponse().GetResponseCodeDetails()
	if strings.HasPrefix(details, wire.DetailPrefix) {
		return ledger.Answer{}, false
	}
	a = ledger.Answer{
		Decision: e.GetRequest().GetRequestHeaders()[wire.HeaderDecision],
		Status:   int(e.GetResponse().GetResponseCode().GetValue()),
	}
	flags := e.GetCommonProperties().GetResponseFlags()
	a.Idle = flags.GetStreamIdleTimeout()
	timeLimit := flags.GetStreamIdleTimeout() || flags.GetUpstreamRequestTimeout()
	switch {
	case a.Status == 0:
		a.Status, a.Code = statusClientGone, codeClientGone
	case strings.HasPrefix(details, viaUpstream), strings.HasPrefix(details, cutUpstream), timeLimit && a.Status != statusTimeLimit:
		return a, a.Decision != ""
	case a.Status >= 400 && !flags.GetDownstreamConnectionTermination() && !flags.GetDownstreamRemoteReset():
		a.Code = codeOf(a.Status, details)
	}
	return a, true
}

// codeOf gives the code of an answer of Envoy's own: that of the row of the error table
// into which Envoy's configuration turns it.
func codeOf(status int, details string) string {
	for _, e := range [...]wire.Error{
		wire.ErrBadRequest, wire.ErrRequestTimeout, wire.ErrBodyTooLarge, wire.ErrHeadersTooLarge,
		wire.ErrInternal, wire.ErrNotSupported, wire.ErrUpstreamFailed, wire.ErrNoTarget, wire.ErrUpstreamTimeout,
	} {
		if e.Status == status {
			return e.Code
		}
	}
	return token(details)
}

// token is the beginning of Envoy's details that is one plain word; what may follow in
// braces can quote an upstream.
func token(details string) string {
	n := 0
	for n < min(len(details), maxCode) {
		c := details[n]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '.' && c != '-' {
			break
		}
		n++
	}
	return details[:n]
}
