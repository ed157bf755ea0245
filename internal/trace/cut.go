package trace

import "time"

// alone marks the key of a conversation that has no second block.
const alone = 1 << 63

// conversation is the key of the conversation that a row belongs to. The trace
// has no ids of conversations: the first block is common to all rows (a system prompt), the
// second is the beginning of what the user said. A row of one block is a conversation of its
// own, named by its index.
func (r Row) conversation(index int) uint64 {
	if len(r.HashIDs) < 2 {
		return alone | uint64(index)
	}
	return r.HashIDs[1]
}

// CutOptions say which conversations Cut takes. The zero value takes all.
type CutOptions struct {
	// From and To bound the window: a conversation is taken when all its rows
	// lie in it. To 0 = no end.
	From, To time.Duration
	// MinTurns leaves out conversations with fewer rows. A trace's first
	// minutes show little reuse unless single questions are left out.
	MinTurns int
	// MaxBlocks leaves out conversations with a longer prompt, so that none
	// has to be shortened. 0 = no limit.
	MaxBlocks int
	// Every takes one of so many of the conversations that remain, in order of
	// their beginning. 0 = 1.
	Every int
}

// Cut gives the rows of whole conversations in the order of the trace. The
// rows are not changed.
func Cut(rows []Row, o CutOptions) []Row {
	type group struct {
		turns int
		fits  bool
	}
	groups := make(map[uint64]*group)
	var order []*group
	for i, row := range rows {
		key := row.conversation(i)
		g := groups[key]
		if g == nil {
			g = &group{fits: true}
			groups[key] = g
			order = append(order, g)
		}
		g.turns++
		inside := row.At() >= o.From && (o.To == 0 || row.At() < o.To)
		short := o.MaxBlocks == 0 || len(row.HashIDs) <= o.MaxBlocks
		g.fits = g.fits && inside && short
	}
	n := 0
	for _, g := range order {
		if g.fits = g.fits && g.turns >= o.MinTurns; !g.fits {
			continue
		}
		g.fits = n%max(1, o.Every) == 0
		n++
	}
	var out []Row
	for i, row := range rows {
		if groups[row.conversation(i)].fits {
			out = append(out, row)
		}
	}
	return out
}

// Summary says what is in a trace.
type Summary struct {
	Rows          int
	Conversations int
	InputTokens   int64
	OutputTokens  int64
	Length        time.Duration // from the first to the last arrival
	// IdealHit is the share of blocks that a single cache without limit would
	// have held.
	IdealHit float64
}

// Summarize counts a trace.
func Summarize(rows []Row) Summary {
	s := Summary{Rows: len(rows)}
	conversations := make(map[uint64]struct{})
	cached := make(map[uint64]struct{})
	blocks, hits := 0, 0
	for i, row := range rows {
		conversations[row.conversation(i)] = struct{}{}
		s.InputTokens += int64(row.InputLength)
		s.OutputTokens += int64(row.OutputLength)
		blocks += len(row.HashIDs)
		prefix := true
		for _, id := range row.HashIDs {
			if _, ok := cached[id]; ok && prefix {
				hits++
			} else {
				prefix = false
			}
			cached[id] = struct{}{}
		}
	}
	s.Conversations = len(conversations)
	if len(rows) > 0 {
		s.Length = rows[len(rows)-1].At() - rows[0].At()
	}
	if blocks > 0 {
		s.IdealHit = float64(hits) / float64(blocks)
	}
	return s
}
