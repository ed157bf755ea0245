// Package ledger keeps the open decisions by id: opened by extproc, moved along
// their lists by the outcomes of attempts, closed when the request's stream has
// ended and every attempt was heard.
//
// It is the only writer of in-flight counts after the decision, and the place
// where an outcome becomes what is learned: cooldown, latency, withdrawal and
// observation. Stream ends and log entries arrive on different connections in
// any order; whichever comes first releases the count, and it is released
// exactly once.
//
// What happened is told to a Sink: metrics and logs. All methods may be called from any
// goroutine.
package ledger
