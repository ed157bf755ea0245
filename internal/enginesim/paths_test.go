package enginesim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// formOf makes a form: fields in pairs of name and value, then a file of this content.
func formOf(t *testing.T, file string, fields ...string) (contentType, body string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i < len(fields); i += 2 {
		if err := w.WriteField(fields[i], fields[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if part, err := w.CreateFormFile("file", "a.wav"); err != nil {
		t.Fatal(err)
	} else if _, err := part.Write([]byte(file)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return w.FormDataContentType(), b.String()
}

// ask posts a body and gives the answer, which must have status 200.
func ask(t *testing.T, e *Engine, path, contentType, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	res, err := newClient(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	raw := readAllOf(t, res)
	if res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s", path, res.StatusCode, raw)
	}
	return raw
}

// Every path answers in its form, knows the model, and finds its prompt in the cache
// when it comes again.
func TestEveryPath(t *testing.T) {
	long := strings.Repeat("what is rust? ", 40) // some 140 tokens
	const jsonType = "application/json"
	tests := []struct {
		path, body string
		want       []string // pieces of the answer
		cached     string   // a piece of the second answer, "" = it does not tell
	}{
		{"/v1/messages", `{"model":"m","max_tokens":2,"system":[{"type":"text","text":"S"}],"messages":[{"role":"user","content":"LONG"}]}`,
			[]string{`"type":"message"`, `"text":"the quick"`, `"stop_reason":"max_tokens"`}, `"cache_read_input_tokens":1`},
		{"/v1/messages/count_tokens", `{"model":"m","messages":[{"role":"user","content":"LONG"}]}`, []string{`{"input_tokens":145}`}, ""},
		{"/v1/responses", `{"model":"m","max_output_tokens":2,"instructions":"S","input":"LONG"}`,
			[]string{`"object":"response"`, `"text":"the quick"`, `"status":"completed"`}, `"cached_tokens":1`},
		{"/v1/responses/", `{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"LONG"}]},{"type":"function_call_output","output":"x"}]}`,
			[]string{`"object":"response"`}, `"cached_tokens":1`},
		{"/v1/completions", `{"model":"m","prompt":["hi","LONG"],"max_tokens":2}`, []string{`"index":1`, `"completion_tokens":4`}, `"cached_tokens":1`},
		{"/v1/completions", `{"model":"m","prompt":[[1,2],[3]],"max_tokens":2}`, []string{`"index":1`, `"prompt_tokens":3`}, ""},
		{"/v1/embeddings", `{"model":"m","input":["hi","LONG"]}`, []string{`"object":"embedding"`, `"index":1`}, `"cached_tokens":1`},
		{"/v1/embeddings", `{"model":"m","input":[1,2,3]}`, []string{`"object":"list"`, `"prompt_tokens":3`}, ""},
		{"/inference/v1/generate", `{"model":"m","token_ids":[1,2,3],"sampling_params":{"max_tokens":3}}`, []string{`"token_ids":[0,1,2]`, `"finish_reason":"length"`}, ""},
		{"/generate", `{"text":"LONG","sampling_params":{"max_new_tokens":2}}`, []string{`"text":"the quick"`, `"type":"length"`}, `"cached_tokens":1`},
		{"/generate", `{"input_ids":[1,2,3]}`, []string{`"prompt_tokens":3`}, ""},
		{"/v1/chat/completions/render", `{"model":"m","messages":[{"role":"user","content":"hi"}],"cache_salt":"s"}`,
			[]string{`"token_ids":[1919251317,`, `"cache_salt":"s"`, `"model":"m"`}, ""},
		{"/v1/completions/render/", `{"model":"m","prompt":"hi"}`, []string{`[{"`, `"token_ids":[26984]`}, ""},
		{"/tokenize", `{"model":"m","prompt":"LONG"}`, []string{`"count":140`, `"max_model_len":`}, ""},
		{"/tokenize", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, []string{`"count":5`}, ""},
		{"/v1/rerank", `{"model":"m","query":"LONG","documents":["a",{"text":"b"}]}`, []string{`"results":[`, `"document":{"text":"b"}`}, ""},
		{"/score", `{"model":"m","text_1":"LONG","text_2":["a","b"]}`, []string{`"object":"score"`, `"index":1`}, `"cached_tokens":1`},
		{"/v1/images/generations", `{"model":"m","prompt":"a cat"}`, []string{`"b64_json":"`}, ""},
	}
	for _, test := range tests {
		t.Run(test.path, func(t *testing.T) {
			e := start(t, Options{})
			body := strings.ReplaceAll(test.body, "LONG", long)
			got := ask(t, e, test.path, jsonType, body)
			if !json.Valid([]byte(got)) {
				t.Errorf("no JSON: %s", got)
			}
			for _, piece := range test.want {
				if !strings.Contains(got, piece) {
					t.Errorf("%s is not in %.600s", piece, got)
				}
			}
			again := ask(t, e, test.path, jsonType, body)
			if test.cached != "" && (strings.Contains(got, test.cached) || !strings.Contains(again, test.cached)) {
				t.Errorf("%s: first %.300s, then %.300s", test.cached, got, again)
			}
			if last, _ := e.Last(); test.path != "/generate" && last.Model != "m" {
				t.Errorf("the last model is %q", last.Model)
			}
			if s := e.Stats(); s.Completed != 2 || s.InFlight != 0 {
				t.Errorf("stats: %+v", s)
			}
		})
	}
}

func TestForms(t *testing.T) {
	e := start(t, Options{Models: []string{"whisper"}, Output: 3})
	contentType, body := formOf(t, "RIFF", "model", "whisper")
	if got := ask(t, e, "/v1/audio/transcriptions", contentType, body); !strings.Contains(got, `"text":"the quick brown"`) {
		t.Errorf("transcription: %s", got)
	}
	if last, _ := e.Last(); last.Model != "whisper" {
		t.Errorf("model %q", last.Model)
	}
	contentType, body = formOf(t, "RIFF", "stream", "true", "model", "whisper")
	got := ask(t, e, "/v1/audio/transcriptions", contentType, body)
	if strings.Count(got, `"object":"transcription.chunk"`) != 3 || !strings.HasSuffix(got, "data: [DONE]\n\n") {
		t.Errorf("streamed transcription: %s", got)
	}
	contentType, body = formOf(t, "PNG", "model", "whisper", "prompt", "a cat")
	if got := ask(t, e, "/v1/images/edits", contentType, body); !strings.Contains(got, `"b64_json"`) {
		t.Errorf("image: %s", got)
	}
	for _, broken := range []string{body[:len(body)-10], "x"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.URL()+"/v1/images/edits", strings.NewReader(broken))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", contentType)
		res, err := newClient(t).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if raw := readAllOf(t, res); res.StatusCode != http.StatusBadRequest {
			t.Errorf("a broken form: %d %s", res.StatusCode, raw)
		}
	}
}

// The events of the streams that are not OpenAI's, in order, and their text.
func TestOtherStreams(t *testing.T) {
	e := start(t, Options{})
	for _, test := range []struct {
		path, body string
		events     string // names, those that repeat once
		text       string // a piece that only the text gives, per token
	}{
		{"/v1/messages", `{"model":"m","max_tokens":3,"stream":true,"messages":[{"role":"user","content":"hi"}]}`,
			"message_start content_block_start content_block_delta content_block_stop message_delta message_stop", `"text_delta"`},
		{"/v1/responses", `{"model":"m","max_output_tokens":3,"stream":true,"input":"hi"}`,
			"response.created response.output_item.added response.output_text.delta response.output_text.done response.completed", `"delta":"`},
		{"/inference/v1/generate", `{"token_ids":[1],"stream":true,"sampling_params":{"max_tokens":3}}`, "", `"token_ids":[`},
		{"/generate", `{"text":"hi","stream":true,"sampling_params":{"max_new_tokens":3}}`, "", `"output_ids":[`},
		{"/v1/completions", `{"prompt":["a","b","c"],"stream":true,"max_tokens":1}`, "", `"text":"the"`},
	} {
		raw := ask(t, e, test.path, "application/json", test.body)
		var events []string
		for line := range strings.Lines(raw) {
			if name, ok := strings.CutPrefix(line, "event: "); ok {
				if name = strings.TrimSpace(name); len(events) == 0 || events[len(events)-1] != name {
					events = append(events, name)
				}
			}
			if data, ok := strings.CutPrefix(line, "data: "); ok && strings.TrimSpace(data) != "[DONE]" && !json.Valid([]byte(data)) {
				t.Errorf("%s: no JSON: %s", test.path, line)
			}
		}
		if diff := cmp.Diff(test.events, strings.Join(events, " ")); diff != "" {
			t.Errorf("%s: events (-want +got):\n%s", test.path, diff)
		}
		if n := strings.Count(raw, test.text); n != 3 {
			t.Errorf("%s: %d tokens in\n%s", test.path, n, raw)
		}
	}
}

// A rendered prompt, posted as it is, is the prompt it was made of: the cache knows it.
func TestRenderedPrompt(t *testing.T) {
	e := start(t, Options{})
	body := fmt.Sprintf(`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":%q}]}`, strings.Repeat("x", 1000))
	rendered := ask(t, e, "/v1/chat/completions/render", "application/json", body)
	ask(t, e, "/v1/chat/completions", "application/json", body)
	ask(t, e, "/inference/v1/generate", "application/json", rendered)
	if s := e.Stats(); s.CachedTokens < 200 {
		t.Errorf("%d tokens were in the cache", s.CachedTokens)
	}
}

func TestAPIOf(t *testing.T) {
	for path, want := range map[string]api{
		"/v1/chat/completions": chat, "/openai/v1/chat/completions/": chat, "//v1/chat/completions": chat, "/v1/messages/render": messages,
		"/inference/v1/generate": generateTokens, "/generate": generateText, "/v1/score": score, "/v2/rerank": rerank,
		"/v1/messages/count_tokens": countTokens, "/v1/embeddings/render": unknownAPI, "/v1/other": unknownAPI, "/": unknownAPI, "/health": health,
	} {
		if got, _ := apiOf(path); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
}
