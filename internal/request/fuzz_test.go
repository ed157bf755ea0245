package request

import (
	"bytes"
	"encoding/json"
	"flag"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fuzzPaths are the paths that fuzzing chooses from: one per API, one that is unlisted.
var fuzzPaths = []string{
	"/v1/chat/completions", "/v1/messages?beta=true", "/openai/v1/responses", "/v1/completions/", "/v1/embeddings/render",
	"/inference/v1/generate", "/generate", "/v1/images/generations",
}

// seeds are bodies that reach every rule.
var seeds = []string{
	`{"model":"m","stream":true,"messages":[{"role":"user","content":"what is rust"}]}`,
	`{"model":"m","messages":[{"content":[{"type":"text","text":"look "},{"type":"image_url","image_url":{"url":"data:"}},"at this",5]},7,[8, 9],null,"x"]}`,
	`{"model":"m","messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"c","function":{"name":"sh","arguments":"{\"cmd\":\"ls\"}"}},{"id":"d"}]},{"role":"tool","output": [1, {"a" : 2}]},{"arguments":{"a":1,"\u0061":2}}]}`,
	`{"model":"m","system":[{"type":"text","text":"S"}],"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"text":"42"},{"x":1},3]},{"type":"tool_result","content":{"a": 1,"b":2,"a":3}},{"type":"tool_result"},{"type":"tool_use","input":{"q":1}},{"type":"tool_\u0075se"}]}]}`,
	`{"model":"m","instructions":"be kind","input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]},{"type":"function_call","arguments":"{}"},{"type":"function_call_output","output":"ok"},{"type":"reasoning","x":{"k":0,"k":1}}]}`,
	`{"mod\u0065l":"a","model":5,"model":"b","prompt":["a","b"],"input":"hi","text":null,"user":" u ","metadata":{"user_id":"w","user_id":7}}`,
	`{"model":"m","prompt":[1,2,3],"input":[[1,2],[3]],"token_ids":[4294967295],"input_ids":[[],[1]],"features":{"a": [1]},"content_parts":"p","cache_salt":"s"}`,
	`{"model":"m","prompt":[1,-2],"input":[1.0],"token_ids":[4294967296],"input_ids":[1,"x"],"cache_salt":["a"],"truncate_prompt_tokens":1,"session_id":"s"}`,
	"\xEF\xBB\xBF" + ` { "model" : "m" , "messages" : [ { "role" : "user" , "content" : "\ud83d \ude00 \ud83d\ude00 ` + "\xff\xfe 什么" + `" } ] } `,
	`{"model":"m"} x`, `{"model":"m",}`, `[1,]`, `{"a":01}`, `-0.5e+10`, `nul`, `"\x"`, `{"a":"` + "\n" + `"}`,
	`{"model":"m","messages":[{"z":{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9,"a":{"x":1,"x":2},"\u0062":11}},{"z":{"a":{"q":1,"q":2},"a":3}}]}`,
}

var fuzzFields = []string{"user", "session_id", "metadata.user_id", "prompt_cache_key"}

// FuzzRead holds every reading against encoding/json and the letter of the
// specification, with a tape so short that most arrays outgrow it.
func FuzzRead(f *testing.F) {
	for _, seed := range seeds {
		for path := range fuzzPaths {
			f.Add(uint8(path), []byte(seed))
		}
	}
	check := comparison()
	f.Fuzz(func(t *testing.T, path uint8, body []byte) {
		if len(body) > 0 {
			check(t, fuzzPaths[int(path)%len(fuzzPaths)], body)
		}
	})
}

// generated is how many bodies TestGenerated makes: a hundred take a second.
var generated = flag.Uint64("generated", 100, "bodies to make in TestGenerated")

// TestGenerated does the same with bodies that are requests.
func TestGenerated(t *testing.T) {
	check := comparison()
	for seed := range *generated {
		body := generate(seed)
		if !json.Valid(bytes.TrimPrefix(body, []byte(bom))) {
			t.Fatalf("the generator makes no JSON: %s", body)
		}
		for _, path := range fuzzPaths {
			check(t, path, body)
		}
	}
}

// comparison reads with roomy and with tight memory and holds both against the oracle.
func comparison() func(t *testing.T, path string, body []byte) {
	const maxText = 60
	opts := DefaultOptions()
	opts.MaxText = maxText
	opts.SessionBodyFields = fuzzFields
	roomy, tight := NewReader(opts), NewReader(opts)
	tight.room = 2
	var q Request // reused, as in production
	return func(t *testing.T, path string, body []byte) {
		want := oracle(path, fuzzFields, body, maxText)
		for _, r := range []*Reader{roomy, tight} {
			got := resultOf(r.Read(path, header{}, body, &q), &q)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s, room %d, body %q (-want +got):\n%s", path, r.room, body, diff)
			}
		}
		if len(want.Spans) == 0 {
			return
		}
		rewritten := q.AppendModel(nil, body, "other")
		again := oracle(path, fuzzFields, rewritten, maxText)
		if again.Model != "other" || len(again.Spans) != len(want.Spans) || len(rewritten) != q.RewrittenLen(len(body), "other") {
			t.Fatalf("rewritten to %q", rewritten)
		}
	}
}
