package enginesim

import (
	"bytes"
	"cmp"
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

	System          json.RawMessage `json:"system"`
	Instructions    json.RawMessage `json:"instructions"`
	Input           json.RawMessage `json:"input"`
	MaxOutputTokens *int            `json:"max_output_tokens"`
	TokenIDs        json.RawMessage `json:"token_ids"`
	Text            json.RawMessage `json:"text"`
	InputIDs        json.RawMessage `json:"input_ids"`
	SamplingParams  json.RawMessage `json:"sampling_params"`
	Query           json.RawMessage `json:"query"`
	Documents       json.RawMessage `json:"documents"`
	Text1           json.RawMessage `json:"text_1"`
	Text2           json.RawMessage `json:"text_2"`

	form []byte // what a form says beside model and stream
}

// message is one turn of a conversation.
type message struct {
	Role      string          `json:"role"`
	Content   content         `json:"content"`
	ToolCalls json.RawMessage `json:"tool_calls"`
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
		if raw[0] == '"' {
			var plain string
			if err := json.Unmarshal(raw, &plain); err != nil {
				return err
			}
			text = append(text, plain...)
			continue
		}
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
	limit := cmp.Or(c.MaxCompletionTokens, c.MaxOutputTokens, c.MaxTokens)
	if len(c.SamplingParams) > 0 {
		var params struct {
			MaxTokens    *int `json:"max_tokens"`
			MaxNewTokens *int `json:"max_new_tokens"`
		}
		if err := json.Unmarshal(c.SamplingParams, &params); err != nil {
			return 0, "", fmt.Errorf("sampling_params: %w", err)
		}
		limit = cmp.Or(limit, params.MaxTokens, params.MaxNewTokens)
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
