package main

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// outcome is what became of one request, as the client saw it.
type outcome uint8

const (
	// complete: the whole answer, up to [DONE].
	complete outcome = iota
	// lost: no answer. No response headers came, or an error status with them.
	lost
	// broken: the headers of an answer came, its end did not.
	broken
	// abandoned: the demo ended first.
	abandoned
)

// result is all that is counted of one request.
type result struct {
	outcome outcome
	sent    time.Time
	engine  string // "" when none answered
	ttft    time.Duration
	prompt  int // tokens, of complete answers
	cached  int
	reason  string // why lost or broken
}

// Bounds of what the board remembers in words.
const (
	maxEvents  = 4
	maxReasons = 5
)

// board counts what happens. Its methods may be called from any goroutine.
type board struct {
	start time.Time
	mu    struct {
		sync.Mutex
		routes  []routeCount
		events  []string // newest last
		reasons []string // the first ones
		skipped int
	}
}

// routeCount are the counts of a route.
type routeCount struct {
	route    route
	sent     int
	inFlight int
	lost     int
	engines  []engineCount
}

// engineCount are the counts of an engine, of the requests it answered.
type engineCount struct {
	engine   engine
	dead     bool
	killedAt time.Time
	requests int
	inFlight int
	complete int
	cut      int // by its death
	broken   int // without
	prompt   int64
	cached   int64
	ttft     *histogram
}

func newBoard(routes []route, now time.Time) *board {
	b := &board{start: now}
	for _, r := range routes {
		count := routeCount{route: r}
		for _, e := range r.engines {
			count.engines = append(count.engines, engineCount{engine: e, ttft: new(histogram)})
		}
		b.mu.routes = append(b.mu.routes, count)
	}
	return b
}

// engine finds an engine of a route; nil for a name that is none.
func (r *routeCount) find(name string) *engineCount {
	for i := range r.engines {
		if r.engines[i].engine.name == name {
			return &r.engines[i]
		}
	}
	return nil
}

// sent counts a request to a route.
func (b *board) sent(route int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.routes[route].sent++
	b.mu.routes[route].inFlight++
}

// skip counts an arrival for which there was no room.
func (b *board) skip() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.skipped++
}

// answered counts an engine's response headers.
func (b *board) answered(route int, engine string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.mu.routes[route].find(engine); e != nil {
		e.requests++
		e.inFlight++
	}
}

// done counts the end of a request.
func (b *board) done(route int, res result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := &b.mu.routes[route]
	r.inFlight--
	e := r.find(res.engine)
	if e != nil {
		e.inFlight--
	}
	switch res.outcome {
	case complete:
		if e != nil {
			e.complete++
			e.prompt += int64(res.prompt)
			e.cached += int64(res.cached)
			e.ttft.add(res.ttft)
		}
	case lost:
		r.lost++
		b.reason(r.route.model, "lost", res.reason)
	case broken:
		switch {
		case e == nil: // an answer that no engine gave
			r.lost++
			b.reason(r.route.model, "lost", "from "+res.engine+": "+res.reason)
		case e.dead || e.killedAt.After(res.sent):
			// Its engine died after it was sent, or has just been ordered to.
			e.cut++
		default:
			e.broken++
			b.reason(r.route.model, "cut on "+res.engine+", which is alive", res.reason)
		}
	case abandoned:
	}
}

func (b *board) reason(route, what, why string) {
	if len(b.mu.reasons) < maxReasons {
		b.mu.reasons = append(b.mu.reasons, fmt.Sprintf("%s: %s: %s", route, what, why))
	}
}

// killed notes that an engine of a route dies now.
func (b *board) killed(route, engine int, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := &b.mu.routes[route].engines[engine]
	e.dead, e.killedAt = true, now
}

// revived notes that an engine of a route lives again.
func (b *board) revived(route, engine int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.routes[route].engines[engine].dead = false
}

// event notes something to be shown.
func (b *board) event(now time.Time, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.events = append(b.mu.events, clock(now.Sub(b.start))+"  "+text)
	if over := len(b.mu.events) - maxEvents; over > 0 {
		b.mu.events = slices.Delete(b.mu.events, 0, over)
	}
}

// view is the board at one moment.
type view struct {
	elapsed time.Duration
	routes  []routeCount
	events  []string
	reasons []string
	skipped int
}

// look copies the board.
func (b *board) look(now time.Time) view {
	b.mu.Lock()
	defer b.mu.Unlock()
	v := view{
		elapsed: now.Sub(b.start), events: slices.Clone(b.mu.events), reasons: slices.Clone(b.mu.reasons), skipped: b.mu.skipped,
	}
	for _, r := range b.mu.routes {
		r.engines = slices.Clone(r.engines)
		for i := range r.engines {
			h := *r.engines[i].ttft
			r.engines[i].ttft = &h
		}
		v.routes = append(v.routes, r)
	}
	return v
}

// total adds the engines of a route up.
func (r *routeCount) total() engineCount {
	t := engineCount{ttft: new(histogram)}
	for _, e := range r.engines {
		t.requests += e.requests
		t.inFlight += e.inFlight
		t.complete += e.complete
		t.cut += e.cut
		t.broken += e.broken
		t.prompt += e.prompt
		t.cached += e.cached
		t.ttft.plus(e.ttft)
	}
	return t
}

// hitShare is the share of prompt tokens found in a prefix cache; false without any.
func (e *engineCount) hitShare() (share float64, known bool) {
	if e.prompt == 0 {
		return 0, false
	}
	return float64(e.cached) / float64(e.prompt), true
}

// verdict is nil when nothing was lost and no living engine's stream was cut.
func (v *view) verdict() error {
	var gone, cut int
	for i := range v.routes {
		t := v.routes[i].total()
		gone += v.routes[i].lost
		cut += t.broken
	}
	switch {
	case gone > 0:
		return fmt.Errorf("%d requests were lost%s", gone, v.because())
	case cut > 0:
		return fmt.Errorf("%d streams were cut on living engines%s", cut, v.because())
	default:
		return nil
	}
}

func (v *view) because() string {
	text := ""
	for _, r := range v.reasons {
		text += "\n    " + r
	}
	return text
}
