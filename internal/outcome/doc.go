// Package outcome is the access-log service: Envoy tells it how every attempt on an
// upstream ended, and which answers no upstream made.
//
// It reads entries and nothing more: what an outcome does is the ledger's
// affair. A log stream names its log in its first message only; entries of logs that
// pointsman did not configure are read and ignored. What an entry says of its
// times, status and flags comes from Envoy; a client can forge none of it, because
// Envoy strips the decision header from what it sends.
//
// app registers the Server; gRPC calls it, one goroutine per stream. Each Envoy
// worker thread has a stream of its own, so entries of one request may arrive on
// several and in any order.
package outcome
