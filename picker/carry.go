package picker

// estate is what a balancer leaves to the next one of its pool. The zero value
// is the estate of nobody. What is shared by pointers may still be used by
// the former balancer.
type estate struct {
	strategy string
	ids      []string
	cursor   cursor    // of its rotation
	running  []int64   // values of weighted, by index
	trials   []*trial  // by index
	prefixes *prefixes // nil = it remembers no texts
	pins     *pins     // nil = it pins no sessions
	adapters *adapters // nil = it remembers no adapters
}

// of gives the estate as far as it is of use to a balancer with these targets: what
// belongs to the pool in any case, what belongs to the strategy if that stays.
func (e estate) of(strategy string, index map[string]int) estate {
	if e.strategy != strategy {
		return estate{strategy: e.strategy, ids: e.ids, prefixes: e.prefixes, pins: e.pins, adapters: e.adapters}
	}
	e.cursor = e.cursor.in(index, e.ids)
	return e
}

// carried gives the state of each target: the one under its id in the former pool,
// else a fresh one.
func carried[S any](targets []Target, ids []string, old []*S, fresh func(id string) *S) []*S {
	known := make(map[string]*S, len(old))
	for i, s := range old {
		known[ids[i]] = s
	}
	states := make([]*S, len(targets))
	for i, t := range targets {
		if states[i] = known[t.ID]; states[i] == nil {
			states[i] = fresh(t.ID)
		}
	}
	return states
}
