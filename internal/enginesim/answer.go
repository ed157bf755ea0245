package enginesim

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// Usage is the count of tokens in an answer.
type Usage struct {
	PromptTokens     int           `json:"prompt_tokens"`
	TotalTokens      int           `json:"total_tokens"`
	CompletionTokens int           `json:"completion_tokens"`
	PromptDetails    PromptDetails `json:"prompt_tokens_details"`
}

// PromptDetails says how many tokens of the prompt the prefix cache held.
type PromptDetails struct {
	CachedTokens int `json:"cached_tokens"`
}

func newUsage(prompt, cached, completion int) Usage {
	return Usage{
		PromptTokens:     prompt,
		TotalTokens:      prompt + completion,
		CompletionTokens: completion,
		PromptDetails:    PromptDetails{CachedTokens: cached},
	}
}

// words is what answers consist of: token i of every answer is words[i % len],
// with a blank before all but the first.
var words = [...]string{
	"the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "while",
	"many", "small", "birds", "sing", "in", "green", "trees", "beside", "old", "rivers",
}

// Text is the text of an answer of so many tokens.
func Text(tokens int) string {
	var text []byte
	for i := range tokens {
		text = appendToken(text, i)
	}
	return string(text)
}

func appendToken(dst []byte, i int) []byte {
	if i > 0 {
		dst = append(dst, ' ')
	}
	return append(dst, words[i%len(words)]...)
}

// shape is the JSON around the tokens of one answer. What is the same in every
// chunk is made once.
type shape struct {
	dialect dialect
	head    []byte // a chunk up to its choices
}

// newShape makes the shape of the answer with this number.
func newShape(d dialect, number int64, model string, created time.Time) *shape {
	quoted, _ := json.Marshal(model) // a string is always encoded
	s := &shape{dialect: d}
	prefix, object := "cmpl-", "text_completion"
	if d == chat {
		prefix, object = "chatcmpl-", "chat.completion.chunk"
	}
	b := []byte(`data: {"id":"`)
	b = append(b, prefix...)
	b = strconv.AppendInt(b, number, 10)
	b = append(b, `","object":"`...)
	b = append(b, object...)
	b = append(b, `","created":`...)
	b = strconv.AppendInt(b, created.Unix(), 10)
	b = append(b, `,"model":`...)
	b = append(b, quoted...)
	b = append(b, `,"choices":[`...)
	s.head = b
	return s
}

// appendOpening appends the chunk that comes with the first token and holds no text.
func (s *shape) appendOpening(dst []byte) []byte {
	if s.dialect != chat {
		return dst
	}
	dst = append(dst, s.head...)
	return append(dst, `{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}`+"\n\n"...)
}

// appendChunk appends the event of token i; finish is "" for all but the last.
func (s *shape) appendChunk(dst []byte, i int, finish string) []byte {
	dst = append(dst, s.head...)
	if s.dialect == chat {
		dst = append(dst, `{"index":0,"delta":{"content":"`...)
		dst = appendToken(dst, i)
		dst = append(dst, `"},"logprobs":null,"finish_reason":`...)
	} else {
		dst = append(dst, `{"index":0,"text":"`...)
		dst = appendToken(dst, i)
		dst = append(dst, `","logprobs":null,"finish_reason":`...)
	}
	if finish == "" {
		dst = append(dst, "null"...)
	} else {
		dst = append(dst, '"')
		dst = append(dst, finish...)
		dst = append(dst, '"')
	}
	return append(dst, "}]}\n\n"...)
}

// appendUsage appends the event that ends a stream with include_usage.
func (s *shape) appendUsage(dst []byte, u Usage) []byte {
	dst = append(dst, s.head...)
	dst = append(dst, `],"usage":`...)
	usage, _ := json.Marshal(u) // a struct of numbers is always encoded
	dst = append(dst, usage...)
	return append(dst, "}\n\n"...)
}

// appendDone appends the event after which nothing follows.
func appendDone(dst []byte) []byte { return append(dst, "data: [DONE]\n\n"...) }

// whole is an answer that is not streamed.
type whole struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   Usage    `json:"usage"`
}

type choice struct {
	Index        int           `json:"index"`
	Message      *wholeMessage `json:"message,omitempty"`
	Text         *string       `json:"text,omitempty"`
	Logprobs     *struct{}     `json:"logprobs"`
	FinishReason string        `json:"finish_reason"`
}

type wholeMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// newWhole makes the whole answer with this number.
func newWhole(d dialect, number int64, model string, created time.Time, finish string, u Usage) whole {
	w := whole{ID: "cmpl-", Object: "text_completion", Created: created.Unix(), Model: model, Usage: u}
	c := choice{FinishReason: finish}
	text := Text(u.CompletionTokens)
	if d == chat {
		w.ID, w.Object = "chatcmpl-", "chat.completion"
		c.Message = &wholeMessage{Role: "assistant", Content: text}
	} else {
		c.Text = &text
	}
	w.ID += strconv.FormatInt(number, 10)
	w.Choices = []choice{c}
	return w
}

// modelList is the answer to GET /v1/models.
type modelList struct {
	Object string      `json:"object"`
	Data   []modelCard `json:"data"`
}

type modelCard struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

// writeError answers with the JSON of an engine's error.
func writeError(w http.ResponseWriter, status int, kind, message string) {
	writeJSON(w, status, map[string]any{"error": map[string]any{
		"message": message, "type": kind, "param": nil, "code": status,
	}})
}

// writeJSON answers with a JSON value of ours.
func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil { // no value of this package is refused
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may be gone
}
