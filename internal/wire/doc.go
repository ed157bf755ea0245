// Package wire holds what Envoy's configuration and pointsman's servers must
// agree on: header and metadata names, cluster names, log names and tags, and
// the table of errors that no upstream made.
//
// It is constants and small types only. It imports nothing of this module, so
// both sides of the wire can import it: envoy, which writes the configuration,
// and extproc and outcome, which talk to the Envoy that runs it.
package wire
