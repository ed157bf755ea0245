package app

import (
	"context"
	"errors"
	"syscall"
	"time"
)

// errEnded ends the process in order.
var errEnded = errors.New("ended")

const (
	// idleBeforeEnd is how long no request may have been open before a draining
	// process ends.
	idleBeforeEnd = 5 * time.Second
	// drainCheck is how often a draining process looks whether it is idle.
	drainCheck = 50 * time.Millisecond
	// lookAgain is how long after SIGHUP the file is read once more: what SIGHUP has put
	// into force may be taken back before the watch has seen it, and then the watch sees
	// no change. It has by then, and a change is to be in force 2 s after it was written.
	lookAgain = 1500 * time.Millisecond
	// reloadResolve is how long a reload waits for names that are new: a change must be in
	// force within 2 s. Names that take longer come later.
	reloadResolve = time.Second
)

// control reacts to signals, to the changed file, and to addresses and keys that have
// moved, until one of them or ctx ends the process.
func (a *App) control(ctx context.Context, changed, moved <-chan struct{}) error {
	var drained <-chan struct{} // nil before SIGTERM
	var again <-chan time.Time  // nil before SIGHUP
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			a.reload(ctx)
		case <-again:
			a.reload(ctx)
		case <-moved:
			a.refresh()
		case <-drained:
			return errEnded
		case sig := <-a.opts.Signals:
			switch {
			case sig == syscall.SIGHUP:
				if a.file.unmet {
					a.file.content = nil // what it refers to may be there now
				}
				a.reload(ctx)
				again = time.After(lookAgain)
			case sig == syscall.SIGTERM && drained == nil:
				drained = a.drain(ctx)
			default:
				a.events.Info("ending at once", "signal", sig.String())
				return errEnded
			}
		}
	}
}

// drain makes the process not ready and gives a channel that is closed when it may
// end: no request was open for idleBeforeEnd, or drain.timeout is over.
func (a *App) drain(ctx context.Context) <-chan struct{} {
	a.draining.Store(true)
	a.health.Shutdown() // NOT_SERVING; requests are decided as before
	begin := time.Now()
	timeout := a.cfg.Load().Drain.Timeout
	open, _ := a.extproc.Idle()
	a.events.Info("draining", "open", open, "timeout", timeout.String())
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		tick := time.NewTicker(drainCheck)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-tick.C:
				open, last := a.extproc.Idle()
				if last.Before(begin) {
					last = begin
				}
				if open == 0 && now.Sub(last) >= idleBeforeEnd {
					return
				}
				if now.Sub(begin) >= timeout {
					if open > 0 {
						a.events.Warn("the time for draining is over: the outcomes of open requests will not be heard", "open", open)
					}
					return
				}
			}
		}
	}()
	return drained
}
