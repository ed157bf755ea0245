package picker

import "math"

// MaxTraced is how many candidates a Trace holds: those of the list first.
const MaxTraced = 32

// Trace is what Pick went by, for explaining a choice. The values are those of the
// first choice, which a failover list goes on from. It holds nothing of the request, and
// may be copied. The zero value is ready to be filled, and may be again.
type Trace struct {
	Scorers    []Scorer // that were asked, in order; nil = nothing was scored. Read only
	Len        int      // of Candidates that are filled
	Candidates [MaxTraced]Candidate
}

// maxScorers is the largest number of scorers in a stack.
const maxScorers = 4

// Candidate is one target in a Trace.
type Candidate struct {
	Index      int
	Overloaded bool                // by the load guard; only where the strategy asked
	Scored     bool                // it took part: Scores and Total are valid
	Scores     [maxScorers]float64 // in the order of Trace.Scorers
	Total      float64

	// What the strategy knew; -1 = nothing, or it did not ask.
	PrefixRatio  float64 // share of the affinity text
	LatencyMS    float64
	PredictionMS float64
	KVHit        float64 // share of the prompt that is resident
}

// explainer is what a Trace asks a balancer.
type explainer interface {
	Len() int
	scorers() []Scorer
}

// scorers implements explainer for strategies without any.
func (b *base) scorers() []Scorer { return nil }

// traced is the end of each pick: it notes down how i was chosen, if asked to, and
// gives i.
func (c *Call) traced(b explainer, i int) int {
	if c.Trace != nil {
		c.Trace.record(c, b, i)
	}
	return i
}

// verdict is what the load guard went by.
type verdict struct {
	guard
	least int64
	asked bool
}

// beginTrace forgets what was noted down for the trace of another choice.
func (c *Call) beginTrace() {
	if c.Trace != nil && c.Attempt == 0 {
		c.scratch.verdict = verdict{}
		c.scratch.choice.columns = c.scratch.choice.columns[:0]
	}
}

// traceGuard notes down that the load guard is asked, with the smallest load.
func (c *Call) traceGuard(g guard, least int64) {
	if c.Trace != nil && c.Attempt == 0 {
		c.scratch.verdict = verdict{g, least, true}
	}
}

// record fills the trace at the first choice, and moves the candidate chosen later to
// its place in the list.
func (t *Trace) record(c *Call, b explainer, chosen int) {
	names, n := b.scorers(), b.Len()
	if c.Attempt == 0 {
		t.Len, t.Scorers = 0, nil
		if len(c.scratch.choice.columns) > 0 {
			t.Scorers = names
		}
	}
	if chosen < 0 || c.Attempt >= MaxTraced {
		return
	}
	if c.Attempt > 0 {
		t.move(c, chosen, n)
		return
	}
	t.add(c, chosen, n)
	for i := 0; i < n && t.Len < MaxTraced; i++ {
		if i != chosen {
			t.add(c, i, n)
		}
	}
}

// add appends target i of n.
func (t *Trace) add(c *Call, i, n int) {
	c.explain(i, n, len(t.Scorers), &t.Candidates[t.Len])
	t.Len++
}

// move brings a target to the place of this attempt.
func (t *Trace) move(c *Call, i, n int) {
	at := min(c.Attempt, t.Len)
	from := at
	for from < t.Len && t.Candidates[from].Index != i {
		from++
	}
	if from == t.Len {
		t.Len = min(t.Len, MaxTraced-1)
		from = t.Len
		t.add(c, i, n)
	}
	one := t.Candidates[from]
	copy(t.Candidates[at+1:from+1], t.Candidates[at:from])
	t.Candidates[at] = one
}

// explain gives what the call holds of target i of n, from a choice with so many scorers.
func (c *Call) explain(i, n, scorers int, to *Candidate) {
	s := &c.scratch
	*to = Candidate{Index: i, PrefixRatio: unknown, LatencyMS: unknown, PredictionMS: unknown, KVHit: unknown}
	if loads := c.known(n); loads != nil && s.verdict.asked {
		to.Overloaded = s.verdict.overloaded(loads[i], s.verdict.least)
	}
	if total := scorers * n; scorers > 0 && !math.IsNaN(s.choice.columns[total+i]) {
		to.Scored, to.Total = true, s.choice.columns[total+i]
		for p := range scorers {
			to.Scores[p] = s.choice.columns[p*n+i]
		}
	}
	if m, ok := c.PrefixMatch(i); ok {
		to.PrefixRatio = float64(m) / float64(len(c.text()))
	}
	if i < len(s.latencies) {
		to.LatencyMS = s.latencies[i]
	}
	if i < len(s.hits) && s.hits[i].Usable {
		to.KVHit = share(s.hits[i].Score)
	}
	if i < len(s.forecasts) {
		to.PredictionMS = s.forecasts[i].predict(c.known(n), i)
		if to.KVHit >= 0 {
			to.KVHit = c.cached(i)
		}
	}
}
