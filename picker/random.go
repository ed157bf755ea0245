package picker

// random takes any eligible target.
type random struct {
	base
	dice dice
}

func newRandom(cfg Config, _ estate) Balancer {
	return &random{base: newBase(cfg), dice: dice{cfg.Rand}}
}

func (b *random) estate() estate { return estate{strategy: b.name, ids: b.ids} }

// Pick implements Balancer.
func (b *random) Pick(c *Call) int {
	n := len(b.ids)
	m := c.Eligible.count(n)
	if m < 2 {
		return c.traced(b, c.first(WhyRandom, n))
	}
	c.Why = WhyRandom
	return c.traced(b, c.Eligible.nth(b.dice.below(m), n))
}

// powerOfTwo draws two different eligible targets and takes the less loaded one.
type powerOfTwo struct {
	base
	dice dice
}

func newPowerOfTwo(cfg Config, _ estate) Balancer {
	return &powerOfTwo{base: newBase(cfg), dice: dice{cfg.Rand}}
}

func (b *powerOfTwo) estate() estate { return estate{strategy: b.name, ids: b.ids} }

// Pick implements Balancer.
func (b *powerOfTwo) Pick(c *Call) int {
	n := len(b.ids)
	m := c.Eligible.count(n)
	if m < 2 {
		return c.traced(b, c.first(WhyTwoChoices, n))
	}
	c.Why = WhyTwoChoices
	// One draw for both: each of the m * (m - 1) ordered pairs is equally likely.
	pair := b.dice.below(m * (m - 1))
	first, second := pair/(m-1), pair%(m-1)
	if second >= first {
		second++
	}
	i, k := c.Eligible.nth(first, n), c.Eligible.nth(second, n)
	if loads := c.known(n); loads != nil && loads[k] < loads[i] {
		i = k
	}
	return c.traced(b, i)
}
