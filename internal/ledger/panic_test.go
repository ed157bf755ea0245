package ledger

import (
	"reflect"
	"testing"

	"github.com/pointsman/pointsman/picker"
)

// broken is a balancer that panics over what it is told after the choice.
type broken struct{ picker.Balancer }

func (broken) Observe(int, *picker.Call)  { panic("observe") }
func (broken) Withdraw(int, *picker.Call) { panic("withdraw") }

// breakBalancer puts one into the place of that of route m. No configuration can: every
// strategy there is behaves.
func (w *world) breakBalancer() {
	place := reflect.ValueOf(w.router.Snapshot().Pool("m")).Elem().FieldByName("chooser").Elem().FieldByName("balancer")
	place = reflect.NewAt(place.Type(), place.Addr().UnsafePointer()).Elem()
	place.Set(reflect.ValueOf(broken{place.Interface().(picker.Balancer)}))
}

func (w *world) wantPanic(want string, f func()) {
	w.Helper()
	defer func() {
		if got := recover(); got != want {
			w.Errorf("panic %v, want %q", got, want)
		}
	}()
	f()
}

// A balancer that panics takes nothing along: counts, attempts and requests are those of a
// good one, and the ledger goes on.
func TestBalancerPanics(t *testing.T) {
	w := newWorld(t)
	w.retry[404] = true
	d, other := w.decide(), w.decide()
	id, number, otherID, otherNumber := d.ID, d.Number, other.ID, other.Number
	w.breakBalancer()
	w.want("two requests", "b1 c1 a0")

	w.wantPanic("withdraw", func() { w.ledger.AttemptEnded(on(id, 1, "b", NoResponse, 0)) })
	w.want("b failed", "b0 c2 a0")
	w.wantPanic("observe", func() { w.ledger.AttemptEnded(on(id, 3, "a", Complete, 200)) })
	w.want("c lost, a served", "b0 c1 a0")
	w.ledger.StreamEnded(number)
	w.wantPanic("withdraw", func() { w.ledger.AttemptEnded(on(id, 2, "c", ErrorStatus, 503)) })
	w.wantAttempts("b 1 no_response parked", "a 3 complete 200", "c 2 error_status 503 parked")
	w.wantClosed(200)

	// The other's list is c, a, b.
	w.ledger.AttemptEnded(on(otherID, 1, "c", Complete, 200))
	w.ledger.StreamEnded(otherNumber)
	w.want("at the end", "b0 c0 a0")
	w.wantClosed(200, 200)
}

// The same of what the ledger asks its owner under the lock.
func TestOptionPanics(t *testing.T) {
	w := newWorld(t)
	d := w.decide()
	id, number := d.ID, d.Number
	retryable := w.ledger.opts.Retryable
	w.ledger.opts.Retryable = func(int) bool { panic("retryable") }
	w.wantPanic("retryable", func() { w.ledger.AttemptEnded(on(id, 1, "b", ErrorStatus, 503)) })
	w.ledger.opts.Retryable = retryable
	w.ledger.AttemptEnded(on(id, 1, "b", ErrorStatus, 503))
	w.ledger.AttemptEnded(on(id, 2, "c", Complete, 200))
	w.ledger.StreamEnded(number)
	w.want("at the end", "b0 c0 a0")
	w.wantClosed(200)
}
