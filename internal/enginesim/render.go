package enginesim

import (
	"encoding/binary"
	"encoding/json"
	"errors"
)

// render appends the text of the prompt as the engine would see it.
func (c *call) render(dst []byte, a api) ([]byte, error) {
	switch a {
	case completions:
		return renderPrompt(dst, c.Prompt)
	case embeddings:
		return renderPrompt(dst, c.Input)
	case generateTokens:
		return renderPrompt(dst, c.TokenIDs)
	case generateText:
		if len(c.Text) > 0 {
			return renderPrompt(dst, c.Text)
		}
		return renderPrompt(dst, c.InputIDs)
	case tokenize:
		if len(c.Prompt) > 0 {
			return renderPrompt(dst, c.Prompt)
		}
	case messages, countTokens:
		if len(c.System) > 0 {
			var system content
			if err := json.Unmarshal(c.System, &system); err != nil {
				return dst, err
			}
			dst = appendTurn(dst, "system", system)
		}
	case responses:
		return c.renderInput(dst)
	case rerank:
		if len(c.Query) == 0 || len(c.Documents) == 0 {
			return dst, errors.New("query or documents are missing")
		}
		return append(append(dst, c.Query...), c.Documents...), nil
	case score:
		if len(c.Text1) == 0 || len(c.Text2) == 0 {
			return dst, errors.New("text_1 or text_2 is missing")
		}
		return append(append(dst, c.Text1...), c.Text2...), nil
	case transcriptions, images:
		if len(c.form) > 0 {
			return append(dst, c.form...), nil
		}
		return renderPrompt(dst, c.Prompt)
	default:
	}
	if len(c.Messages) == 0 {
		return dst, errors.New("messages is missing or empty")
	}
	for i := range c.Messages {
		dst = appendTurn(dst, c.Messages[i].Role, c.Messages[i].Content)
		dst = append(dst, c.Messages[i].ToolCalls...)
	}
	return append(dst, "assistant: "...), nil
}

func appendTurn(dst []byte, role string, text content) []byte {
	dst = append(dst, role...)
	dst = append(dst, ": "...)
	dst = append(dst, text...)
	return append(dst, '\n')
}

// renderInput renders the input of a response: one turn, or items. An item that is no
// turn counts with its JSON.
func (c *call) renderInput(dst []byte) ([]byte, error) {
	if len(c.Instructions) > 0 {
		var instructions content
		if err := json.Unmarshal(c.Instructions, &instructions); err != nil {
			return dst, err
		}
		dst = appendTurn(dst, "system", instructions)
	}
	var text string
	if json.Unmarshal(c.Input, &text) == nil {
		dst = appendTurn(dst, "user", content(text))
		return append(dst, "assistant: "...), nil
	}
	var items []json.RawMessage
	if err := json.Unmarshal(c.Input, &items); err != nil || len(items) == 0 {
		return dst, errors.New("input is missing, or neither a string nor a list of items")
	}
	for _, raw := range items {
		var m message
		if json.Unmarshal(raw, &m) != nil || m.Role == "" {
			dst = append(append(dst, raw...), '\n')
			continue
		}
		dst = appendTurn(dst, m.Role, m.Content)
	}
	return append(dst, "assistant: "...), nil
}

// renderPrompt takes the forms of a prompt: a string, a list of token ids, of which each
// is written as one token of text, or a list of either. Nothing separates these: the
// engine runs them one after the other.
func renderPrompt(dst []byte, raw json.RawMessage) ([]byte, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return append(dst, text...), nil
	}
	var ids []uint32
	if json.Unmarshal(raw, &ids) == nil {
		return appendIDs(dst, ids), nil
	}
	var texts []string
	if json.Unmarshal(raw, &texts) == nil {
		for _, text := range texts {
			dst = append(dst, text...)
		}
		return dst, nil
	}
	var sequences [][]uint32
	if json.Unmarshal(raw, &sequences) == nil {
		for _, ids := range sequences {
			dst = appendIDs(dst, ids)
		}
		return dst, nil
	}
	return dst, errors.New("prompt is missing, or neither a string nor a list of token ids")
}

func appendIDs(dst []byte, ids []uint32) []byte {
	for _, id := range ids {
		dst = binary.LittleEndian.AppendUint32(dst, id)
	}
	return dst
}

// prompts is how many prompts a list holds, 1 for everything else.
func prompts(raw json.RawMessage) int {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || len(list) == 0 || list[0][0] != '"' && list[0][0] != '[' {
		return 1
	}
	return len(list)
}

// tokensOf are the ids of a rendered prompt: those that, as a prompt, render to it again.
func tokensOf(text []byte) []uint32 {
	ids := make([]uint32, 0, len(text)/BytesPerToken+1)
	for len(text) >= BytesPerToken {
		ids = append(ids, binary.LittleEndian.Uint32(text))
		text = text[BytesPerToken:]
	}
	if len(text) > 0 {
		var last [BytesPerToken]byte
		copy(last[:], text)
		ids = append(ids, binary.LittleEndian.Uint32(last[:]))
	}
	return ids
}
