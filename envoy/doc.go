// Package envoy says, in Envoy's own words, what a configuration means: it
// turns a *config.Config into the listener, the route and the clusters that xds
// hands out (Build), and into the bootstrap that Envoy is started with (Bootstrap).
//
// It is a pure function of its argument: no state, no clock, no I/O, and the same
// configuration gives the same bytes, so that a restarted pointsman changes nothing
// in a running Envoy. It does not talk to Envoy, and it does not know which
// Envoy has accepted what; that is package xds. internal/app and cmd call it;
// everything here may be called from any goroutine.
//
// # What lives where
//
// A changed listener drains its connections and cuts the answers that outlive
// the drain time; a changed route does not. So the listener depends on nothing
// but envoy.listener, and all that a reload may change lives in the route
// or in the clusters:
//
//   - limits.body is the virtual host's request_body_buffer_limit. Envoy takes
//     the larger of this and the listener's connection limit, which is therefore
//     fixed at the smallest value that limits.body can have.
//   - timeouts.client is the maximum duration of a stream on the route for
//     undecided requests. The decision's header moves a request to the other
//     route, which has no such limit, and Envoy stops the clock. The listener's
//     own request_timeout could not be changed without a new listener.
//   - timeouts.request comes with each request (x-envoy-upstream-rq-...), from extproc.
//   - timeouts.idle, retry and response_headers belong to the route; targets
//     and timeouts.connect to the clusters.
//
// Every other setting stands for a finding on a real Envoy; the comments name it.
package envoy
