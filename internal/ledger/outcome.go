package ledger

import "time"

// Outcome is how an attempt ended (spec: targets, "What an outcome does").
type Outcome uint8

// The outcomes. "Started" means that response headers with a status below 400
// reached the proxy.
const (
	Unknown     Outcome = iota // nothing heard
	Complete                   // started, body complete
	Cut                        // started, then cut by the upstream or idle too long
	ClientLeft                 // started, then the client left
	ClientGone                 // the client left before any response
	ClientError                // 4xx except 401, 403, 408, 429
	AuthError                  // 401, 403
	ErrorStatus                // 408, 429, 500 and above
	NoResponse                 // connect error, reset or close before headers
	Timeout                    // no response headers in time
	Refused                    // refused by the proxy itself
)

var outcomeNames = [...]string{"unknown", "complete", "cut", "client_left", "client_gone", "client_error",
	"auth_error", "error_status", "no_response", "timeout", "refused"}

// String gives the word used in logs and metrics.
func (o Outcome) String() string { return outcomeNames[o] }

// Outcomes lists all of them.
func Outcomes() []Outcome {
	all := make([]Outcome, len(outcomeNames))
	for i := range all {
		all[i] = Outcome(i)
	}
	return all
}

// failed tells whether the attempt failed before any response started, so that what
// it recorded about session and adapter is withdrawn.
func (o Outcome) failed() bool {
	switch o {
	case ClientError, AuthError, ErrorStatus, NoResponse, Timeout, Refused:
		return true
	}
	return false
}

// Attempt is one try to serve a request on one target, as the proxy reports it
// when it has ended.
type Attempt struct {
	Decision   string // decision header
	Cluster    string
	Number     int // 1, 2, ...; 0 = not known
	Outcome    Outcome
	Status     int           // 0 = none
	RetryAfter time.Duration // tracker.NoHint without a usable Retry-After

	// Times from the attempt's start, the first byte of the request going out
	// to the upstream; 0 = not reached or not known.
	FirstHeader, FirstBody, Total time.Duration
}

// Answer is an answer that no upstream made.
type Answer struct {
	Decision string // "" if there is none
	Pool     string // "" for a miss, or when the proxy answered before pointsman saw the request
	Status   int    // 0 = none reached the client
	Code     string // of the error table, or the proxy's response-code details; "" = an upstream answered
	Idle     bool   // the proxy ended it because the upstream was silent for too long
}

// Record is a finished request.
type Record struct {
	Pool     string
	Status   int // what the client saw; 499 = it left before any response; 0 = not heard
	Attempts int
	Duration time.Duration // from the decision to the end of the stream

	// TTFT is the time from the decision to the first body byte of the answer,
	// 0 if there was none.
	TTFT time.Duration
}

// statusClientGone counts requests whose client left before any response.
const statusClientGone = 499

// status is what the client saw if this was the last attempt.
func (a *Attempt) status() int {
	switch a.Outcome {
	case NoResponse:
		return 502
	case Timeout:
		return 504
	case Refused:
		return 503
	case ClientGone:
		return statusClientGone
	}
	return a.Status
}
