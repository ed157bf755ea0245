package request

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestValidity says of bodies on a known and on an unknown path which fault they
// are. What is at fault on one is on the other.
func TestValidity(t *testing.T) {
	nested := func(levels int) string { // the outermost object is level 1
		return `{"model":"m","x":` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + `}`
	}
	objects := func(levels int) string {
		return strings.Repeat(`{"model":`, levels-1) + `{}` + strings.Repeat(`}`, levels-1)
	}
	messages := func(levels int) string { // through the shapes that are recorded: the part is level 5
		return `{"model":"m","messages":[{"content":[{"x":` + strings.Repeat("[", levels-5) + strings.Repeat("]", levels-5) + `}]}]}`
	}
	tests := []struct {
		name, body string
		want       error
	}{
		{"plain", `{"model":"m"}`, nil},
		{"case 134: trailing garbage", `{"model":"m"} x`, InvalidJSON},
		{"report 012: two documents", `{"model":"m"}{"model":"m"}`, InvalidJSON},
		{"white space around", " \t\r\n{ \"model\"\n:\t\"m\" } \n", nil},
		{"case 133: byte-order mark", bom + `{"model":"m"}`, nil},
		{"byte-order mark and space", bom + ` {"model":"m"}`, nil},
		{"byte-order mark elsewhere", ` ` + bom + `{"model":"m"}`, InvalidJSON},
		{"two byte-order marks", bom + bom + `{"model":"m"}`, InvalidJSON},
		{"a byte-order mark alone", bom, InvalidJSON},
		{"case 132: key with an escape", `{"mod\u0065l":"m"}`, nil},
		{"case 131: key in capitals", `{"MODEL":"m","Model":"m"}`, MissingModel},
		{"key that begins alike", `{"models":"m","mode":"m","model\u0000":"m"}`, MissingModel},
		{"key that would be known but for what is no UTF-8", `{"mode\u006c` + strings.Repeat("\x80", 122) + `":"m"}`, MissingModel},
		{"case 136: 512 levels", nested(512), nil},
		{"case 136: 513 levels", nested(513), InvalidJSON},
		{"512 levels of objects", objects(512), MissingModel},
		{"513 levels of objects", objects(513), InvalidJSON},
		{"512 levels below messages", messages(512), nil},
		{"513 levels below messages", messages(513), InvalidJSON},
		{"report 012: white space only", "  ", InvalidJSON},
		{"report 012: unfinished", `{`, InvalidJSON},
		{"report 012: array", `[]`, MissingModel},
		{"report 012: null", `null`, MissingModel},
		{"report 012: string", `"x"`, MissingModel},
		{"report 012: number", `123`, MissingModel},
		{"report 012: model is a number", `{"model":123}`, MissingModel},
		{"report 012: model is null", `{"model":null}`, MissingModel},
		{"report 012: model is an array", `{"model":["a"]}`, MissingModel},
		{"report 012: no model", `{"messages":"hi"}`, MissingModel},
		{"report 012: 10,000 brackets", strings.Repeat("[", 10_000), InvalidJSON},
		{"report 012: 1 MB of spaces", strings.Repeat(" ", 1_000_000) + `{}`, MissingModel},
		{"empty model", `{"model":""}`, MissingModel},
		{"the last model is none", `{"model":"m","model":5}`, MissingModel},
		{"the last model is one", `{"model":5,"model":"m"}`, nil},
		{"report 019: big and odd numbers", `{"model":"m","seed":18446744073709551615,"temperature":1e400,"logit_bias":{"50256":-100},"x":-0.0E-9}`, nil},
		{"report 019: a tool without parameters", `{"model":"m","tools":[{"type":"function","function":{"name":"f"}}]}`, nil},
		{"missing comma", `{"model":"m" "x":1}`, InvalidJSON},
		{"missing colon", `{"model" "m"}`, InvalidJSON},
		{"comma at the end", `{"model":"m",}`, InvalidJSON},
		{"comma at the end of an array", `{"model":"m","x":[1,]}`, InvalidJSON},
		{"comma at the start", `{,"model":"m"}`, InvalidJSON},
		{"wrong bracket", `{"model":"m","x":[1}`, InvalidJSON},
		{"wrong bracket behind messages", `{"model":"m","messages":[1}`, InvalidJSON},
		{"key that is no string", `{model:"m"}`, InvalidJSON},
		{"single quotes", `{'model':'m'}`, InvalidJSON},
		{"comment", `{"model":"m"/**/}`, InvalidJSON},
		{"literal in capitals", `{"model":"m","x":True}`, InvalidJSON},
		{"literal cut short", `{"model":"m","x":nul}`, InvalidJSON},
		{"literal with more", `{"model":"m","x":nulll}`, InvalidJSON},
		{"NaN", `{"model":"m","x":NaN}`, InvalidJSON},
		{"plus sign", `{"model":"m","x":+1}`, InvalidJSON},
		{"leading zero", `{"model":"m","x":01}`, InvalidJSON},
		{"minus alone", `{"model":"m","x":-}`, InvalidJSON},
		{"point without digits", `{"model":"m","x":1.}`, InvalidJSON},
		{"digits without a number", `{"model":"m","x":.5}`, InvalidJSON},
		{"exponent without digits", `{"model":"m","x":1e+}`, InvalidJSON},
		{"hexadecimal", `{"model":"m","x":0x1}`, InvalidJSON},
		{"control character in a string", "{\"model\":\"m\n\"}", InvalidJSON},
		{"NUL in a string", "{\"model\":\"m\x00\"}", InvalidJSON},
		{"DEL in a string", "{\"model\":\"m\x7f\"}", nil},
		{"control character outside", "{\"model\":\"m\"\x00}", InvalidJSON},
		{"form feed outside", "{\"model\":\"m\"\f}", InvalidJSON},
		{"no-break space outside", "{\"model\":\"m\"\u00a0}", InvalidJSON},
		{"unknown escape", `{"model":"\x41"}`, InvalidJSON},
		{"escape cut short", `{"model":"\u00`, InvalidJSON},
		{"escape without digits", `{"model":"\u00g0"}`, InvalidJSON},
		{"unfinished string", `{"model":"m`, InvalidJSON},
		{"a backslash at the end", `{"model":"m\`, InvalidJSON},
		{"a key that is cut", `{"model":"m","x`, InvalidJSON},
		{"nothing behind the key", `{"model"`, InvalidJSON},
		{"a backslash before the quote", `{"model":"m\"}`, InvalidJSON},
		{"no UTF-8 in a string", "{\"model\":\"m\",\"x\":\"\xff\"}", nil},
		{"no UTF-8 outside", "{\"model\":\"m\"\xff}", InvalidJSON},
	}
	r := NewReader(DefaultOptions())
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, path := range []string{chatPath, "/v1/images/generations"} {
				var q Request
				if got := r.Read(path, header{}, []byte(test.body), &q); !errors.Is(got, test.want) {
					t.Errorf("%s: fault %v, want %v", path, got, test.want)
				}
				if test.want == nil && q.Model != "m" && !strings.HasPrefix(q.Model, "m\x7f") {
					t.Errorf("%s: model %q", path, q.Model)
				}
				if !errors.Is(test.want, InvalidJSON) {
					continue
				}
				if q.HasPrompt {
					t.Errorf("%s: a prompt was made of it", path)
				}
				for _, around := range []string{`{"model":"m","x":[{"y":%s}]}`, `{"model":"m","messages":[%s]}`, `{"model":"m","messages":[{"content":[[],%s]}]}`} {
					if test.body == bom || strings.TrimSpace(test.body) == "" {
						continue
					}
					if got := r.Read(path, header{}, fmt.Appendf(nil, around, test.body), &q); !errors.Is(got, InvalidJSON) {
						t.Errorf("%s: fault %v within %s", path, got, around)
					}
				}
			}
		})
	}
}

