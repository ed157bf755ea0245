package request

import (
	"encoding/binary"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zeebo/xxh3"
)

// words are ids as the digest sees them.
func words(ids ...uint32) []byte {
	var b []byte
	for _, id := range ids {
		b = binary.LittleEndian.AppendUint32(b, id)
	}
	return b
}

func TestTokenPrompts(t *testing.T) {
	tests := []struct {
		name, path, members string
		text                string
		length              int64
		fed                 []byte
		ids                 []uint32
	}{
		{"case 140", "/v1/completions", `"prompt":[1,2,3]`, "1,2,3", 12, words(1, 2, 3), []uint32{1, 2, 3}},
		{"spaces between", "/v1/completions", `"prompt": [ 1 , 2 ,3 ] `, "1,2,3", 12, words(1, 2, 3), []uint32{1, 2, 3}},
		{"the largest", "/v1/embeddings", `"input":[4294967295,0]`, "4294967295,0", 8, words(1<<32-1, 0), []uint32{1<<32 - 1, 0}},
		{"case 141", "/v1/completions", `"prompt":[[1,2],[3]]`, "1,2\n3", 12, words(2, 1, 2, 1, 3), nil},
		{"report 003: a batch", "/v1/embeddings", `"input":[[1,2],[3,4]]`, "1,2\n3,4", 16, words(2, 1, 2, 2, 3, 4), nil},
		{"a batch with empty ones", "/v1/completions", `"prompt":[[],[7],[ ]]`, "\n7\n", 4, words(0, 1, 7, 0), nil},
		{"a batch of one", "/v1/completions", `"prompt":[[7]]`, "7", 4, words(1, 7), nil},
		{"vLLM", "/inference/v1/generate", `"token_ids":[1,2]`, "1,2", 8, words(1, 2), []uint32{1, 2}},
		{"SGLang", "/generate", `"input_ids":[1,2]`, "1,2", 8, words(1, 2), []uint32{1, 2}},
		{"SGLang, a batch", "/generate", `"text":null,"input_ids":[[1],[2]]`, "1\n2", 8, words(1, 1, 1, 2), nil},
		{
			"case 358: features", "/inference/v1/generate", `"content_parts":"p q","token_ids":[1],"features":{"a": [1]}`, "1", 4,
			append(words(1), `{"a":[1]}p q`...), []uint32{1},
		},
		{"features that are null", "/inference/v1/generate", `"token_ids":[1],"features":null`, "1", 4, words(1), []uint32{1}},
		{"features elsewhere", "/v1/completions", `"prompt":[1],"features":{"a":1}`, "1", 4, words(1), []uint32{1}},
		{"case 355: truncated", "/v1/completions", `"prompt":[1],"truncate_prompt_tokens":100`, "1", 4, words(1), nil},
		{"not truncated", "/v1/completions", `"prompt":[1],"truncate_prompt_tokens":null`, "1", 4, words(1), []uint32{1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := prompted(t, test.path, test.members)
			want := result{Text: test.text, Length: test.length, Digest: xxh3.Hash(test.fed), HasPrompt: true, TokenIDs: test.ids}
			if diff := cmp.Diff(want, got, onlyPrompt); diff != "" {
				t.Errorf("prompt (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("case 140: 3 tokens", func(t *testing.T) {
		var q Request
		if err := NewReader(DefaultOptions()).Read("/v1/completions", header{}, []byte(`{"model":"m","prompt":[1,2,3]}`), &q); err != nil {
			t.Fatal(err)
		}
		if q.PromptTokens() != 3 {
			t.Errorf("%d tokens", q.PromptTokens())
		}
	})
	t.Run("what is none", func(t *testing.T) {
		for _, prompt := range []string{
			`[1,-2]`, `[1.0]`, `[1e2]`, `[-0]`, `[4294967296]`, `[99999999999]`, `[true]`, `[[1],2]`, `[1,[2]]`, `[[1],[[2]]]`, `[[1],["a"]]`, `[[1.5]]`, `[{}]`, `[[]]`,
		} {
			got := prompted(t, "/v1/completions", `"prompt":`+prompt)
			if got.TokenIDs != nil || !strings.HasPrefix(got.Text, "{") {
				t.Errorf("%s: text %q, ids %v", prompt, got.Text, got.TokenIDs)
			}
		}
	})
}

// TestLongTokenPrompts cuts the text at a whole id.
func TestLongTokenPrompts(t *testing.T) {
	var list strings.Builder
	var ids []uint32
	for i := range uint32(20_000) {
		if i > 0 {
			list.WriteByte(',')
		}
		list.WriteString(strconv.Itoa(int(i * 7)))
		ids = append(ids, i*7)
	}
	got := prompted(t, "/v1/completions", `"prompt":[`+list.String()+`]`)
	next := list.String()[len(got.Text):]
	if !strings.HasPrefix(list.String(), got.Text) || next[0] != ',' || len(got.Text)+len(next[:strings.IndexByte(next[1:], ',')+1]) <= 32<<10 {
		t.Errorf("the text of %d bytes ends with %q, then comes %q", len(got.Text), got.Text[len(got.Text)-10:], next[:10])
	}
	if got.Length != 80_000 || got.Digest != xxh3.Hash(words(ids...)) || !cmp.Equal(got.TokenIDs, ids) {
		t.Errorf("length %d, %d ids", got.Length, len(got.TokenIDs))
	}
	t.Run("more than are kept", func(t *testing.T) {
		for extra, want := range map[int]int{0: maxTokenIDs, 1: 0} {
			body := `"prompt":[` + strings.Repeat("1,", maxTokenIDs+extra-1) + `1]`
			if got := prompted(t, "/v1/completions", body); len(got.TokenIDs) != want || got.Length != int64(maxTokenIDs+extra)*4 {
				t.Errorf("%d ids too many: %d kept, length %d", extra, len(got.TokenIDs), got.Length)
			}
		}
	})
}

// TestTokenHeaders is cases 143-145 and 355.
func TestTokenHeaders(t *testing.T) {
	const ours, theirs = "x-pointsman-token-ids", "x-rolter-vllm-token-ids"
	many := strings.Repeat("1,", maxTokenIDs-1) + "1"
	tests := []struct {
		name    string
		h       header
		members string
		want    []uint32
	}{
		{"case 143: a list", header{ours: {"1, 2 ,3"}}, `"x":1`, []uint32{1, 2, 3}},
		{"tabs", header{ours: {"\t1\t,\t2 "}}, `"x":1`, []uint32{1, 2}},
		{"the largest", header{ours: {"4294967295"}}, `"x":1`, []uint32{1<<32 - 1}},
		{"zeros in front", header{ours: {"007,0"}}, `"x":1`, []uint32{7, 0}},
		{"case 143: empty element", header{ours: {"1,,2"}}, `"x":1`, nil},
		{"case 143: empty list", header{ours: {""}}, `"x":1`, nil},
		{"case 143: no number", header{ours: {"1,x"}}, `"x":1`, nil},
		{"case 143: out of range", header{ours: {"4294967296"}}, `"x":1`, nil},
		{"far out of range", header{ours: {"99999999999999999999999999"}}, `"x":1`, nil},
		{"spaces only", header{ours: {"  "}}, `"x":1`, nil},
		{"a comma at the end", header{ours: {"1,"}}, `"x":1`, nil},
		{"a sign", header{ours: {"+1"}}, `"x":1`, nil},
		{"a minus", header{ours: {"1,-2"}}, `"x":1`, nil},
		{"a fraction", header{ours: {"1.0"}}, `"x":1`, nil},
		{"no comma", header{ours: {"1 2"}}, `"x":1`, nil},
		{"a line end", header{ours: {"1\n"}}, `"x":1`, nil},
		{"repeated", header{ours: {"1,2", "3"}}, `"x":1`, []uint32{1, 2, 3}},
		{"repeated, one empty", header{ours: {"1,2", ""}}, `"x":1`, nil},
		{"repeated, the first empty", header{ours: {"", "1"}}, `"x":1`, nil},
		{"the other", header{theirs: {"4,5"}}, `"x":1`, []uint32{4, 5}},
		{"both", header{ours: {"1"}, theirs: {"4,5"}}, `"x":1`, []uint32{1}},
		{"case 144: ours bad", header{ours: {"1,x"}, theirs: {"4,5"}}, `"x":1`, []uint32{4, 5}},
		{"both bad", header{ours: {"1,x"}, theirs: {"4,5,"}}, `"x":1`, nil},
		{"case 145: header and body", header{ours: {"1"}}, `"prompt":[7,8]`, []uint32{1}},
		{"header bad, body good", header{ours: {"x"}}, `"prompt":[7,8]`, []uint32{7, 8}},
		{"case 355: truncated, ids in both", header{ours: {"1"}}, `"prompt":[7,8],"truncate_prompt_tokens":100`, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := read(NewReader(DefaultOptions()), "/v1/completions", test.h, []byte(`{"model":"m",`+test.members+`}`))
			if diff := cmp.Diff(test.want, got.TokenIDs); diff != "" || got.Err != "" {
				t.Errorf("%s token ids (-want +got):\n%s", got.Err, diff)
			}
		})
	}
	t.Run("as many as are kept", func(t *testing.T) {
		for value, want := range map[string]int{many: maxTokenIDs, many + ",1": 0} {
			if got := read(NewReader(DefaultOptions()), "/v1/completions", header{ours: {value}}, []byte(`{"model":"m"}`)); len(got.TokenIDs) != want {
				t.Errorf("%d ids, want %d", len(got.TokenIDs), want)
			}
		}
	})
}

// FuzzTokenHeader holds the header's form against its words.
func FuzzTokenHeader(f *testing.F) {
	for _, seed := range []string{"1, 2 ,3", "1,,2", "", "1,x", "4294967296", "4294967295,\t0", "01", " "} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		var want []uint32
		ok := true
		for element := range strings.SplitSeq(value, ",") {
			element = strings.Trim(element, " \t")
			id, err := strconv.ParseUint(element, 10, 32)
			if err != nil {
				ok = false
			}
			want = append(want, uint32(id))
		}
		got, gotOK := appendIDs(nil, value)
		if gotOK != ok || ok && !cmp.Equal(got, want) {
			t.Errorf("%q: %v %t, want %v %t", value, got, gotOK, want, ok)
		}
	})
}
