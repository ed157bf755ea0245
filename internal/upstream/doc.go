// Package upstream knows what a provider's configuration only refers to: the addresses
// behind its name, and its key, out of the environment or a file.
//
// It decides nothing and tells Envoy nothing: app makes resources of what it
// gives. Load reads all that a configuration refers to, once, before that
// configuration comes into force; Run goes on from there: it resolves names again,
// watches the files of keys, and tells of every change. A source that fails keeps its last
// value. No key is ever part of a message or an error.
//
// All methods of Sources may be called from any goroutine.
package upstream
