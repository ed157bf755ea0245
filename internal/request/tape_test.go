package request

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zeebo/xxh3"
)

// numbered joins n pieces with commas.
func numbered(n int, format func(i int) string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(format(i))
	}
	return b.String()
}

// TestManyDuplicates compares with what is left of them.
func TestManyDuplicates(t *testing.T) {
	const n = 200_000
	object := func(all bool) string {
		return `{` + numbered(n, func(i int) string {
			if !all && i < n/2 {
				i += n / 2
			}
			return fmt.Sprintf(`"k%d":%d`, i%(n/2), i)
		}) + `}`
	}
	last := `{` + numbered(n/2, func(i int) string { return fmt.Sprintf(`"k%d":%d`, i, i+n/2) }) + `}`
	got := prompted(t, chatPath, user(`["x",`+object(true)+`]`))
	if want := prompted(t, chatPath, user(`["x",`+last+`]`)); got.Digest != want.Digest {
		t.Errorf("digest %x, %x without the absent members", got.Digest, want.Digest)
	}
	if want := xxh3.HashString("user: x" + last + "\n"); got.Digest != want {
		t.Errorf("digest %x, want %x", got.Digest, want)
	}
	t.Run("more keys than are compared", func(t *testing.T) {
		// The first maxMembers keys are; what comes beyond stays as it is.
		within := `"a":0,` + numbered(maxMembers-2, func(i int) string { return `"` + strconv.Itoa(i) + `":0` })
		for beyond, source := range map[string]string{
			`"b":1`: `{` + within[len(`"a":0,`):] + `,"a":1,"b":1}`,
			`"a":2`: `{` + within[len(`"a":0,`):] + `,"a":1,"a":2}`,
		} {
			got := prompted(t, chatPath, user(`["x",{`+within+`,"a":1,`+beyond+`}]`))
			if want := xxh3.HashString("user: x" + source + "\n"); got.Digest != want {
				t.Errorf("beyond %s: digest %x, want %x", beyond, got.Digest, want)
			}
		}
	})
}

// TestTightTape reads with the shortest possible tape, where every array is read piece by piece.
func TestTightTape(t *testing.T) {
	bodies := append([]string{
		`{"model":"m","messages":[` + strings.Repeat(`{"role":"u","content":["a",{"type":"tool_result","content":[{"text":"b"},1,2,{"x":1}]},{"text":"c"}]},0,`, 50) + `{}]}`,
		`{"model":"m","messages":[` + strings.Repeat(`1,2,{"tool_calls":[1,2,{"function":{"arguments":"x"}}]},`, 50) + `3]}`,
		`{"model":"m","prompt":[` + strings.Repeat(`[1,2],`, 50) + `[]],"input":[` + strings.Repeat(`"x",1,`, 50) + `"y"]}`,
	}, seeds...)
	roomy := NewReader(DefaultOptions())
	for room := 1; room < 12; room++ {
		tight := NewReader(DefaultOptions())
		tight.room = room
		for i, body := range bodies {
			for _, path := range fuzzPaths {
				want, got := read(roomy, path, header{}, []byte(body)), read(tight, path, header{}, []byte(body))
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("body %d on %s, room %d (-roomy +tight):\n%s", i, path, room, diff)
				}
			}
		}
	}
}
