package enginesim

import (
	"context"
	"sync"
	"time"
)

// compute is the simulated accelerator: who may run, and how long it takes.
type compute struct {
	batch  *gate // the requests that run
	single *gate // of these, the one whose prompt is being read
	cache  *prefixCache
	opts   Options

	mu struct {
		sync.Mutex
		// free is when the latest prefill ends by calculation. A prefill that
		// waited for it starts then, not when its goroutine woke up, so that
		// no time is lost between two.
		free time.Time
	}
}

func newCompute(opts Options) *compute {
	return &compute{
		batch:  newGate(opts.Batch, opts.Queue),
		single: newGate(1, opts.Batch),
		cache:  newPrefixCache(opts.CacheTokens / opts.BlockTokens),
		opts:   opts,
	}
}

// prefill reads the prompt and returns when its first token is there: the
// number of tokens found in the cache, and that moment.
func (c *compute) prefill(ctx context.Context, p *prompt, f *Fault) (cached int, first time.Time, err error) {
	// The last token is always computed: its output is the first token.
	reusable := p.blocks[:min(len(p.blocks), max(0, p.tokens-1)/c.opts.BlockTokens)]
	if c.opts.Prefill == 0 {
		cached = c.cache.match(reusable) * c.opts.BlockTokens
		c.cache.add(p.blocks)
		return cached, time.Now(), ctx.Err()
	}
	arrived := time.Now()
	turn, err := c.single.join()
	if err != nil {
		return 0, time.Time{}, err
	}
	if err := turn.wait(ctx); err != nil {
		return 0, time.Time{}, err
	}
	defer turn.leave()
	cached = c.cache.match(reusable) * c.opts.BlockTokens
	work := f.slowed(seconds(float64(p.tokens-cached) / c.opts.Prefill))
	first = c.reserve(arrived, work)
	if err := sleepUntil(ctx, first); err != nil {
		c.cancelReserved()
		return 0, time.Time{}, err
	}
	c.cache.add(p.blocks)
	return cached, first, nil
}

// reserve gives the end of a prefill that needs the accelerator for so long.
func (c *compute) reserve(arrived time.Time, work time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	start := arrived
	if c.mu.free.After(start) {
		start = c.mu.free
	}
	c.mu.free = start.Add(work)
	return c.mu.free
}

// cancelReserved frees the accelerator for the next prefill from now on.
func (c *compute) cancelReserved() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.free = time.Now()
}

// perToken is the time between two tokens of one answer.
func (c *compute) perToken(f *Fault) time.Duration {
	if c.opts.Decode == 0 {
		return 0
	}
	return f.slowed(seconds(1 / c.opts.Decode))
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// sleepUntil waits for a moment; ctx ends the wait early.
func sleepUntil(ctx context.Context, t time.Time) error {
	d := time.Until(t)
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
