package enginesim

// whole is an answer of OpenAI's that is not streamed.
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

// newWhole makes the answer in one piece, with so many answers in it.
func newWhole(a api, id identity, answers int, finish string, u Usage) any {
	tokens := u.CompletionTokens / answers
	text := Text(tokens)
	switch a {
	case messages:
		return newMessage(id, text, finish, u)
	case responses:
		return newResponse(id, text, u)
	case generateTokens:
		return newTokens(id, 0, tokens, finish)
	case generateText:
		return newText(id, 0, tokens, finish, u)
	case transcriptions:
		return object{"text": text, "usage": object{"type": "duration", "seconds": 1}}
	default:
	}
	w := whole{ID: id.name("cmpl-"), Object: "text_completion", Created: id.created.Unix(), Model: id.model, Usage: u}
	if a == chat {
		w.ID, w.Object = id.name("chatcmpl-"), "chat.completion"
		w.Choices = []choice{{Message: &wholeMessage{Role: "assistant", Content: text}, FinishReason: finish}}
		return w
	}
	for i := range answers {
		w.Choices = append(w.Choices, choice{Index: i, Text: &text, FinishReason: finish})
	}
	return w
}
