package ledger

import (
	"time"

	"github.com/pointsman/pointsman/internal/routing"
	"github.com/pointsman/pointsman/internal/tracker"
)

// learn applies the columns cooldown and latency of the table of outcomes.
func (l *Ledger) learn(d *routing.Decision, k int, a *Attempt, now time.Time) (parked bool) {
	t := d.Entry(k).State
	plain500 := a.Outcome == ErrorStatus && a.Status == 500
	again := false
	// These three say nothing about the target, so its outcome before stays.
	if a.Outcome != Unknown && a.Outcome != ClientGone && a.Outcome != Refused {
		again = t.Status500(plain500)
	}
	switch a.Outcome {
	case ErrorStatus:
		if !plain500 || again {
			parked = t.Park(now, a.RetryAfter)
		}
	case NoResponse, Timeout:
		parked = t.Park(now, tracker.NoHint)
	case Complete, Cut, ClientLeft:
		switch ttft := l.opts.LatencyTTFT(); {
		case ttft && a.FirstBody > 0:
			t.Sample(now, ms(a.FirstBody))
		case !ttft && a.Outcome == Complete && a.Total > 0:
			t.Sample(now, ms(a.Total))
		}
	}
	return parked
}

// goesOn tells whether the proxy tries the next entry after this attempt.
func (l *Ledger) goesOn(d *routing.Decision, k int, a *Attempt) bool {
	if k+1 >= d.Len() {
		return false
	}
	switch a.Outcome {
	case ErrorStatus, ClientError, AuthError:
		return l.opts.Retryable(a.Status)
	case NoResponse, Timeout:
		// The time of all attempts together leaves no flag in the entry of the last, so
		// a timeout is always that of one attempt.
		return true
	}
	return false
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
