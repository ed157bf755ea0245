// Package xds is the control plane: it keeps what the connected Envoys are
// given, knows what each of them has accepted, and tells from that which
// targets are reachable (spec: operation, "Several proxies").
//
// It makes no resources (package envoy does), resolves no names and decides no
// request. internal/app owns the one Server: it calls Update at the start and
// at each reload, registers the Server on the gRPC listener, and calls Run.
//
// # Protocol
//
// Delta ADS only. The server side of the protocol is written out here, on
// Envoy's own message types, and not taken from go-control-plane's server: that one
// holds what it has sent for what the peer has. After a rejection it never sends again
// what was dropped with the bad resource, and it keeps one version of a
// resource for all. Here every stream has its own account of what
// was accepted, what is on its way and what was refused, and the next response is
// the difference to what it should have. So a rejection needs no special
// case: the refused version is not sent again on that stream, the rest is, and the
// next version of the resource is tried by itself. There is one response on
// its way per stream and type; a burst of updates becomes one response as
// soon as the one before is answered.
//
// Envoy drops a response whole when one resource in it fails validation, and its
// message need not say which. Then the response is sent again in halves until the
// bad resource stands alone.
//
// # Concurrency
//
// Everything may be called from any goroutine. One mutex guards the state; each
// stream has a goroutine that reads and one that answers, and Update and Run
// only wake the latter. Targets is called without that mutex held, by one
// goroutine at a time and in order, so the last word on a target is the right
// one; it may call every method here but Update.
package xds
