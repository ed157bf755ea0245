package picker

import "time"

// Sources are what a pool knows about its targets from elsewhere. An index is
// that of Config.Targets. A nil source says nothing about any target.
//
// A source is asked on the request path, from many goroutines at once: it reads
// what is in memory, never waits, and allocates nothing.
type Sources struct {
	Latency   LatencySource
	Predictor Predictor
	Residency ResidencySource
	LMCache   LMCacheSource
}

// LatencySource knows how long the answers of a target take.
type LatencySource interface {
	// Latency gives the mean of target i in milliseconds, or false while it is
	// unknown. It is never a small value instead of an unknown one.
	Latency(i int, now time.Time) (ms float64, ok bool)
}

// Predictor has a latency model of each target and kind of answer.
type Predictor interface {
	// Model gives that of target i, or false while it has seen too few samples
	// to predict.
	Model(i int, k Kind) (m LatencyModel, ok bool)
}

// ResidencySource knows which blocks of a prompt the engines hold in their KV cache.
type ResidencySource interface {
	// Resident sets all of hits, one for each target. It is asked only for a
	// request with token ids whose KV score is not off.
	Resident(q *Request, now time.Time, hits []KVHit)
}

// KVHit is what a KV index says of one request on one target. The zero value is
// that of a target without a usable index.
type KVHit struct {
	Usable   bool
	Score    float64 // share of the prompt's full blocks that counts as resident, 0..1
	Resident float64 // the same without what is only expected to become so
}

// LMCacheSource knows how much room the external KV caches of engines have.
type LMCacheSource interface {
	// Free gives the score of target i, 0..1, or false if there is no fresh value.
	Free(i int, now time.Time) (score float64, ok bool)
}

// Features are what a prediction is made from. A model is taught with the very
// numbers that served the prediction.
type Features struct {
	Queue float64 // load of the target before the request is counted, 0 if unknown
	KTok  float64 // thousands of prompt tokens to be computed
}

// LatencyModel is a linear model of the time an answer takes, in milliseconds.
type LatencyModel struct {
	Fixed float64
	Queue float64 // for each request ahead
	KTok  float64 // for each thousand prompt tokens to be computed
}

// Raw is the value of the model, which may be negative.
func (m LatencyModel) Raw(f Features) float64 { return m.Fixed + m.Queue*f.Queue + m.KTok*f.KTok }

// Predict gives the milliseconds to expect.
//
// Example: 10 + 100 * queue + 300 * ktok predicts 510 for queue 5 and a prompt that is
// cached, and 1210 for queue 0 and 4000 tokens to be computed.
func (m LatencyModel) Predict(f Features) float64 { return max(0, m.Raw(f)) }

// bytesPerToken estimates tokens where no ids are known.
const bytesPerToken = 4

// PromptTokens gives the number of the prompt's tokens: that of its ids if they are known,
// else an estimate from its length.
func (q *Request) PromptTokens() int64 {
	if q.TokenIDs != nil {
		return int64(len(q.TokenIDs))
	}
	return max(q.Length, int64(len(q.Text))) / bytesPerToken
}

// KTok gives the thousands of tokens that are left to compute when a share hit of
// them, 0..1, is cached.
func KTok(tokens int64, hit float64) float64 { return (1 - hit) * float64(tokens) / 1000 }
