package request

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/zeebo/xxh3"
)

const (
	chatPath      = "/v1/chat/completions"
	messagesPath  = "/v1/messages"
	responsesPath = "/v1/responses"
)

// prompted reads a body of model m with the default options; members are what
// follows the model.
func prompted(t *testing.T, path, members string) result {
	t.Helper()
	got := read(NewReader(DefaultOptions()), path, header{}, []byte(`{"model":"m",`+members+`}`))
	if got.Err != "" {
		t.Fatalf("read %s: %s", members, got.Err)
	}
	return got
}

// quote is s as a JSON string.
func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// user is a chat of one user message with this content.
func user(content string) string { return `"messages":[{"role":"user","content":` + content + `}]` }

// TestText holds prompts that are text and nothing else: the length is the text's and the
// digest its hash.
func TestText(t *testing.T) {
	tests := []struct {
		name    string // of the rule
		path    string
		members string
		want    string
	}{
		{"case 112: chat", chatPath, user(`"what is rust"`), "user: what is rust\n"},
		{
			"case 115: system blocks of the Messages API come first", messagesPath,
			`"messages":[{"role":"user","content":"hi"}],"system":[{"type":"text","text":"be "},{"type":"text","text":"kind"}]`,
			"system: be kind\nuser: hi\n",
		},
		{"report 020: system as a string", messagesPath, user(`"hi"`) + `,"system":"be kind"`, "system: be kind\nuser: hi\n"},
		{"no system", messagesPath, user(`"hi"`) + `,"system":null`, "user: hi\n"},
		{"token counting", messagesPath + "/count_tokens", user(`"hi"`) + `,"system":"S"`, "system: S\nuser: hi\n"},
		{"case 116: Responses", responsesPath, `"input":"hi","instructions":"be kind"`, "system: be kind\nuser: hi\n"},
		{"Responses without instructions", responsesPath, `"input":"","instructions":null`, "user: \n"},
		{
			"Responses with items", responsesPath, `"input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]}]`,
			"user: hi\n",
		},
		{"case 117: completions", "/v1/completions", `"prompt":"once upon"`, "once upon"},
		{"case 117: embeddings", "/v1/embeddings", `"input":["a","b"]`, "ab"},
		{"report 003: strings among others", "/v1/completions", `"prompt":["hi",1,null,[2],{},"there"]`, "hithere"},
		{"SGLang", "/generate", `"text":"once upon","input_ids":[1]`, "once upon"},
		{"SGLang, several", "/generate", `"text":["a","b"]`, "ab"},
		{"case 129: no role", chatPath, `"messages":[{"content":"hi"},{"content":"ho","role":5}]`, "item: hi\nitem: ho\n"},
		{"the role comes first", chatPath, `"messages":[{"content":"hi","role":"user"}]`, "user: hi\n"},
		{"an empty role is one", chatPath, `"messages":[{"content":"hi","role":""}]`, ": hi\n"},
		{
			"content that is none", chatPath,
			`"messages":[{"role":"a","content":null},{"role":"b","content":5},{"role":"c","content":{"text":"x"}},{"role":"d","content":[]}]`,
			"a: \nb: \nc: \nd: \n",
		},
		{"parts that are strings, numbers and nothing", chatPath, user(`["look ",1,null,true,[5],"at this"]`), "user: look at this\n"},
		{
			"a text counts whatever the type", chatPath,
			user(`[{"type":"tool_result","text":"a","content":"x"},{"text":"b"},{"type":7,"text":"c"}]`), "user: abc\n",
		},
		{"case 130: the last of two keys", chatPath, user(`"one"`) + `,` + user(`"two"`), "user: two\n"},
		{"the last key, further down", chatPath, user(`"one","content":[{"text":"x","text":"two"}],"role":"a","role":"b"`), "b: two\n"},
		{"the last key may unmake a text", chatPath, user(`"a"},{"content":"b","content":5`), "user: a\nitem: \n"},
		{"case 131: other keys", chatPath, `"Messages":[{"role":"x","content":"y"}],"MODEL":"n",` + user(`"hi"`), "user: hi\n"},
		{"keys with escapes", chatPath, `"m\u0065ssages":[{"\u0072ole":"user","conten\u0074":[{"t\u0065xt":"hi"}]}]`, "user: hi\n"},
		{
			"case 135: no character", chatPath, user(`"\ud83d \udc00 x \ud83d\u0041 ` + "\xff\xfe\xe4\xbd" + `"`),
			"user: \uFFFD \uFFFD x \uFFFDA \uFFFD\uFFFD\uFFFD\uFFFD\n",
		},
		{"report 014: an emoji cut in two", chatPath, user(`"emoji \ud83d"`), "user: emoji \uFFFD\n"},
		{"escapes", chatPath, user(`"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00\u0000"`), "user: \"\\/\b\f\n\r\té😀\x00\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := prompted(t, test.path, test.members)
			want := result{Text: test.want, Length: int64(len(test.want)), Digest: xxh3.HashString(test.want), HasPrompt: true}
			if diff := cmp.Diff(want, got, onlyPrompt); diff != "" {
				t.Errorf("prompt (-want +got):\n%s", diff)
			}
		})
	}
}

