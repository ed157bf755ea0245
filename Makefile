# Every target that a person calls has a line of help behind '##'; a test holds that.

BENCH     ?= .
COUNT     ?= 6
FUZZTIME  ?= 30s
PKG       ?= ./...
VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

.DEFAULT_GOAL := help

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "%-12s %s\n", $$1, $$2}' Makefile

.PHONY: build
build: ## build the programs into bin/
	@mkdir -p bin
	CGO_ENABLED=0 go build -trimpath -ldflags '-X main.version=$(VERSION)' -o bin/ ./cmd/...

.PHONY: demo
demo: build ## play a real trace through a real Envoy, killing engines; DEMO_SECONDS=n ends it
	@DEMO_SECONDS='$(DEMO_SECONDS)' scripts/demo

.PHONY: test
test: ## all tests: unit, protocol and e2e under the race detector, then the allocation tests
	@scripts/test

.PHONY: test-unit
test-unit: ## unit and protocol tests only
	@scripts/test unit

.PHONY: test-e2e
test-e2e: ## the built programs against a real Envoy only
	@scripts/test e2e

.PHONY: test-alloc
test-alloc: ## allocation tests only, without the race detector
	@scripts/test alloc

.PHONY: lint
lint: ## format, vet, golangci-lint and the house rules
	@scripts/lint

.PHONY: fmt
fmt: ## format the Go code
	gofmt -w -s .

.PHONY: bench
bench: ## Go benchmarks for benchstat; BENCH=regexp PKG=package COUNT=n
	go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) $(PKG)

.PHONY: bench-wire
bench-wire: ## server CPU per request against a no-op ext_proc server
	go run ./e2e/benchwire

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (30s)
	@scripts/fuzz $(FUZZTIME)

.PHONY: envoy
envoy: ## fetch Envoy into the cache folder and print its path
	@scripts/envoy

.PHONY: clean
clean: ## remove what was built here; the cache folder stays
	rm -rf bin
