package enginesim

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/zeebo/xxh3"
)

// call is what is read from the body of a request that generates.
type call struct {
	Model               string          `json:"model"`
	Messages            []message       `json:"messages"`
	Prompt              json.RawMessage `json:"prompt"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	Stream              bool            `json:"stream"`
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	CacheSalt string `json:"cache_salt"`
}

// message is one turn of a conversation.
type message struct {
	Role    string  `json:"role"`
	Content content `json:"content"`
}

// content is the text of a message: a string, or the texts of a list of parts.
// A part that is no text (an image) counts with its JSON.
type content string

// UnmarshalJSON reads either form.
func (c *content) UnmarshalJSON(raw []byte) error {
	switch raw[0] {
	case '"':
		// Most of the work for a long prompt would be to read it a second time.
		if plain := raw[1 : len(raw)-1]; bytes.IndexByte(plain, '\\') < 0 && utf8.Valid(plain) {
			*c = content(plain)
			return nil
		}
		return json.Unmarshal(raw, (*string)(c))
	case 'n': // null, as in a message that only calls a tool
		return nil
	case '[':
	default:
		return errors.New("content is neither a string nor a list of parts")
	}
	var parts []json.RawMessage
	if err := json.Unmarshal(raw, &parts); err != nil {
		return err
	}
	var text []byte
	for _, raw := range parts {
		var part struct {
			Text *string `json:"text"`
		}
		if err := json.Unmarshal(raw, &part); err != nil {
			return err
		}
		if part.Text == nil {
			text = append(text, raw...)
			continue
		}
		text = append(text, *part.Text...)
	}
	*c = content(text)
	return nil
}

// prompt is what a request costs.
type prompt struct {
	tokens int
	blocks []uint64 // hashes of its whole blocks
}

// dialect is which of the two APIs a request speaks.
type dialect uint8

const (
	chat dialect = iota
	completions
)

// render appends the text of the prompt as the engine would see it.
func (c *call) render(dst []byte, d dialect) ([]byte, error) {
	if d == completions {
		return renderPrompt(dst, c.Prompt)
	}
	if len(c.Messages) == 0 {
		return dst, errors.New("messages is missing or empty")
	}
	for i := range c.Messages {
		dst = append(dst, c.Messages[i].Role...)
		dst = append(dst, ": "...)
		dst = append(dst, c.Messages[i].Content...)
		dst = append(dst, '\n')
	}
	return append(dst, "assistant: "...), nil
}

// renderPrompt takes the forms of a completion's prompt: a string, a list of one
// string, or a list of token ids, of which each is written as one token of text.
func renderPrompt(dst []byte, raw json.RawMessage) ([]byte, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return append(dst, text...), nil
	}
	var texts []string
	if json.Unmarshal(raw, &texts) == nil {
		if len(texts) != 1 {
			return dst, fmt.Errorf("a list of %d prompts: this engine takes one at a time", len(texts))
		}
		return append(dst, texts[0]...), nil
	}
	var ids []uint32
	if json.Unmarshal(raw, &ids) == nil {
		for _, id := range ids {
			dst = binary.LittleEndian.AppendUint32(dst, id)
		}
		return dst, nil
	}
	return dst, errors.New("prompt is missing, or neither a string nor a list of token ids")
}

// measure counts the tokens of a rendered prompt and hashes its blocks. Prompts
// of different models or cache salts share no block.
func (c *call) measure(text []byte, blockTokens int) *prompt {
	blockBytes := blockTokens * BytesPerToken
	seed := xxh3.HashString(c.Model) ^ xxh3.HashStringSeed(c.CacheSalt, 1)
	return &prompt{
		tokens: (len(text) + BytesPerToken - 1) / BytesPerToken,
		blocks: chain(make([]uint64, 0, len(text)/blockBytes), seed, text, blockBytes),
	}
}

// output is the number of tokens of the answer and why it ends there.
func (c *call) output(def int) (tokens int, finish string, err error) {
	limit := c.MaxTokens
	if c.MaxCompletionTokens != nil {
		limit = c.MaxCompletionTokens
	}
	switch {
	case limit == nil:
		return def, "stop", nil
	case *limit < 1 || *limit > maxOutput:
		return 0, "", fmt.Errorf("max_tokens must be between 1 and %d, got %d", maxOutput, *limit)
	default:
		return *limit, "length", nil
	}
}
