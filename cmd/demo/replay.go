package main

import (
	"context"
	"sync"
	"time"

	"github.com/pointsman/pointsman/internal/trace"
)

const (
	// maxInFlight bounds the requests in flight. At the demo's rate it is
	// minutes of arrivals; what does not fit is skipped and said.
	maxInFlight = 2000
	// loopPause separates the rounds of a trace that is played again.
	loopPause = time.Second
)

// replay plays a trace to all routes, open loop.
type replay struct {
	requests []trace.Request
	routes   []route
	client   *client

	slots   chan struct{}
	running sync.WaitGroup
}

func newReplay(requests []trace.Request, routes []route, c *client) *replay {
	return &replay{requests: requests, routes: routes, client: c, slots: make(chan struct{}, maxInFlight)}
}

// play sends every request to every route at its moment, round after round, until
// sending ends. Answers go on until ctx ends; wait waits for them.
func (p *replay) play(ctx, sending context.Context, start time.Time) {
	loopTime := p.requests[len(p.requests)-1].At/compression + loopPause
	var prompt []byte
	for loop := uint64(0); ; loop++ {
		base := start.Add(time.Duration(loop) * loopTime)
		for _, r := range p.requests {
			if !sleepUntil(sending, base.Add(r.At/compression)) {
				return
			}
			prompt = r.AppendPrompt(prompt[:0], loop)
			p.send(ctx, string(prompt), r.Session(loop), answerTokens(r.Output))
		}
	}
}

// send starts one request to each route. There is room for all or for none: the
// routes must see the same load.
func (p *replay) send(ctx context.Context, prompt, session string, tokens int) {
	if len(p.slots)+len(p.routes) > cap(p.slots) { // only this goroutine takes slots
		p.client.board.skip()
		return
	}
	for i, route := range p.routes {
		b, err := body(route.model, prompt, tokens)
		if err != nil { // strings and numbers are always encoded
			continue
		}
		p.slots <- struct{}{}
		p.running.Go(func() {
			defer func() { <-p.slots }()
			p.client.send(ctx, i, b, session)
		})
	}
}

// wait waits for all answers, at most for limit.
func (p *replay) wait(limit time.Duration) {
	ended := make(chan struct{})
	go func() {
		p.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(limit):
	}
}

// sleepUntil waits for a moment; false when ctx ends first.
func sleepUntil(ctx context.Context, at time.Time) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
