package ledger

import "time"

const (
	// sameEnd is how far apart the end of a request's stream and the log entry of the
	// same end may come.
	sameEnd = time.Second
	// maxUnnamed bounds the entries that wait for their decision: those of a few seconds
	// in which all clients leave.
	maxUnnamed = 4096
)

// unnamed holds when the request log told of clients that left while no decision was
// known to the proxy, oldest first. Such a request was counted by itself; if its decision
// was made all the same, and was still on its way to the proxy, it is not counted again.
// It is guarded by the ledger's lock.
type unnamed struct{ at []time.Time }

func (u *unnamed) add(now time.Time) {
	if len(u.at) < maxUnnamed {
		u.at = append(u.at, now)
	}
}

// take tells whether there is an entry for a stream that ended at this time, and
// removes it. Streams are asked for in the order of their ends.
func (u *unnamed) take(ended time.Time) bool {
	old := 0
	for old < len(u.at) && u.at[old].Before(ended.Add(-sameEnd)) {
		old++
	}
	found := old < len(u.at) && !u.at[old].After(ended.Add(sameEnd))
	if found {
		old++
	}
	u.at = append(u.at[:0], u.at[old:]...)
	return found
}
