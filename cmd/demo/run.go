package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pointsman/pointsman/internal/trace"
)

// drainLimit is how long the last answers may take after the last request was
// sent; a request that has no response headers by then is lost.
const drainLimit = 15 * time.Second

// run is the whole demo: build the stage, play, compare, strike. It returns nil when the demo
// ran to its end or to Ctrl-C and nothing was lost.
func run(ctx context.Context, o options, out *screen) (err error) {
	rows, err := trace.Excerpt()
	if err != nil {
		return err
	}
	routes := theRoutes()
	s := new(stage)
	defer func() { err = errors.Join(err, s.strike()) }()
	out.say("starting the engines, pointsman and Envoy ...")
	if err := s.build(ctx, o, routes); err != nil {
		if ctx.Err() != nil {
			return nil // Ctrl-C, too early for anything
		}
		return err
	}
	out.say("ready: " + describe(routes) + "\n" + s.target + " serves the routes, " + s.admin + "/metrics counts\n")
	p := &performance{
		stage: s, routes: routes, length: o.length, out: out, board: newBoard(routes, time.Now()),
		requests: trace.Requests(rows, seed),
	}
	return p.play(ctx)
}

// describe says what stands behind the routes.
func describe(routes []route) string {
	var parts []string
	for _, r := range routes {
		names := make([]string, 0, len(r.engines))
		for _, e := range r.engines {
			names = append(names, fmt.Sprintf("%s (%d k tokens/s)", e.name, e.prefill/1000))
		}
		parts = append(parts, r.model+" -> "+strings.Join(names, ", "))
	}
	return strings.Join(parts, "\n       ")
}

// performance is the replay with the outages and the table.
type performance struct {
	stage    *stage
	routes   []route
	length   time.Duration // 0 = until Ctrl-C
	out      *screen
	board    *board
	requests []trace.Request
}

// play runs until the length is over, interrupted ends or a child dies, and
// judges.
func (p *performance) play(interrupted context.Context) error {
	// sending ends the arrivals and the outages, answers the requests in flight. A
	// child that dies ends both; Ctrl-C and the length end sending only.
	answers, abort := context.WithCancelCause(context.Background())
	defer abort(nil)
	sending, stop := context.WithCancel(answers)
	defer stop()
	defer context.AfterFunc(interrupted, stop)()
	if p.length > 0 {
		sending, stop = context.WithDeadline(sending, p.board.start.Add(p.length))
		defer stop()
	}
	for _, c := range []*child{p.stage.simulator, p.stage.proxy} {
		go c.watch(answers, abort)
	}
	go p.outages(sending, abort)

	c := newClient(p.stage.target, p.board)
	defer c.close()
	r := newReplay(p.requests, p.routes, c)
	played := make(chan struct{})
	go func() {
		defer close(played)
		r.play(answers, sending, p.board.start)
		if interrupted.Err() == nil {
			r.wait(drainLimit)
		}
	}()
	p.show(played)

	died := context.Cause(answers)
	v := p.board.look(time.Now())
	if died == nil && interrupted.Err() == nil {
		p.overdue(&v)
	}
	abort(nil)
	r.wait(drainLimit) // all are cancelled: this takes no time
	p.out.say("\n" + v.summary())
	return errors.Join(died, v.verdict())
}

// overdue counts what waits for response headers although it had the time.
func (p *performance) overdue(v *view) {
	for i := range v.routes {
		r := &v.routes[i]
		t := r.total()
		if waiting := r.inFlight - t.inFlight; waiting > 0 {
			r.lost += waiting
			v.reasons = append(v.reasons, fmt.Sprintf("%s: lost: %d without response headers after %v", r.route.model, waiting, drainLimit))
		}
	}
}

// show draws the table until played is closed, and once more then.
func (p *performance) show(played <-chan struct{}) {
	next := time.NewTimer(firstTable)
	defer next.Stop()
	for over := false; !over; {
		select {
		case <-played:
			over = true
		case <-next.C:
			next.Reset(p.out.period())
		}
		v := p.board.look(time.Now())
		p.out.draw(v.table())
	}
}

// outages kills and revives one engine of each route, again and again.
func (p *performance) outages(ctx context.Context, abort context.CancelCauseFunc) {
	for n := 0; ; n++ {
		o, ok := outageAt(n, p.length, len(p.routes[0].engines))
		if !ok {
			return
		}
		if !sleepUntil(ctx, p.board.start.Add(o.kill)) {
			return
		}
		for i := range p.routes {
			p.board.killed(i, o.engine, time.Now())
		}
		if !p.command(ctx, o.engine, "kill", abort) {
			return
		}
		p.board.event(time.Now(), p.names(o.engine)+" killed")
		if !sleepUntil(ctx, p.board.start.Add(o.back)) {
			return
		}
		if !p.command(ctx, o.engine, "revive", abort) {
			return
		}
		for i := range p.routes {
			p.board.revived(i, o.engine)
		}
		p.board.event(time.Now(), p.names(o.engine)+" alive again, with empty caches")
	}
}

// command does one thing to an engine of each route; false when that ended the demo.
func (p *performance) command(ctx context.Context, engine int, what string, abort context.CancelCauseFunc) bool {
	for _, r := range p.routes {
		err := p.stage.command(ctx, r.engines[engine].name, what)
		if ctx.Err() != nil {
			return false
		}
		if err != nil {
			abort(err)
			return false
		}
	}
	return true
}

// names are the engines at one place of every route.
func (p *performance) names(engine int) string {
	names := make([]string, 0, len(p.routes))
	for _, r := range p.routes {
		names = append(names, r.engines[engine].name)
	}
	return strings.Join(names, " and ")
}