// TestStringErrors puts what a string must not have at every place of long ones,
// as they are looked at in blocks.
func TestStringErrors(t *testing.T) {
	r := NewReader(DefaultOptions())
	for _, bad := range []string{"\x01", "\x1f", "\n", `\x`, `\u12x4`, `\`} {
		for n := range 200 {
			body := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("x", n) + bad + strings.Repeat("y", 100)
			for _, end := range []string{`"}]}`, ``} {
				var q Request
				if got := r.Read(chatPath, header{}, []byte(body+end), &q); !errors.Is(got, InvalidJSON) && bad != `\` {
					t.Fatalf("%q after %d bytes: fault %v", bad, n, got)
				}
			}
			body = body[:len(body)-100] // the bad thing is last
			var q Request
			if got := r.Read(chatPath, header{}, []byte(body), &q); !errors.Is(got, InvalidJSON) {
				t.Fatalf("%q last after %d bytes: fault %v", bad, n, got)
			}
		}
	}
}

// TestReset drops buffers that are unusually large.
func TestReset(t *testing.T) {
	r := NewReader(DefaultOptions())
	large := `{"model":"m",` + strings.Repeat(`"model":"m",`, keepItems) + `"prompt":[` + strings.Repeat("1,", keepItems) + `1]}`
	h := header{"content-encoding": {"gzip"}}
	var q Request
	if err := r.Read("/v1/completions", h, compress(t, "gzip", large), &q); err != nil {
		t.Fatal(err)
	}
	if cap(q.ids) <= keepItems || cap(q.decoded) <= keepBytes || cap(q.ModelSpans) <= keepItems {
		t.Fatalf("%d ids, %d decoded bytes, %d places: not unusually large", cap(q.ids), cap(q.decoded), cap(q.ModelSpans))
	}
	q.Reset()
	if q.ids != nil || q.decoded != nil || cap(q.ModelSpans) > 0 {
		t.Errorf("kept: %d ids, %d decoded bytes, %d places", cap(q.ids), cap(q.decoded), cap(q.ModelSpans))
	}
}

// TestFaults are the faults that come before the body is looked at.
func TestFaults(t *testing.T) {
	opts := DefaultOptions()
	opts.BodyLimit = 20
	r := NewReader(opts)
	tests := []struct {
		name, path string
		h          header
		body       string
		want       Fault
	}{
		{"no body where one is needed", chatPath, nil, "", MissingBody},
		{"no body on /render", chatPath + "/render?x=1", nil, "", MissingBody},
		{"report 011: no body elsewhere", "/v1/files", nil, "", MissingModel},
		{"no body of an odd encoding", chatPath, header{"content-encoding": {"br"}}, "", MissingBody},
		{"report 008: too large", chatPath, nil, `{"model":"12345678"}x`, BodyTooLarge},
		{"a form in text", chatPath, header{"content-type": {"application/x-www-form-urlencoded"}}, `{"model":"m"}`, MissingModel},
		{"bytes", chatPath, header{"content-type": {"application/octet-stream"}}, `{"model":"m"}`, MissingModel},
		{"bytes that are no JSON", chatPath, header{"content-type": {"application/octet-stream"}}, `{`, MissingModel},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := header{"x-session-id": {"s"}, "x-pointsman-token-ids": {"1"}}
			for k, v := range test.h {
				h[k] = v
			}
			var q Request
			err := r.Read(test.path, h, []byte(test.body), &q)
			if !errors.Is(err, test.want) {
				t.Errorf("fault %v, want %v", err, test.want)
			}
			if q.Session != "s" || len(q.TokenIDs) != 1 || q.HasPrompt {
				t.Errorf("session %q, token ids %v, prompt %t: what could be read is s, [1], none", q.Session, q.TokenIDs, q.HasPrompt)
			}
		})
	}
	var q Request
	if err := r.Read(chatPath, header{}, []byte(`{"model":"1234567"}`), &q); err != nil {
		t.Errorf("a body just within the limit: %v", err)
	}
	for f := MissingBody; f <= MissingModel; f++ {
		if f.Error() == "" {
			t.Errorf("fault %d has no text", f)
		}
	}
}

func TestContentType(t *testing.T) {
	for value, want := range map[string]contentType{
		"":                                 jsonType,
		"application/json":                 jsonType,
		"Application/JSON; charset=utf-8":  jsonType,
		" application/json ;":              jsonType,
		"text/json":                        jsonType,
		"application/vnd.api+json":         jsonType,
		"multipart/form-data; boundary=x":  formType,
		"Multipart/Form-Data;boundary=\"x": formType,
		"multipart/mixed; boundary=x":      otherType,
		"text/plain":                       otherType,
		"application/jsonx":                otherType,
		"+json":                            otherType,
		"application/octet-stream":         otherType,
	} {
		if got := contentTypeOf(value); got != want {
			t.Errorf("%q: %d, want %d", value, got, want)
		}
	}
}

// TestPaths is case 356, reports 001 and 002, and the rule that the longest path wins.
func TestPaths(t *testing.T) {
	chat := `{"model":"m",` + user(`"hi"`) + `}`
	want := read(NewReader(DefaultOptions()), chatPath, header{}, []byte(chat))
	for _, path := range []string{
		"/v1/chat/completions/render", "/v1/chat/completions/", "/v1/chat/completions/render/", "/v1/chat/completions//",
		"/openai/v1/chat/completions", "//v1/chat/completions", "/v1/chat/completions?api-version=2024-10-21",
		"/v1/chat/completions/?x=1&x=/render", "/v1/chat/completions?", "https://h/v1/chat/completions",
	} {
		if !KnownPath(path) {
			t.Errorf("%s is not known", path)
		}
		if diff := cmp.Diff(want, read(NewReader(DefaultOptions()), path, header{}, []byte(chat))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	for path, want := range map[string]api{
		"/v1/messages":                      messagesAPI,
		"/v1/messages/count_tokens":         messagesAPI,
		"/v1/messages/count_tokens/render":  messagesAPI,
		"/v1/responses":                     responses,
		"/v1/completions":                   completions,
		"/v1/embeddings/":                   embeddings,
		"/inference/v1/generate":            generateTokens,
		"/proxy/inference/v1/generate":      generateTokens,
		"/v1/generate":                      generateText,
		"/generate":                         generateText,
		"/generate/render":                  generateText,
		"/regenerate":                       unlisted,
		"/v1/chat/completions/render/x":     unlisted,
		"/v1/chat/completions/rendered":     unlisted,
		"/V1/chat/completions":              unlisted,
		"/xv1/chat/completions":             unlisted,
		"/tokenize":                         unlisted,
		"/v1/rerank":                        unlisted,
		"/score":                            unlisted,
		"/render":                           unlisted,
		"/":                                 unlisted,
		"":                                  unlisted,
		"/v1/images/generations?/generate":  unlisted,
		"/v1/messages/count_tokens?beta=on": messagesAPI,
	} {
		p, _, _ := strings.Cut(path, "?")
		if got := apiOf(p); got != want {
			t.Errorf("%s: API %d, want %d", path, got, want)
		}
		if got := KnownPath(path); got != (want != unlisted) {
			t.Errorf("%s: known %t", path, got)
		}
	}
}

func TestFields(t *testing.T) {
	t.Run("path", func(t *testing.T) {
		var q Request
		_ = NewReader(DefaultOptions()).Read("/v1/x?a=b?c", header{}, []byte(`{"model":"m"}`), &q)
		if q.Path != "/v1/x" {
			t.Errorf("path %q", q.Path)
		}
	})
	t.Run("stream", func(t *testing.T) {
		for value, want := range map[string]bool{
			"true": true, "false": false, "null": false, `"true"`: false, "1": false, `false,"stream":true`: true, `true,"stream":false`: false,
		} {
			if got := prompted(t, chatPath, `"stream":`+value); got.Stream != want {
				t.Errorf("stream %s: %t", value, got.Stream)
			}
		}
	})
	t.Run("model with escapes", func(t *testing.T) {
		got := read(NewReader(DefaultOptions()), chatPath, header{}, []byte(`{"model":"a\/\ud83d\ude00\ud83d`+"\xff"+`"}`))
		if want := "a/😀\uFFFD\uFFFD"; got.Model != want {
			t.Errorf("model %q, want %q", got.Model, want)
		}
	})
}

// TestKVOff is the request's part of cases 353 and 354.
func TestKVOff(t *testing.T) {
	for members, want := range map[string]bool{
		`"x":1`:                            false,
		`"extra_key":"a"`:                  true,
		`"prompt_logprobs":1`:              true,
		`"prompt_logprobs":0`:              true,
		`"cache_salt":["a"]`:               true,
		`"cache_salt":5`:                   true,
		`"cache_salt":"a"`:                 false,
		`"features":{}`:                    true,
		`"content_parts":[]`:               true,
		`"extra_key":null`:                 false,
		`"prompt_logprobs":null`:           false,
		`"cache_salt":null`:                false,
		`"features":null`:                  false,
		`"content_parts":null`:             false,
		`"extra_key":"a","extra_key":null`: false,
		`"x":{"extra_key":"a"}`:            false,
	} {
		if got := prompted(t, "/inference/v1/generate", `"token_ids":[1],`+members); got.KVOff != want {
			t.Errorf("%s: no KV score %t, want %t", members, got.KVOff, want)
		}
	}
}

// TestReuse reads requests of every kind with one Request and holds each against a fresh one.
func TestReuse(t *testing.T) {
	r := NewReader(DefaultOptions())
	var q Request
	for round := range 2 {
		for i, seed := range seeds {
			for _, path := range fuzzPaths {
				for _, h := range []header{{}, {"x-session-id": {"s"}, "x-pointsman-token-ids": {"7,8"}}} {
					got := resultOf(r.Read(path, h, []byte(seed), &q), &q)
					if diff := cmp.Diff(read(r, path, h, []byte(seed)), got); diff != "" {
						t.Fatalf("round %d, seed %d on %s (-fresh +reused):\n%s", round, i, path, diff)
					}
				}
			}
		}
	}
	q.Reset()
	if diff := cmp.Diff(result{}, resultOf(nil, &q)); diff != "" {
		t.Errorf("after Reset (-want +got):\n%s", diff)
	}
}

// TestBodyReleased overwrites the body after the read: nothing may refer to it.
func TestBodyReleased(t *testing.T) {
	opts := DefaultOptions()
	opts.SessionBodyFields = []string{"user"}
	body := []byte(`{"model":"m","user":"u","cache_salt":"s","prompt":[1,2,3],"messages":[{"role":"user","content":"hi"}]}`)
	for _, path := range []string{chatPath, "/v1/completions", "/x"} {
		want := read(NewReader(opts), path, header{}, body)
		var q Request
		scratch := bytes.Clone(body)
		err := NewReader(opts).Read(path, header{}, scratch, &q)
		clear(scratch)
		if diff := cmp.Diff(want, resultOf(err, &q)); diff != "" {
			t.Errorf("%s, after the body was overwritten (-want +got):\n%s", path, diff)
		}
	}
}

// TestConcurrent shares one Reader.
func TestConcurrent(t *testing.T) {
	r := NewReader(DefaultOptions())
	var want []result
	for _, seed := range seeds {
		want = append(want, read(r, chatPath, header{}, []byte(seed)))
	}
	done := make(chan error)
	const readers = 4
	for range readers {
		go func() {
			var q Request
			for range 50 {
				for i, seed := range seeds {
					if diff := cmp.Diff(want[i], resultOf(r.Read(chatPath, header{}, []byte(seed), &q), &q)); diff != "" {
						done <- fmt.Errorf("seed %d (-alone +shared):\n%s", i, diff)
						return
					}
				}
			}
			done <- nil
		}()
	}
	for range readers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestAppendModel is the body's part of case 150 and of reports 014 and 019: what is not a model value
// stays as it was, byte for byte.
func TestAppendModel(t *testing.T) {
	r := NewReader(DefaultOptions())
	tests := []struct{ name, body, model, want string }{
		{
			"case 150: big numbers and odd order", `{ "seed":18446744073709551615,"b":9007199254740993 ,"model" : "m", "a":1e400}`, "up/x",
			`{ "seed":18446744073709551615,"b":9007199254740993 ,"model" : "up/x", "a":1e400}`,
		},
		{"every duplicate", `{"model":"a","x":1,"mod\u0065l":["b"],"model":"m"}`, "n", `{"model":"n","x":1,"mod\u0065l":"n","model":"n"}`},
		{"case 133: byte-order mark", bom + `{"model":"m"}`, "n", bom + `{"model":"n"}`},
		{"not further down", `{"x":{"model":"m"},"model":"m","y":"model"}`, "n", `{"x":{"model":"m"},"model":"n","y":"model"}`},
		{"to be quoted", `{"model":"m"}`, "a\"b\\c\n\x01é<\xff", `{"model":"a\"b\\c\u000a\u0001é<` + "\uFFFD" + `"}`},
		{"what is no character elsewhere", `{"x":"\ud83d` + "\xff" + `","model":"\ud83d"}`, "n", `{"x":"\ud83d` + "\xff" + `","model":"n"}`},
		{"to nothing", `{"model":"m"}`, "", `{"model":""}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var q Request
			_ = r.Read(chatPath, header{}, []byte(test.body), &q)
			got := q.AppendModel([]byte("before"), []byte(test.body), test.model)
			if string(got) != "before"+test.want {
				t.Errorf("got  %s\nwant %s", got, "before"+test.want)
			}
			if n := q.RewrittenLen(len(test.body), test.model); n != len(test.want) {
				t.Errorf("length %d, want %d", n, len(test.want))
			}
			if !json.Valid(bytes.TrimPrefix(got[len("before"):], []byte(bom))) {
				t.Error("it is not JSON any more")
			}
		})
	}
	t.Run("no model", func(t *testing.T) {
		var q Request
		if got := q.AppendModel(nil, []byte("xyz"), "n"); string(got) != "xyz" {
			t.Errorf("got %s", got)
		}
	})
}
