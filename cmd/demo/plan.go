package main

import (
	"strconv"
	"time"
)

// The scale of the demo. An hour of the trace takes two minutes, so the engines read
// prompts as much faster than real ones; answers are shortened so that they can be streamed at a
// real pace and two cores can carry it all.
const (
	// compression is by how much the trace's time is shortened.
	compression = 30
	// answerShare is the part of the trace's answer length that is asked for.
	answerShare = 4
	// maxAnswer bounds it, in tokens: the last answers must not keep the demo
	// from ending.
	maxAnswer = 160
	// seed fixes the arrival times inside the trace's buckets.
	seed = 1
)

// What all engines have in common.
const (
	decodeRate  = 80      // tokens per second and answer
	engineBatch = 64      // answers at once
	engineQueue = 2000    // more than ever come: a refusal would be the engine's fault
	cacheTokens = 400_000 // a cache that holds a part of the conversations, as real ones do
)

// engine is one simulated engine.
type engine struct {
	name    string
	prefill int // tokens per second
}

// route is one public model name with the engines behind it.
type route struct {
	model    string
	strategy string
	engines  []engine
}

// upstreamModel is the name the engines know the model by.
const upstreamModel = "kimi-simulated"

// theRoutes are what the demo compares: two strategies, each with three
// engines of its own, alike but for their names.
func theRoutes() []route {
	engines := func(prefix string) []engine {
		return []engine{
			{prefix + "-fast", 60_000},
			{prefix + "-mid", 45_000},
			{prefix + "-slow", 30_000},
		}
	}
	return []route{
		{"conv-cache-aware", "cache_aware", engines("ca")},
		{"conv-round-robin", "round_robin", engines("rr")},
	}
}

// answerTokens is what is asked for where the trace has an answer of so many tokens.
func answerTokens(traced int) int { return min(max(1, traced/answerShare), maxAnswer) }

// simulator is the enginesim flags of an engine.
func (e engine) simulator() string {
	return "name=" + e.name + ",prefill=" + strconv.Itoa(e.prefill) + ",decode=" + strconv.Itoa(decodeRate) +
		",batch=" + strconv.Itoa(engineBatch) + ",queue=" + strconv.Itoa(engineQueue) + ",cache=" + strconv.Itoa(cacheTokens)
}

// outage is a time in which one engine of each route is dead.
type outage struct {
	engine     int // index in every route
	kill, back time.Duration
}

// The outages of a demo without end: one engine after another.
const (
	outagePeriod = time.Minute
	outageKill   = 20 * time.Second
	outageBack   = 35 * time.Second
)

// outageAt is the outage number n; false when there is none. A demo of limited
// length has one, the engines come back in time to be seen.
func outageAt(n int, length time.Duration, engines int) (outage, bool) {
	if length > 0 {
		return outage{engine: 1, kill: length * 2 / 5, back: length * 13 / 20}, n == 0
	}
	start := time.Duration(n) * outagePeriod
	return outage{engine: (n + 1) % engines, kill: start + outageKill, back: start + outageBack}, true
}
