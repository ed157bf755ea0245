// Package routing turns a request into a decision: the model string names a
// route, a group or a provider, the balancer of its pool chooses, and what comes out is an
// ordered list of targets, the first of them counted in flight. A route with variants
// has a pool for each; one is drawn, and the others serve when it has nothing left.
//
// The configuration in force is a Snapshot, immutable and replaced whole: a
// Router holds the current one in an atomic pointer. Pools whose inputs did not
// change are carried over as they are; a changed pool gets a new balancer that takes
// over the state of every target that remains. A decision made under an
// older snapshot stays valid: it holds its pools.
//
// routing does no I/O. extproc calls Decide on the goroutine of the request's
// stream; app builds and swaps snapshots; ledger tells a decision what became
// of its attempts.
package routing
