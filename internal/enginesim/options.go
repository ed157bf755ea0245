package enginesim

import (
	"errors"
	"fmt"
	"math"
)

// Defaults of Options.
const (
	// DefaultBatch lets thousands of answers run side by side: a test that
	// does not speak of the batch does not meet it.
	DefaultBatch = 4096
	// DefaultQueue bounds the waiting requests, each of which holds a goroutine
	// and the hashes of its prompt.
	DefaultQueue = 4096
	// DefaultCacheTokens is the prefix cache of an engine with 80 GB and a
	// model of 8 billion parameters, about; 10 MiB of our memory.
	DefaultCacheTokens = 1 << 18
	// DefaultBlockTokens is vLLM's block size.
	DefaultBlockTokens = 16
	// DefaultOutput is the length of an answer to a request without
	// max_tokens: vLLM's default for completions.
	DefaultOutput = 16
	// BytesPerToken is the length of a token of a prompt.
	BytesPerToken = 4
)

// maxOutput bounds one answer, and so the memory of a whole one. No model
// writes a million tokens.
const maxOutput = 1 << 20

// Options say what an engine is like. The zero value is an engine without a
// name on a free loopback port which answers instantly.
type Options struct {
	// Name is what the engine says in x-served-by.
	Name string
	// Listen is the address, default 127.0.0.1:0.
	Listen string
	// Prefill is the rate at which prompts are read, tokens per second of the
	// whole engine. 0 = instant.
	Prefill float64
	// Decode is the rate at which one answer is written, tokens per second. 0 = instant.
	Decode float64
	// Batch is how many requests run at once. 0 = DefaultBatch.
	Batch int
	// Queue is how many more may wait. 0 = DefaultQueue, negative = none.
	Queue int
	// CacheTokens is the size of the prefix cache. 0 = DefaultCacheTokens,
	// negative = none.
	CacheTokens int
	// BlockTokens is the size of a block of the prefix cache. 0 = DefaultBlockTokens.
	BlockTokens int
	// Output is the length in tokens of an answer whose request sets no
	// max_tokens. 0 = DefaultOutput.
	Output int
	// Models are the served models. Empty = any model is served, and the list
	// of models holds the engine's name.
	Models []string
}

// withDefaults fills in what is absent and refuses what makes no sense.
func (o Options) withDefaults() (Options, error) {
	for _, rate := range []float64{o.Prefill, o.Decode} {
		if rate < 0 || math.IsNaN(rate) || math.IsInf(rate, 0) {
			return o, fmt.Errorf("a rate of %v tokens per second", rate)
		}
	}
	if o.Batch < 0 || o.BlockTokens < 0 || o.Output < 0 {
		return o, errors.New("batch, block size and output cannot be negative")
	}
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	defaultInt(&o.Batch, DefaultBatch)
	defaultInt(&o.Queue, DefaultQueue)
	defaultInt(&o.CacheTokens, DefaultCacheTokens)
	defaultInt(&o.BlockTokens, DefaultBlockTokens)
	defaultInt(&o.Output, DefaultOutput)
	return o, nil
}

// defaultInt sets v to def when it is 0, and to 0 when it is negative ("none").
func defaultInt(v *int, def int) {
	switch {
	case *v == 0:
		*v = def
	case *v < 0:
		*v = 0
	}
}
