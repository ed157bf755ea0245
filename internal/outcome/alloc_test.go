//go:build !race

package outcome

import (
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/fakeenvoy"
	"github.com/pointsman/pointsman/internal/ledger"
)

// Reading an entry allocates nothing: the attempt holds the entry's own strings.
func TestReadAttemptAllocatesNothing(t *testing.T) {
	e := fakeenvoy.Attempt{
		Decision: "ps-0-t8k2qm-3mv", Cluster: "pm|a", Number: 1, Status: 503, RetryAfter: "7",
		FirstHeader: time.Millisecond, FirstBody: time.Second, Total: time.Minute,
	}.Entry()
	now := time.Now()
	var a ledger.Attempt
	if n := testing.AllocsPerRun(100, func() { readAttempt(e, now, &a) }); n != 0 {
		t.Errorf("%v allocations per entry", n)
	}
}
