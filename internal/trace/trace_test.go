package trace

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func readRows(t *testing.T, src string) []Row {
	t.Helper()
	var rows []Row
	for row, err := range Rows(strings.NewReader(src)) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows
}

func TestRows(t *testing.T) {
	got := readRows(t, `{"timestamp": 0, "input_length": 513, "output_length": 5, "hash_ids": [0, 7]}

{"timestamp": 3000, "input_length": 512, "output_length": 1, "hash_ids": [0]}`)
	want := []Row{
		{InputLength: 513, OutputLength: 5, HashIDs: []uint64{0, 7}},
		{Timestamp: 3000, InputLength: 512, OutputLength: 1, HashIDs: []uint64{0}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for src, message := range map[string]string{
		"{": "line 1",
		`{"timestamp":5,"input_length":1,"output_length":1,"hash_ids":[1]}` + "\n" + `{"timestamp":4,"input_length":1,"output_length":1,"hash_ids":[1]}`: "line 2: timestamp 4 after 5",
		`{"timestamp":5,"input_length":0,"output_length":1,"hash_ids":[]}`:                                                                               "length below 1",
		`{"timestamp":5,"input_length":513,"output_length":1,"hash_ids":[1]}`:                                                                            "1 blocks for 513 tokens",
		`{"timestamp":5,"input_length":5,"output_length":1,"hash_ids":[1099511627776]}`:                                                                  "too large",
		strings.Repeat(" ", maxLine+1): "after line 0",
		"\x1f\x8bnot gzip":             "gzip",
	} {
		var err error
		for _, err = range Rows(strings.NewReader(src)) {
		}
		if err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%.60q: %v, want %q", src, err, message)
		}
	}
}

func TestWriteIsReadAgain(t *testing.T) {
	rows, err := Excerpt()
	if err != nil {
		t.Fatal(err)
	}
	var a, b bytes.Buffer
	for _, dst := range []*bytes.Buffer{&a, &b} {
		if err := Write(dst, Attribution{Source: "s", Changes: "c"}, rows); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Error("two writes differ")
	}
	if diff := cmp.Diff(rows, readRows(t, a.String())); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
}

// The excerpt is what its README says.
func TestExcerpt(t *testing.T) {
	rows, err := Excerpt()
	if err != nil {
		t.Fatal(err)
	}
	got := Summarize(rows)
	got.IdealHit = float64(int(got.IdealHit*1000)) / 1000
	want := Summary{
		Rows: 1744, Conversations: 392, InputTokens: 15418335, OutputTokens: 580283,
		Length: 58*time.Minute + 56*time.Second + 999*time.Millisecond, IdealHit: 0.614,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, row := range rows {
		if len(row.HashIDs) > 48 || len(row.HashIDs)*BlockBytes > MaxPromptBytes {
			t.Errorf("a prompt of %d blocks", len(row.HashIDs))
		}
	}
	if len(excerpt) > 100<<10 {
		t.Errorf("%d bytes, want at most 100 KiB", len(excerpt))
	}
	if again := Cut(rows, CutOptions{MinTurns: 3, MaxBlocks: 48}); len(again) != len(rows) {
		t.Errorf("%d of %d rows belong to whole conversations", len(again), len(rows))
	}
}

func TestCut(t *testing.T) {
	row := func(s int64, ids ...uint64) Row {
		return Row{Timestamp: s * 1000, InputLength: len(ids) * BlockTokens, OutputLength: 1, HashIDs: ids}
	}
	rows := []Row{
		row(0, 0, 1), row(0, 0), row(10, 0, 2, 3), row(20, 0, 1, 4), row(20, 0, 5), row(30, 0, 2, 3, 6), row(40, 0), row(50, 0, 5, 7),
	}
	tests := []struct {
		name string
		o    CutOptions
		want []int
	}{
		{"all", CutOptions{}, []int{0, 1, 2, 3, 4, 5, 6, 7}},
		{"two turns", CutOptions{MinTurns: 2}, []int{0, 2, 3, 4, 5, 7}},
		{"begun before the window", CutOptions{From: 5 * time.Second, MinTurns: 2}, []int{2, 4, 5, 7}},
		{"not over at its end", CutOptions{To: 50 * time.Second, MinTurns: 2}, []int{0, 2, 3, 5}},
		{"prompt too long", CutOptions{MaxBlocks: 3, MinTurns: 2}, []int{0, 3, 4, 7}},
		{"every second", CutOptions{MinTurns: 2, Every: 2}, []int{0, 3, 4, 7}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var want []Row
			for _, i := range tt.want {
				want = append(want, rows[i])
			}
			if diff := cmp.Diff(want, Cut(rows, tt.o)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	// 19 blocks: 0 was there 7 times, 1 and 5 once each, 2 and 3 once together.
	if s := Summarize(rows); s.Conversations != 5 || s.Rows != 8 || s.IdealHit != 11.0/19 {
		t.Errorf("%+v", s)
	}
}

func TestRequests(t *testing.T) {
	rows, err := Excerpt()
	if err != nil {
		t.Fatal(err)
	}
	got := Requests(rows, 1)
	if len(got) != len(rows) {
		t.Fatalf("%d requests of %d rows", len(got), len(rows))
	}
	if diff := cmp.Diff(got, Requests(rows, 1), cmp.AllowUnexported(Request{})); diff != "" {
		t.Errorf("not repeatable:\n%s", diff)
	}
	order := func(requests []Request) map[uint64][]int {
		turns := map[uint64][]int{}
		for _, r := range requests {
			turns[r.conversation] = append(turns[r.conversation], r.PromptBytes())
		}
		return turns
	}
	unsorted := make([]Request, 0, len(rows))
	for _, row := range rows {
		unsorted = append(unsorted, Request{conversation: row.HashIDs[1], bytes: row.InputLength * bytesPerToken})
	}
	if diff := cmp.Diff(order(unsorted), order(got)); diff != "" {
		t.Errorf("turns of conversations out of order (-trace +requests):\n%s", diff)
	}
	for i, r := range got {
		if i > 0 && r.At < got[i-1].At {
			t.Fatalf("request %d at %v after %v", i, r.At, got[i-1].At)
		}
	}
}

// Equal block ids give equal text, others do not, and the length is that of the row.
func TestPrompts(t *testing.T) {
	rows := []Row{
		{InputLength: 1000, OutputLength: 1, HashIDs: []uint64{0, 1}},
		{InputLength: 1500, OutputLength: 1, HashIDs: []uint64{0, 1, 2}},
		{InputLength: 1500, OutputLength: 1, HashIDs: []uint64{0, 3, 2}},
		{InputLength: 40000, OutputLength: 1, HashIDs: make([]uint64, 79)},
	}
	r := Requests(rows, 1)
	prompt := func(i int, loop uint64) string { return string(r[i].AppendPrompt([]byte("x"), loop)[1:]) }
	a, b, c := prompt(0, 0), prompt(1, 0), prompt(2, 0)
	if len(a) != 4000 || len(b) != 6000 {
		t.Errorf("%d and %d bytes, want 4000 and 6000", len(a), len(b))
	}
	if !strings.HasPrefix(b, a) || b[:BlockBytes] != c[:BlockBytes] || b[2*BlockBytes:] != c[2*BlockBytes:] {
		t.Error("equal ids with different text")
	}
	if b[BlockBytes:BlockBytes+20] == c[BlockBytes:BlockBytes+20] {
		t.Error("different ids with the same beginning")
	}
	next := prompt(1, 1)
	if next[:BlockBytes] != b[:BlockBytes] || next[BlockBytes:BlockBytes+40] == b[BlockBytes:BlockBytes+40] {
		t.Error("another loop has the same first block and other texts after it")
	}
	if r[0].Session(0) != r[1].Session(0) || r[0].Session(0) == r[2].Session(0) || r[0].Session(0) == r[0].Session(1) {
		t.Error("sessions are not those of the conversations")
	}
	if got := prompt(3, 0); len(got) != MaxPromptBytes || r[3].PromptBytes() != MaxPromptBytes {
		t.Errorf("%d bytes, want the cap of %d", len(got), MaxPromptBytes)
	}
}

// The key of a block can be read back from its first words, so no two are equal.
func TestBlocksSpellTheirKey(t *testing.T) {
	value := make(map[string]uint64)
	for i, w := range vocabulary {
		value[w] = uint64(i)
	}
	if len(value) != len(vocabulary) {
		t.Fatalf("%d different words, want %d", len(value), len(vocabulary))
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		key := rng.Uint64() >> rng.IntN(64)
		text := appendBlock(nil, key)
		if len(text) != BlockBytes {
			t.Fatalf("%d bytes", len(text))
		}
		var got uint64
		for i, w := range strings.Fields(string(text))[:8] {
			got |= value[w] << (8 * i)
		}
		if got != key {
			t.Fatalf("block %x spells %x", key, got)
		}
	}
}
