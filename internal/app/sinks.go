package app

import (
	"github.com/pointsman/pointsman/internal/ledger"
	"github.com/pointsman/pointsman/internal/routing"
)

// sinks hands on what the ledger tells to everybody who listens.
type sinks []ledger.Sink

func (s sinks) Decided(d *routing.Decision) {
	for _, to := range s {
		to.Decided(d)
	}
}

func (s sinks) Attempted(pool, target string, a *ledger.Attempt, parked bool) {
	for _, to := range s {
		to.Attempted(pool, target, a, parked)
	}
}

func (s sinks) Answered(a ledger.Answer) {
	for _, to := range s {
		to.Answered(a)
	}
}

func (s sinks) Closed(r ledger.Record) {
	for _, to := range s {
		to.Closed(r)
	}
}

func (s sinks) Late() {
	for _, to := range s {
		to.Late()
	}
}
