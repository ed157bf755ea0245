// Package fakeenvoy plays an Envoy for tests of pointsman's servers: the ext_proc
// filter of one request after the other, and the streams of the access logs, over
// a real gRPC connection.
//
// It does what Envoy 1.40 does with a reply, as far as a client or an upstream could see it:
// applies header and body mutations in Envoy's order, drops metadata of
// other namespaces, and refuses what Envoy refuses. It routes nothing: the test
// says how attempts end. Tests import it and nothing else does. An Envoy may be used
// from several goroutines; an Exchange and a Log by one at a time.
package fakeenvoy
