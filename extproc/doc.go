// Package extproc is the conversation that Envoy's external processing filter
// holds with pointsman about a request: one gRPC stream = one request.
//
// The filter runs with request bodies BUFFERED. Envoy sends the headers, which are
// answered at once, then the whole body in one message; its arrival, not its
// end-of-stream flag, is the trigger: the request is read, decided, counted in
// flight, and the reply carries the ordered list of targets. From then on the
// stream says nothing more, and its end, for whatever reason, ends the request
// for the ledger. Requests that need no target, or get none, are answered by an
// immediate response.
//
// The package neither chooses nor learns: routing decides, ledger keeps what is
// open, outcome hears how attempts ended. It imports no configuration: what
// depends on it comes with the routing snapshot. app registers the Server; gRPC
// calls it, one goroutine per stream. Everything about one request belongs to
// that goroutine; the Server itself is immutable but for a cache of prepared
// replies and its notices.
//
// The Go API of this package is not stable.
package extproc
