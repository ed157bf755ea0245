package enginesim

// messageShape is the shape of Anthropic's streams.
type messageShape struct{ id identity }

func (s *messageShape) appendOpening(dst []byte) []byte {
	start := newMessage(s.id, "", "", Usage{})
	start["content"], start["stop_reason"] = []object{}, nil
	dst = appendEvent(dst, "message_start", object{"type": "message_start", "message": start})
	return appendEvent(dst, "content_block_start", object{
		"type": "content_block_start", "index": 0, "content_block": object{"type": "text", "text": ""},
	})
}

func (s *messageShape) appendChunk(dst []byte, i int, _ string) []byte {
	return appendEvent(dst, "content_block_delta", object{
		"type": "content_block_delta", "index": 0, "delta": object{"type": "text_delta", "text": token(i)},
	})
}

func (s *messageShape) appendEnd(dst []byte, finish string, u Usage, _ bool) []byte {
	dst = appendEvent(dst, "content_block_stop", object{"type": "content_block_stop", "index": 0})
	dst = appendEvent(dst, "message_delta", object{
		"type": "message_delta", "delta": object{"stop_reason": stopReason(finish), "stop_sequence": nil}, "usage": messageUsage(u),
	})
	return appendEvent(dst, "message_stop", object{"type": "message_stop"})
}

func newMessage(id identity, text, finish string, u Usage) object {
	return object{
		"id": id.name("msg_"), "type": "message", "role": "assistant", "model": id.model,
		"content":     []object{{"type": "text", "text": text}},
		"stop_reason": stopReason(finish), "stop_sequence": nil, "usage": messageUsage(u),
	}
}

func stopReason(finish string) string {
	if finish == "length" {
		return "max_tokens"
	}
	return "end_turn"
}

// messageUsage counts as Anthropic does: what the cache held is no input.
func messageUsage(u Usage) object {
	cached := u.PromptDetails.CachedTokens
	return object{"input_tokens": u.PromptTokens - cached, "cache_read_input_tokens": cached, "output_tokens": u.CompletionTokens}
}

// responseShape is the shape of the streams of the Responses API.
type responseShape struct {
	id     identity
	number int // of the next event
	tokens int
}

func (s *responseShape) event(dst []byte, kind string, v object) []byte {
	v["type"], v["sequence_number"] = kind, s.number
	s.number++
	return appendEvent(dst, kind, v)
}

func (s *responseShape) appendOpening(dst []byte) []byte {
	begun := newResponse(s.id, "", Usage{})
	begun["status"], begun["output"], begun["usage"] = "in_progress", []object{}, nil
	dst = s.event(dst, "response.created", object{"response": begun})
	return s.event(dst, "response.output_item.added", object{
		"output_index": 0, "item": object{"id": s.id.name("msg_"), "type": "message", "role": "assistant", "status": "in_progress", "content": []object{}},
	})
}

func (s *responseShape) appendChunk(dst []byte, i int, _ string) []byte {
	s.tokens++
	return s.event(dst, "response.output_text.delta", object{
		"item_id": s.id.name("msg_"), "output_index": 0, "content_index": 0, "delta": token(i),
	})
}

func (s *responseShape) appendEnd(dst []byte, _ string, u Usage, _ bool) []byte {
	text := Text(s.tokens)
	dst = s.event(dst, "response.output_text.done", object{
		"item_id": s.id.name("msg_"), "output_index": 0, "content_index": 0, "text": text,
	})
	return s.event(dst, "response.completed", object{"response": newResponse(s.id, text, u)})
}

func newResponse(id identity, text string, u Usage) object {
	return object{
		"id": id.name("resp_"), "object": "response", "created_at": id.created.Unix(), "model": id.model, "status": "completed",
		"output": []object{{
			"id": id.name("msg_"), "type": "message", "role": "assistant", "status": "completed",
			"content": []object{{"type": "output_text", "text": text, "annotations": []object{}}},
		}},
		"usage": object{
			"input_tokens": u.PromptTokens, "input_tokens_details": object{"cached_tokens": u.PromptDetails.CachedTokens},
			"output_tokens": u.CompletionTokens, "total_tokens": u.TotalTokens,
		},
	}
}

// tokenShape is the shape of the streams of vLLM's token-in, token-out API.
type tokenShape struct{ id identity }

func (s *tokenShape) appendOpening(dst []byte) []byte { return dst }

func (s *tokenShape) appendChunk(dst []byte, i int, finish string) []byte {
	return appendEvent(dst, "", newTokens(s.id, i, i+1, finish))
}

func (s *tokenShape) appendEnd(dst []byte, _ string, _ Usage, _ bool) []byte { return appendDone(dst) }

// newTokens is the part of an answer in tokens from one token to another.
func newTokens(id identity, from, to int, finish string) object {
	ids := make([]int, 0, to-from)
	for i := from; i < to; i++ {
		ids = append(ids, i%len(words))
	}
	c := object{"index": 0, "token_ids": ids, "logprobs": nil, "finish_reason": nil}
	if finish != "" {
		c["finish_reason"] = finish
	}
	return object{"request_id": id.name("generate-tokens-"), "choices": []object{c}, "prompt_logprobs": nil}
}

// textShape is the shape of SGLang's own streams, of a server whose events hold what is
// new and not all so far.
type textShape struct{ id identity }

func (s *textShape) appendOpening(dst []byte) []byte { return dst }

func (s *textShape) appendChunk(dst []byte, i int, finish string) []byte {
	return appendEvent(dst, "", newText(s.id, i, i+1, finish, Usage{CompletionTokens: i + 1}))
}

func (s *textShape) appendEnd(dst []byte, _ string, _ Usage, _ bool) []byte { return appendDone(dst) }

func newText(id identity, from, to int, finish string, u Usage) object {
	var text []byte
	ids := make([]int, 0, to-from)
	for i := from; i < to; i++ {
		text = appendToken(text, i)
		ids = append(ids, i%len(words))
	}
	meta := object{
		"id": id.name(""), "finish_reason": nil, "prompt_tokens": u.PromptTokens,
		"completion_tokens": u.CompletionTokens, "cached_tokens": u.PromptDetails.CachedTokens,
	}
	if finish != "" {
		meta["finish_reason"] = object{"type": finish, "length": u.CompletionTokens}
	}
	return object{"text": string(text), "output_ids": ids, "meta_info": meta}
}
