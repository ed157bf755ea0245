package trace

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"
)

// MaxPromptBytes is the longest prompt that is made: 64 blocks, or 32,768 tokens. What
// is longer in the trace is cut to it. The excerpt holds nothing longer.
const MaxPromptBytes = 64 * BlockBytes

// bucket is the resolution of the recorded arrival times of the real traces.
const bucket = 3 * time.Second

// Request is a row made ready to be sent.
type Request struct {
	// At is the time of arrival from the start of the first row, spread over the bucket
	// that the trace recorded.
	At time.Duration
	// Output is the length of the answer in tokens.
	Output int

	conversation uint64
	blocks       []uint64
	bytes        int
}

// Requests makes requests of rows in the order of the rows. The trace records
// arrivals in buckets of about 3 s; within one they are spread at random, in order. Equal
// seeds give equal requests.
func Requests(rows []Row, seed uint64) []Request {
	rng := rand.New(rand.NewPCG(seed, 0))
	out := make([]Request, 0, len(rows))
	for first := 0; first < len(rows); {
		end := first + 1
		for end < len(rows) && rows[end].Timestamp == rows[first].Timestamp {
			end++
		}
		offsets := make([]time.Duration, end-first)
		for i := range offsets {
			offsets[i] = time.Duration(rng.Int64N(int64(bucket)))
		}
		slices.Sort(offsets)
		for i, row := range rows[first:end] {
			out = append(out, Request{
				At:           row.At() - rows[0].At() + offsets[i],
				Output:       row.OutputLength,
				conversation: row.conversation(first + i),
				blocks:       row.HashIDs,
				bytes:        min(row.InputLength*bytesPerToken, MaxPromptBytes),
			})
		}
		first = end
	}
	// Buckets are not exactly 3 s apart.
	slices.SortStableFunc(out, func(a, b Request) int { return cmp.Compare(a.At, b.At) })
	return out
}

// Session names the conversation. loop tells apart the rounds of a trace that
// is replayed again and again.
func (r Request) Session(loop uint64) string {
	return "conversation-" + strconv.FormatUint(loop, 10) + "-" + strconv.FormatUint(r.conversation, 10)
}

// PromptBytes is the length of the prompt.
func (r Request) PromptBytes() int { return r.bytes }

// AppendPrompt appends the text of the prompt: the texts of its blocks one
// after the other, the last cut to the length of the prompt. In another loop all but the first
// block, which all conversations share, have other texts.
func (r Request) AppendPrompt(dst []byte, loop uint64) []byte {
	dst = slices.Grow(dst, r.bytes+2*BlockBytes) // appendBlock overshoots before it cuts
	end := len(dst) + r.bytes
	for i, id := range r.blocks {
		if len(dst) >= end {
			break
		}
		if i > 0 {
			id |= loop << loopShift
		}
		dst = appendBlock(dst, id)
	}
	return dst[:end]
}
