// Package trace turns a recorded workload into requests that can be sent.
//
// It reads traces in Mooncake's form: one JSON object a line, with the arrival
// time, the lengths of prompt and answer in tokens, and the prompt as a list of ids of
// 512-token blocks. Equal id means equal prompt up to and including that block, so what a
// prefix cache could have saved is in the data, though no text is. A Request
// makes text of it again: every block id has a fixed text of plain words.
//
// It also cuts excerpts (cmd/tracecut does it by command) and holds the one that the
// demo replays. It sends nothing and keeps no time: cmd/demo and the
// benchmarks do. All functions are pure; values may be shared when no longer changed.
package trace
