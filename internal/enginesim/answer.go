package enginesim

import (
	"encoding/json"
	"net/http"
	"strconv"
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
