// Package enginesim is a simulated inference engine: the paths of a vLLM or SGLang
// server, with the timing of one, and without a model behind. Answers have the form of
// their API, streamed where engines stream: chat, completions, Messages,
// Responses, transcriptions, tokens in and out, SGLang's own; one piece for embeddings,
// rerank, score, pictures, token counts, tokenize and rendered prompts.
//
// What it keeps true to a real engine:
//
//   - A prompt costs time: its tokens that are not in the engine's prefix cache,
//     divided by the prefill rate. One prefill runs at a time, so a burst queues up.
//     The prefix cache is real: an LRU of fixed-size blocks, each hashed together
//     with everything before it.
//   - An answer costs time per token, the same whatever the load.
//   - At most Batch requests run at once; Queue more wait, in order; the next is
//     refused with 503, as SGLang does with --max-queued-requests.
//   - The headers of a streamed answer are sent at once, the first body byte with
//     the first token, as vLLM does. A whole answer sends its headers at its end.
//   - A client that leaves frees its place at once.
//   - usage is exact: a prompt token is four bytes of the rendered prompt, a
//     completion token is one word, and cached_tokens is what the cache held.
//
// What it is not: a model (answers are a fixed run of words), a tokenizer, or a
// simulation of GPU memory (running requests do not hold their blocks).
//
// It breaks on command: see Fault, Kill and Revive. Every answer names the
// engine in the header x-served-by, and Last says what the engine was sent, so a
// test can tell what went over the wire.
//
// cmd/enginesim serves engines as a process; Go tests run them in their own. New
// opens the port and starts nothing; Serve runs the engine until its context ends. All
// methods of an Engine may be called at any time from any goroutine.
package enginesim
