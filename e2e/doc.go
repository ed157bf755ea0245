// Package e2e tests the built binaries against a real Envoy: pointsman serve and
// Envoy as processes, simulated engines in the test's own process, so that a test can
// tell an engine to fail and can read what it saw.
//
// It holds tests only. Without an Envoy (see scripts/envoy) they are skipped with
// the reason; in CI they fail instead.
package e2e