// onlyPrompt compares what the prompt gives.
var onlyPrompt = cmp.Transformer("prompt", func(r result) result {
	return result{Text: r.Text, Length: r.Length, Digest: r.Digest, HasPrompt: r.HasPrompt, TokenIDs: r.TokenIDs}
})

// TestAbsorbed holds prompts that are more than text. fed is all that was hashed.
func TestAbsorbed(t *testing.T) {
	image := `{"type":"image_url","image_url":{"url":"https://x.example/a.png"}}`
	tests := []struct {
		name, path, members string
		text, fed           string
		length              int // measured bytes beyond the text
	}{
		{
			"case 114: an image between texts", chatPath, user(`[{"type":"text","text":"look "},` + image + `,{"type":"text","text":"at this"}]`),
			"user: look at this\n", "user: look " + image + "at this\n", 0,
		},
		{
			"case 126: tool calls and tool turn", chatPath,
			`"messages":[{"role":"assistant","content":"so","tool_calls":[{"id":"c","function":{"name":"sh","arguments":"{\"cmd\":\"ls\"}"}}]},` +
				`{"role":"tool","tool_call_id":"c","content":"a.txt"}]`,
			"assistant: so\ntool: a.txt\n", "assistant: so\n" + `{"cmd":"ls"}` + "tool: a.txt\n", len(`{"cmd":"ls"}`),
		},
		{
			"case 126: function call and output", responsesPath,
			`"input":[{"role":"user","content":"hi"},{"type":"function_call","call_id":"c","arguments":"{\"a\": 1}"},` +
				`{"type":"function_call_output","call_id":"c","output":"done"}]`,
			"user: hi\n", "user: hi\n" + `{"a": 1}done`, len(`{"a": 1}done`),
		},
		{
			"an output that is no string", responsesPath,
			`"input":[{"role":"user","content":"hi"},{"output":[ { "type" : "input_text", "text": "a b" } ]},{"output":null}]`,
			"user: hi\n", "user: hi\n" + `[{"type":"input_text","text":"a b"}]null`, len(`[{"type":"input_text","text":"a b"}]null`),
		},
		{
			"case 128: no content but tool calls", chatPath,
			`"messages":[{"role":"assistant","content":null,"tool_calls":[{"function":{"arguments":"{}"}}]}]`,
			"assistant: \n", "assistant: \n{}", 2,
		},
		{
			"report 005: no content key at all", chatPath,
			`"messages":[{"role":"user","content":"hi"},{"role":"assistant","reasoning":"hm","tool_calls":[{"function":{"arguments":"{}"}},{"id": "d"},5]}]`,
			"user: hi\n",
			"user: hi\n" + `{"role":"assistant","reasoning":"hm","tool_calls":[{"function":{"arguments":"{}"}},{"id":"d"},5]}` + `{}` + `{"id":"d"}5`,
			len(`{}` + `{"id":"d"}5`),
		},
		{
			"arguments that are no string", chatPath,
			`"messages":[{"role":"a","content":"","tool_calls":[{"function":{"arguments":{"a": [1, 2]}}},{"function":{"arguments":null}},{"function":"f"}]}]`,
			"a: \n", "a: \n" + `{"a":[1,2]}null{"function":"f"}`, len(`{"a":[1,2]}null{"function":"f"}`),
		},
		{
			"case 129: elements that are no objects", chatPath, `"messages":[5,{"role":"user","content":"hi"}, 6 , true,"x\u0041",[ 1, 2 ]]`,
			"user: hi\n", "5user: hi\n6truexA[1,2]", 0,
		},
		{
			"tool result as text", messagesPath, user(`[{"type":"tool_result","tool_use_id":"t","content":"42"}]`),
			"user: \n", "user: 42\n", 2,
		},
		{
			"tool result as blocks", messagesPath,
			user(`[{"type":"tool_result","content":[{"type":"text","text":"4"},{"type":"image","source": {}},"s",{"text":5},{"text":"2"}]}]`),
			"user: \n", "user: 4" + `{"type":"image","source":{}}s{"text":5}` + "2\n", 2,
		},
		{
			"tool results of other kinds", messagesPath,
			user(`[{"type":"tool_result","content":{"a": 1}},{"type":"tool_result","content":null},{"type":"tool_result", "x":1}]`),
			"user: \n", "user: " + `{"a":1}null{"type":"tool_result","x":1}` + "\n", len(`{"a":1}null`),
		},
		{
			"tool use", messagesPath, user(`[{"type":"tool_use","input":{"q": "x y"}},{"type":"tool_use","id":1},{"type":"tool_\u0075se","input":7}]`),
			"user: \n", "user: " + `{"q":"x y"}{"type":"tool_use","id":1}7` + "\n", len(`{"q":"x y"}{"type":"tool_use","id":1}7`),
		},
		{
			"thinking", messagesPath, user(`[{"type":"thinking","thinking":"hm"},{"type":"text","text":"so"}]`),
			"user: so\n", "user: " + `{"type":"thinking","thinking":"hm"}so` + "\n", 0,
		},
		{
			"absent members of what is absorbed", chatPath,
			user(`[{"a":1,"b":{"x":1,"\u0078":[2]},"a":{"c":1,"c":2},"z":3}]`),
			"user: \n", "user: " + `{"b":{"\u0078":[2]},"a":{"c":2},"z":3}` + "\n", 0,
		},
		{
			"absent members in absent members", chatPath,
			user(`[{"k":{"a":1,"a":2,"b":{"a":1,"a":2}},"l":[{"a":1,"a":2}], "k":{"a":3}}]`),
			"user: \n", "user: " + `{"l":[{"a":2}],"k":{"a":3}}` + "\n", 0,
		},
		{
			"many members", chatPath,
			user(`[{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9,"a":10,"\u0063":11,"` + "\xff" + `":12,"\ufffd":13}]`),
			"user: \n", "user: " + `{"b":2,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9,"a":10,"\u0063":11,"\ufffd":13}` + "\n", 0,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := prompted(t, test.path, test.members)
			want := result{
				Text: test.text, Length: int64(len(test.text) + test.length), Digest: xxh3.HashString(test.fed), HasPrompt: true,
			}
			if diff := cmp.Diff(want, got, onlyPrompt); diff != "" {
				t.Errorf("prompt (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNextTurn is case 113.
func TestNextTurn(t *testing.T) {
	turn := `{"role":"user","content":"what is rust"}`
	first := prompted(t, chatPath, `"messages":[`+turn+`]`)
	second := prompted(t, chatPath, `"messages":[`+turn+`,{"role":"assistant","content":"a language"},{"role":"user","content":"and go"}]`)
	if !strings.HasPrefix(second.Text, first.Text) || second.Text == first.Text {
		t.Errorf("the next turn's text %q does not go on from %q", second.Text, first.Text)
	}
}

// TestUnreadable is case 118 but for the adapter, which is not read here.
func TestUnreadable(t *testing.T) {
	tests := []struct{ name, path, members string }{
		{"case 118: images path", "/v1/images/generations", `"prompt":"a cat"`},
		{"case 118: no messages", chatPath, `"prompt":"x"`},
		{"case 118: empty messages", chatPath, `"messages":[]`},
		{"messages that are none", chatPath, `"messages":{"role":"user"}`},
		{"nothing measured", chatPath, `"messages":[5,{"role":"user"}]`},
		{"empty conversation", messagesPath, `"messages":[]`},
		{"no input", responsesPath, `"instructions":"x"`},
		{"input of another kind", responsesPath, `"instructions":"x","input":{}`},
		{"report 003: empty prompt", "/v1/completions", `"prompt":""`},
		{"report 003: empty array", "/v1/embeddings", `"input":[]`},
		{"case 142: a negative number", "/v1/completions", `"prompt":[1,-2]`},
		{"case 142: a fraction", "/v1/completions", `"prompt":[1.0]`},
		{"no sequence of ids", "/inference/v1/generate", `"token_ids":["a"]`},
		{"ids as a string", "/inference/v1/generate", `"token_ids":"1,2"`},
		{"neither text nor ids", "/generate", `"text":null,"input_ids":[1.5]`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			body := `{"model":"m",` + test.members + `}`
			got := prompted(t, test.path, test.members)
			want := result{Text: body, Length: int64(len(body)), Digest: xxh3.HashString(body), HasPrompt: true}
			if diff := cmp.Diff(want, got, onlyPrompt); diff != "" {
				t.Errorf("prompt (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("a long one", func(t *testing.T) {
		members := `"prompt":` + quote(strings.Repeat("é", 40<<10))
		got := prompted(t, "/v1/images/generations", members)
		if len(got.Text) != 32<<10 && len(got.Text) != 32<<10-1 || !utf8.ValidString(got.Text) {
			t.Errorf("text of %d bytes", len(got.Text))
		}
		if want := int64(len(`{"model":"m",` + members + `}`)); got.Length != want {
			t.Errorf("length %d, want %d", got.Length, want)
		}
	})
	t.Run("no UTF-8", func(t *testing.T) {
		got := prompted(t, "/v1/images/generations", `"prompt":"`+"\xff"+`"`)
		if got.HasPrompt || got.Text != "" || got.Length != 0 || got.Digest != 0 {
			t.Errorf("prompt of a body that is no text: %+v", got)
		}
	})
}

// TestTextLimit is cases 119-121.
func TestTextLimit(t *testing.T) {
	const limit = 32 << 10
	t.Run("case 119", func(t *testing.T) {
		content := strings.Repeat("é", 20<<10) // "user: " is of even length: add one byte to come to cut one
		got := prompted(t, chatPath, user(quote("x"+content)))
		whole := "user: x" + content + "\n"
		want := result{Text: whole[:limit-1], Length: int64(len(whole)), Digest: xxh3.HashString(whole), HasPrompt: true}
		if diff := cmp.Diff(want, got, onlyPrompt); diff != "" {
			t.Errorf("prompt (-want +got):\n%s", diff)
		}
	})
	t.Run("case 120", func(t *testing.T) {
		first := strings.Repeat("x", limit-len("user: ")-1) + "é"
		got := prompted(t, chatPath, `"messages":[{"role":"user","content":[`+quote(first)+`,"y"]},{"role":"a","content":"z"}]`)
		whole := "user: " + first + "y\na: z\n"
		want := result{Text: whole[:limit-1], Length: int64(len(whole)), Digest: xxh3.HashString(whole), HasPrompt: true}
		if diff := cmp.Diff(want, got, onlyPrompt); diff != "" {
			t.Errorf("prompt (-want +got):\n%s", diff)
		}
	})
	t.Run("exactly full", func(t *testing.T) {
		for _, last := range []string{"x", "é"} {
			content := strings.Repeat("x", limit-len("user: ")-len("\n")-len(last)) + last
			whole := "user: " + content + "\n"
			got := prompted(t, chatPath, `"messages":[{"role":"user","content":`+quote(content)+`},{"role":"","content":""}]`)
			fed := whole + ": \n"
			want := result{Text: whole, Length: int64(len(fed)), Digest: xxh3.HashString(fed), HasPrompt: true}
			if diff := cmp.Diff(want, got, onlyPrompt); diff != "" {
				t.Errorf("prompt (-want +got):\n%s", diff)
			}
		}
	})
	t.Run("no text at all", func(t *testing.T) {
		opts := DefaultOptions()
		opts.MaxText = 0
		got := read(NewReader(opts), chatPath, header{}, []byte(`{"model":"m",`+user(`"hi"`)+`}`))
		want := result{Length: int64(len("user: hi\n")), Digest: xxh3.HashString("user: hi\n"), HasPrompt: true}
		if diff := cmp.Diff(want, got, onlyPrompt); diff != "" {
			t.Errorf("prompt (-want +got):\n%s", diff)
		}
	})
	t.Run("case 121", func(t *testing.T) {
		opts := DefaultOptions()
		for _, opts.MaxText = range []int{limit, 1 << 30} {
			for _, content := range []string{strings.Repeat("x", 4<<20), strings.Repeat("\\n", 2<<20), strings.Repeat("é", 2<<20)} {
				var q Request
				body := `{"model":"m",` + user(`"`+content+`"`) + `}`
				if err := NewReader(opts).Read(chatPath, header{}, []byte(body), &q); err != nil {
					t.Fatal(err)
				}
				if cap(q.Text) > 64<<10 {
					t.Errorf("the text takes %d bytes", cap(q.Text))
				}
				if want := int64(len("user: \n") + len(strings.ReplaceAll(content, "\\n", "\n"))); q.Length != want {
					t.Errorf("length %d, want %d", q.Length, want)
				}
			}
		}
	})
}

// TestLongStrings sends strings of every kind through every boundary of the buffers on the way.
func TestLongStrings(t *testing.T) {
	for _, unit := range []string{"x", "é", "什", "😀", "\n", "x\n", "é\"", "什么\n", "\u2028<&", strings.Repeat("y", 61) + "\\", "\x01"} {
		for _, escape := range []bool{false, true} {
			for shift := range 9 {
				text := strings.Repeat("-", shift) + strings.Repeat(unit, 9000/len(unit))
				content := quote(text)
				if escape {
					content = `"` + strings.Repeat("-", shift) + strings.Repeat(escapeAll(unit), 9000/len(unit)) + `"`
				}
				whole := "user: " + text + "\n"
				got := prompted(t, chatPath, user(content))
				want := result{Text: whole, Length: int64(len(whole)), Digest: xxh3.HashString(whole), HasPrompt: true}
				if diff := cmp.Diff(want, got, onlyPrompt); diff != "" {
					t.Fatalf("%q, escape %t, shift %d (-want +got):\n%s", unit, escape, shift, diff)
				}
			}
		}
	}
}

// escapeAll writes every UTF-16 unit of s as an escape.
func escapeAll(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r > 0xFFFF {
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04X`, 0xD800+r>>10, 0xDC00+r&0x3FF)
			continue
		}
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return b.String()
}

// TestSplitting is case 122.
func TestSplitting(t *testing.T) {
	text := strings.Repeat("All that is gold does not glitter. ", 2000)
	want := xxh3.HashString("user: " + text + "\n")
	for _, pieces := range []int{1, 2, 10} {
		var parts []string
		for i := range pieces {
			from, to := len(text)*i/pieces, len(text)*(i+1)/pieces
			parts = append(parts, `{"type":"text","text":`+quote(text[from:to])+`}`)
		}
		if got := prompted(t, chatPath, user(`[`+strings.Join(parts, ",")+`]`)); got.Digest != want {
			t.Errorf("%d parts: digest %x, want that of the rendered text, %x", pieces, got.Digest, want)
		}
	}
}

// TestImages is the request's part of case 124, and report 004.
func TestImages(t *testing.T) {
	for _, shape := range []string{
		`{"type":"image_url","image_url":{"url":%q}}`,
		`{"type":"image_url","image_url":%q}`,
		`{"type":"image_url","url":%q}`,
		`{"type":"image","source":{"type":"url","url":%q}}`,
		`{"type":"input_audio","input_audio":{"data":%q}}`,
		`{"type":"video_url","video_url":{"url":%q}}`,
		`{"type":"of tomorrow","x":%q}`,
		`{"y":%q}`,
	} {
		digests := make(map[uint64]bool)
		for i := range 32 {
			part := fmt.Sprintf(shape, fmt.Sprintf("https://x.example/%d.png", i))
			for _, path := range []string{chatPath, messagesPath} {
				got := prompted(t, path, user(`[{"type":"text","text":"describe"},`+part+`]`))
				if got.Text != "user: describe\n" || got.Length != int64(len(got.Text)) {
					t.Errorf("%s: text %q, length %d", part, got.Text, got.Length)
				}
				digests[got.Digest] = true
			}
		}
		if len(digests) != 32 {
			t.Errorf("%s: %d digests of 32 pictures", shape, len(digests))
		}
	}
}

// TestToolResult is case 125.
func TestToolResult(t *testing.T) {
	result := func(content string) result {
		return prompted(t, messagesPath, `"messages":[{"role":"user","content":"go"},{"role":"user","content":[`+
			`{"type":"tool_result","tool_use_id":"t","content":`+content+`}]}]`)
	}
	const size = 200 << 10
	a, b := strings.Repeat("a", size), strings.Repeat("b", size)
	asString := result(quote(a))
	asBlocks := result(`[{"type":"text","text":` + quote(a[:999]) + `},{"type":"text","text":` + quote(a[999:]) + `}]`)
	other := result(quote(b))
	if asString.Length < size {
		t.Errorf("length %d of a result of %d bytes", asString.Length, size)
	}
	if asBlocks.Length != asString.Length {
		t.Errorf("length %d as blocks, %d as a string", asBlocks.Length, asString.Length)
	}
	if other.Text != asString.Text || other.Digest == asString.Digest {
		t.Errorf("another result: text %q and %q, digest %x and %x", other.Text, asString.Text, other.Digest, asString.Digest)
	}
}

// TestPromptTokens is case 127.
func TestPromptTokens(t *testing.T) {
	var q Request
	body := `{"model":"m",` + user(quote(strings.Repeat("x", 200<<10))) + `}`
	if err := NewReader(DefaultOptions()).Read(chatPath, header{}, []byte(body), &q); err != nil {
		t.Fatal(err)
	}
	if got := q.PromptTokens(); got <= 8192 || got != q.Length/4 {
		t.Errorf("%d tokens of %d bytes", got, q.Length)
	}
}

// TestSharedSystemPrompt is report 071: equal texts, and a digest that sees the whole.
func TestSharedSystemPrompt(t *testing.T) {
	system := quote(strings.Repeat("You are helpful. ", 3000))
	digests := make(map[uint64]bool)
	var text string
	for i := range 200 {
		got := prompted(t, chatPath, fmt.Sprintf(`"messages":[{"role":"system","content":%s},{"role":"user","content":"%d"}]`, system, i))
		if i == 0 {
			text = got.Text
		}
		if got.Text != text {
			t.Fatal("texts differ")
		}
		digests[got.Digest] = true
	}
	if len(digests) != 200 {
		t.Errorf("%d digests of 200 conversations", len(digests))
	}
}

// TestCacheSalt is the request's part of case 414.
func TestCacheSalt(t *testing.T) {
	salted := func(path, members, salt string) result {
		return prompted(t, path, members+`,"cache_salt":`+salt)
	}
	line := func(salt string) string { return fmt.Sprintf("%016x\n", xxh3.HashString(salt)) }
	t.Run("case 414", func(t *testing.T) {
		members := user(`"hi"`)
		for _, salt := range []string{"a", "b", "é\n"} {
			got := salted(chatPath, members, quote(salt))
			text := line(salt) + "user: hi\n"
			want := result{Text: text, Length: int64(len("user: hi\n")), Digest: xxh3.HashString(text), HasPrompt: true}
			if diff := cmp.Diff(want, got, onlyPrompt); diff != "" {
				t.Errorf("salt %q (-want +got):\n%s", salt, diff)
			}
			if got.CacheSalt != salt {
				t.Errorf("salt %q, want %q", got.CacheSalt, salt)
			}
		}
	})
	t.Run("before token ids", func(t *testing.T) {
		got := salted("/v1/completions", `"prompt":[1,2]`, `"a"`)
		want := result{
			Text: line("a") + "1,2", Length: 8, Digest: xxh3.HashString(line("a") + "\x01\x00\x00\x00\x02\x00\x00\x00"), HasPrompt: true,
			TokenIDs: []uint32{1, 2},
		}
		if diff := cmp.Diff(want, got, onlyPrompt); diff != "" {
			t.Errorf("prompt (-want +got):\n%s", diff)
		}
	})
	t.Run("before an unreadable body", func(t *testing.T) {
		body := `{"model":"m","x":1,"cache_salt":"a"}`
		got := salted("/v1/images", `"x":1`, `"a"`)
		want := result{Text: line("a") + body, Length: int64(len(body)), Digest: xxh3.HashString(line("a") + body), HasPrompt: true}
		if diff := cmp.Diff(want, got, onlyPrompt); diff != "" {
			t.Errorf("prompt (-want +got):\n%s", diff)
		}
	})
	t.Run("none", func(t *testing.T) {
		want := prompted(t, chatPath, user(`"hi"`))
		for _, salt := range []string{`""`, `null`, `["a"]`, `5`, `"a","cache_salt":null`} {
			if got := salted(chatPath, user(`"hi"`), salt); got.Text != want.Text || got.Digest != want.Digest || got.CacheSalt != "" {
				t.Errorf("salt %s: text %q, salt %q", salt, got.Text, got.CacheSalt)
			}
		}
	})
}
