// Package lint holds the house rules that no linter knows, as tests over the
// files of this repository: the import edges drawn in ARCHITECTURE.md, what
// picker may import, package comments, file lengths, sleeps, dead links.
//
// It has no code but its tests and is imported by nobody. `make lint` and the
// unit rung of `make test` run it.
package lint
