//go:build !race

package request

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// The bodies of this file would take minutes and more than the test's time if reading
// were quadratic in anything, and far more memory than is allowed if it kept what
// it does not need. What they allocate grows as they do.

// allocated is how many bytes reading the body allocates, with fresh scratch memory.
func allocated(t *testing.T, path string, body []byte, want error) int64 {
	t.Helper()
	r := NewReader(DefaultOptions())
	var q Request
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := r.Read(path, header{}, body, &q)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, want) {
		t.Fatalf("fault %v, want %v", err, want)
	}
	return int64(after.TotalAlloc - before.TotalAlloc)
}

func TestHostile(t *testing.T) {
	const (
		full = 1_000_000
		kib  = 1 << 10
		mib  = 1 << 20
	)
	repeat := func(s string) func(int) string {
		return func(n int) string { return strings.Repeat(s+",", n-1) + s }
	}
	keys := func(n int) string { return numbered(n, func(i int) string { return `"` + strconv.Itoa(i) + `":0` }) }
	tests := []struct {
		name, path string
		members    func(n int) string // behind "model":"m",
		n          int
		memory     int64 // bound of what is allocated, in bytes
		want       error
	}{
		{"1,000,000 unknown keys", chatPath, keys, full, 256 * kib, nil},
		{"1,000,000 known keys", chatPath, repeat(`"user":0`), full, 64 * mib, nil},
		{"1,000,000 models", chatPath, repeat(`"model":"n"`), full, 80 * mib, nil},
		{"1,000,000 keys in a message", chatPath, func(n int) string { return `"messages":[{` + keys(n) + `}]` }, full, 64 * mib, nil},
		{"1,000,000 equal keys in a message", chatPath, func(n int) string { return `"messages":[{` + repeat(`"k":0`)(n) + `}]` }, full, 64 * mib, nil},
		{"1,000,000 equal long keys", chatPath, func(n int) string {
			return `"messages":[{` + repeat(`"`+strings.Repeat("k", 20)+`":0`)(n) + `}]`
		}, full, 64 * mib, nil},
		{"1,000,000 keys with escapes", chatPath, func(n int) string {
			return `"messages":[{` + numbered(n, func(i int) string { return fmt.Sprintf(`"\u006b%d":0`, i) }) + `}]`
		}, full, 64 * mib, nil},
		{"500,000 objects with equal keys", chatPath, func(n int) string {
			return `"messages":[{"x":[` + repeat(`{"a":0,"a":1}`)(n) + `]}]`
		}, full / 2, 2 * mib, nil},
		{"1,000,000 messages", chatPath, func(n int) string { return `"messages":[` + repeat(`{"role":"u","content":"x"}`)(n) + `]` }, full, 2 * mib, nil},
		{"1,000,000 parts", chatPath, func(n int) string { return user(`[` + repeat(`"x"`)(n) + `]`) }, full, 2 * mib, nil},
		{"1,000,000 empty parts", chatPath, func(n int) string { return user(`["x",` + repeat(`{}`)(n) + `]`) }, full, 2 * mib, nil},
		{"1,000,000 numbers for messages", chatPath, func(n int) string { return `"messages":[` + repeat(`0`)(n) + `]` }, full, 256 * kib, nil},
		{"1,000,000 tool calls", chatPath, func(n int) string { return `"messages":[{"tool_calls":[` + repeat(`{}`)(n) + `]}]` }, full, 2 * mib, nil},
		{"1,000,000 contents", chatPath, func(n int) string { return `"messages":[{` + repeat(`"content":["x"]`)(n) + `}]` }, full, 128 * mib, nil},
		{"300,000 blocks in two results", messagesPath, func(n int) string {
			result := `{"type":"tool_result","content":[` + repeat(`{"text":"x"}`)(n/2) + `]}`
			return user(`[` + result + `,` + result + `]`)
		}, full * 3 / 10, 2 * mib, nil},
		{"1,000,000 prompts", "/v1/completions", func(n int) string { return `"prompt":[` + repeat(`"x"`)(n) + `]` }, full, 2 * mib, nil},
		{"1,000,000 sequences", "/v1/completions", func(n int) string { return `"prompt":[` + repeat(`[7]`)(n) + `]` }, full, 2 * mib, nil},
		{"1,000,000 token ids", "/v1/completions", func(n int) string { return `"prompt":[` + repeat(`7`)(n) + `]` }, full, 5 * mib, nil},
		{"a number of 4 MiB", "/v1/completions", func(n int) string { return `"prompt":[` + strings.Repeat("9", n) + `]` }, 4 * mib, 256 * kib, nil},
		{"a fraction of 4 MiB", chatPath, func(n int) string { return `"messages":[0.` + strings.Repeat("9", n) + `e-1]` }, 4 * mib, 256 * kib, nil},
		{"a key of 4 MiB", chatPath, func(n int) string { return `"messages":[{"` + strings.Repeat("k", n) + `":0,"x":1}]` }, 4 * mib, 256 * kib, nil},
		{"spaces between everything", chatPath, func(n int) string { return `"messages":[{"x":[` + strings.Repeat("1 ,", n) + `1]}]` }, full, 256 * kib, nil},
		{"4 MiB of [", chatPath, func(n int) string { return `"messages":` + strings.Repeat("[", n) }, 4 * mib, 256 * kib, InvalidJSON},
		{"4 MiB of { in a message", chatPath, func(n int) string { return `"messages":[` + strings.Repeat(`{"content":`, n/11) }, 4 * mib, 256 * kib, InvalidJSON},
		{"deep again and again", chatPath, func(n int) string {
			return `"messages":[{"x":[` + repeat(strings.Repeat(`{"a":0,"a":[`, 250)+strings.Repeat(`]}`, 250))(n) + `]}]`
		}, 500, 512 * kib, nil},
		{"4 MiB of backslashes", chatPath, func(n int) string { return user(`"` + strings.Repeat(`\\`, n/2) + `"`) }, 4 * mib, 256 * kib, nil},
		{"4 MiB of halves of characters", chatPath, func(n int) string { return user(`"` + strings.Repeat("\xe4\xbd", n/2) + `"`) }, 4 * mib, 256 * kib, nil},
		{"4 MiB that never end", chatPath, func(n int) string { return user(`"` + strings.Repeat(`x`, n)) }, 4 * mib, 256 * kib, InvalidJSON},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			body := func(n int) []byte { return []byte(`{"model":"m",` + test.members(n) + `}`) }
			whole := allocated(t, test.path, body(test.n), test.want)
			if whole > test.memory {
				t.Errorf("%d bytes allocated, at most %d", whole, test.memory)
			}
			// Half the body, half the memory and a constant: twice as much is more than linear.
			half := allocated(t, test.path, body(test.n/2), test.want)
			if whole > 3*half+512*kib {
				t.Errorf("%d bytes allocated, but %d for half the body: that grows faster than the body", whole, half)
			}
		})
	}
}

// TestTapeIsBounded looks at the tape of bodies that are nothing but elements.
func TestTapeIsBounded(t *testing.T) {
	for _, members := range []string{
		`"messages":[` + strings.Repeat(`{},`, 1<<20) + `{}]`,
		`"messages":[` + strings.Repeat(`{"content":[`+strings.Repeat(`"x",`, 1000)+`"x"]},`, 200) + `{}]`,
		user(`[` + strings.Repeat(`{"type":"tool_result","content":[`+strings.Repeat(`{"text":"x"},`, 100)+`{}]},`, 1000) + `{}]`),
	} {
		r := NewReader(DefaultOptions())
		w := r.take()
		var q Request
		if err := r.readJSON(w, messagesAPI, []byte(`{"model":"m",`+members+`}`), last{}, &q); err != nil {
			t.Fatal(err)
		}
		// Each of the four levels of arrays may begin again when the tape is full, and the
		// memory may be twice what is used.
		if got, most := cap(w.tape.nodes), 2*4*maxNodes; got > most {
			t.Errorf("a tape of %d nodes, at most %d", got, most)
		}
	}
}
