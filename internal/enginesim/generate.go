package enginesim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// flushGap is the shortest time between two writes of one stream. Tokens that
// are due within it go out together, each as its own event: thousands of fast streams then cost
// a bounded number of system calls.
const flushGap = 2 * time.Millisecond

// maxChunks bounds the events of one write, and so its buffer.
const maxChunks = 256

// generation is one answer being made.
type generation struct {
	engine *Engine
	w      http.ResponseWriter
	r      *http.Request
	fault  *Fault
	shape  shape
	tokens int
	finish string
	usage  Usage
	// answers is how many there are, all of as many tokens.
	answers int
	// withUsage ends a stream with its usage.
	withUsage bool
	first     time.Time // when the first token is there
	interval  time.Duration
	breakAt   int // tokens after which it breaks off, -1 = never
}

// generate answers a request that generates.
func (e *Engine) generate(w http.ResponseWriter, r *http.Request, c *call, a api, number int64, f *Fault) error {
	if !e.serves(w, c.Model) {
		return nil
	}
	tokens, finish, err := c.output(e.opts.Output)
	if err != nil {
		writeError(w, http.StatusBadRequest, "BadRequestError", err.Error())
		return nil
	}
	p, err := e.readPrompt(c, a)
	if err != nil {
		writeError(w, http.StatusBadRequest, "BadRequestError", err.Error())
		return nil
	}
	place, err := e.compute.batch.join()
	if err != nil {
		e.seen.count(func(s *Stats) { s.Refused++ })
		writeError(w, http.StatusServiceUnavailable, "ServiceUnavailableError", "The request queue is full.")
		return nil
	}
	if c.Stream {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush() // a client that is gone ends the context
	}
	ctx := r.Context()
	if place.wait(ctx) != nil {
		return errLeft
	}
	defer place.leave()
	cached, first, err := e.compute.prefill(ctx, p, f)
	if err != nil {
		return errLeft
	}
	e.seen.count(func(s *Stats) {
		s.PromptTokens += int64(p.tokens)
		s.CachedTokens += int64(cached)
	})
	answers := 1
	if a == completions {
		answers = prompts(c.Prompt)
	}
	g := &generation{
		engine: e, w: w, r: r, fault: f, tokens: tokens, finish: finish, answers: answers,
		usage: newUsage(p.tokens, cached, tokens*answers), withUsage: c.StreamOptions.IncludeUsage,
		first: first, interval: e.compute.perToken(f), breakAt: -1,
	}
	if at, breaks := f.breaksAt(); breaks && at <= tokens {
		g.breakAt = at
	}
	if id := (identity{number, c.Model, time.Now()}); c.Stream {
		g.shape = newShape(a, id, answers)
		err = g.stream(ctx)
	} else {
		err = g.whole(ctx, newWhole(a, id, answers, finish, g.usage))
	}
	if err == nil {
		e.seen.count(func(s *Stats) { s.Completed++ })
	}
	if errors.Is(err, errEnded) {
		return nil
	}
	return err
}

// serves tells whether the engine has this model, and answers if it has not.
func (e *Engine) serves(w http.ResponseWriter, model string) bool {
	if len(e.opts.Models) == 0 || slices.Contains(e.opts.Models, model) {
		return true
	}
	writeError(w, http.StatusNotFound, "NotFoundError", fmt.Sprintf("The model `%s` does not exist.", model))
	return false
}

// errEnded says that a fault ended the answer early.
var errEnded = errors.New("ended by a fault")

// readPrompt renders the prompt and measures it.
func (e *Engine) readPrompt(c *call, a api) (*prompt, error) {
	text := e.buffers.Get().(*[]byte)
	defer e.recycle(text)
	var err error
	if *text, err = c.render((*text)[:0], a); err != nil {
		return nil, err
	}
	if len(*text) == 0 {
		return nil, errors.New("prompt is empty")
	}
	return c.measure(*text, e.opts.BlockTokens), nil
}

// stream sends the tokens as they become due, and the end.
func (g *generation) stream(ctx context.Context) error {
	buf := g.engine.buffers.Get().(*[]byte)
	defer g.engine.recycle(buf)
	rc := http.NewResponseController(g.w)
	var sent int
	for {
		*buf = (*buf)[:0]
		if sent == 0 && g.breakAt != 0 {
			*buf = g.shape.appendOpening(*buf)
		}
		before, due := sent, min(g.due(time.Now()), sent+maxChunks)
		for ; sent < due && sent != g.breakAt; sent++ {
			finish := ""
			if sent == g.tokens-1 {
				finish = g.finish
			}
			*buf = g.shape.appendChunk(*buf, sent, finish)
		}
		g.engine.seen.count(func(s *Stats) { s.CompletionTokens += int64((sent - before) * g.answers) })
		last := sent == g.tokens && sent != g.breakAt
		if last {
			*buf = g.shape.appendEnd(*buf, g.finish, g.usage, g.withUsage)
		}
		if _, err := g.w.Write(*buf); err != nil {
			return errLeft
		}
		if last {
			return nil
		}
		if err := rc.Flush(); err != nil {
			return errLeft
		}
		if sent == g.breakAt {
			if err := g.breakOff(); err != nil {
				return err
			}
			continue
		}
		if err := sleepUntil(ctx, g.next(sent)); err != nil {
			return errLeft
		}
	}
}

// due is how many tokens there are at a moment, at least the first.
func (g *generation) due(now time.Time) int {
	if g.interval == 0 {
		return g.tokens
	}
	return min(g.tokens, 1+int(max(0, now.Sub(g.first))/g.interval))
}

// next is the moment of the next write.
func (g *generation) next(sent int) time.Time {
	at := g.first.Add(time.Duration(sent) * g.interval)
	if soonest := time.Now().Add(flushGap); g.interval > 0 && at.Before(soonest) {
		return soonest
	}
	return at
}

// breakOff does the fault's action in the middle of an answer. After a hang of
// limited time the rest follows, later by that time.
func (g *generation) breakOff() error {
	g.breakAt = -1
	if g.fault.Action == End {
		return errEnded
	}
	if err := breakOff(g.r, g.fault); err != nil {
		return err
	}
	g.first = g.first.Add(time.Duration(g.fault.ForMS) * time.Millisecond)
	return nil
}

// whole sends the answer in one piece once its last token is there.
func (g *generation) whole(ctx context.Context, answer any) error {
	tokens := g.tokens
	if g.breakAt >= 0 {
		tokens = g.breakAt
	}
	if err := sleepUntil(ctx, g.first.Add(time.Duration(max(0, tokens-1))*g.interval)); err != nil {
		return errLeft
	}
	body, err := json.Marshal(answer)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	g.w.Header().Set("Content-Type", "application/json")
	if g.fault.Action != End {
		g.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	rest := body
	if g.breakAt >= 0 {
		half := len(body) / 2
		if _, err := g.w.Write(body[:half]); err != nil {
			return errLeft
		}
		if err := http.NewResponseController(g.w).Flush(); err != nil {
			return errLeft
		}
		if err := g.breakOff(); err != nil {
			return err
		}
		if err := sleepUntil(ctx, g.first.Add(time.Duration(g.tokens-1)*g.interval)); err != nil {
			return errLeft
		}
		rest = body[half:]
	}
	if _, err := g.w.Write(rest); err != nil {
		return errLeft
	}
	g.engine.seen.count(func(s *Stats) { s.CompletionTokens += int64(g.tokens * g.answers) })
	return nil
}
