package picker

import "slices"

// predictedLatency ranks by how long this very request is expected to take.
type predictedLatency struct {
	stateless
	sources Sources
	n       int
	full    bool // what is cached is ignored
	floor   float64
}

func newPredictedLatencyScorer(cfg Config) *predictedLatency {
	return &predictedLatency{
		sources: cfg.Sources, n: len(cfg.Targets),
		full: cfg.Settings.PredictFullPrompt, floor: cfg.Settings.RankFloor,
	}
}

// forecast is what a prediction for one target lacks only the load to.
type forecast struct {
	model LatencyModel
	known bool
	ktok  float64
}

// features are those of the target for this request.
func (f *forecast) features(loads []int64, i int) Features {
	x := Features{KTok: f.ktok}
	if loads != nil {
		x.Queue = float64(loads[i])
	}
	return x
}

func (f *forecast) predict(loads []int64, i int) float64 {
	return orUnknown(f.model.Predict(f.features(loads, i)), f.known)
}

func (s *predictedLatency) prepare(c *Call) {
	if s.sources.Latency != nil {
		c.readLatencies(s.sources.Latency, s.n)
	}
	var (
		tokens int64
		kind   Kind
	)
	if c.Request != nil {
		tokens, kind = c.Request.PromptTokens(), c.Request.Kind
		if !s.full {
			c.readHits(s.sources.Residency, s.n)
		}
	}
	into := slices.Grow(c.scratch.forecasts[:0], s.n)[:s.n]
	for i := range into {
		f := forecast{ktok: KTok(tokens, c.cached(i))}
		if s.sources.Predictor != nil {
			f.model, f.known = s.sources.Predictor.Model(i, kind)
		}
		into[i] = f
	}
	c.scratch.forecasts = into
}

func (s *predictedLatency) read(c *Call, loads []int64, cands []int, into []float64) {
	into = into[:len(cands)]
	for k, i := range cands {
		into[k] = c.scratch.forecasts[i].predict(loads, i)
	}
}

func (s *predictedLatency) add(c *Call, loads []int64, cands []int, weight float64, to []float64) {
	c.ranking(s, loads, cands).add(s.floor, weight, to)
}

// Features gives the features of target i by which predicted_latency picked, with
// which its model is to be taught. It is not ok for another strategy.
func (c *Call) Features(i int) (f Features, ok bool) {
	if i < 0 || i >= len(c.scratch.forecasts) {
		return Features{}, false
	}
	return c.scratch.forecasts[i].features(c.known(len(c.scratch.forecasts)), i), true
}
