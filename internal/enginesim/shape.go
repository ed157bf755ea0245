package enginesim

import (
	"encoding/json"
	"strconv"
	"time"
)

// identity is what an answer says of itself.
type identity struct {
	number  int64
	model   string
	created time.Time
}

func (id identity) name(prefix string) string { return prefix + strconv.FormatInt(id.number, 10) }

// shape is the JSON around the tokens of one streamed answer.
type shape interface {
	// appendOpening appends what comes with the first token and holds no text.
	appendOpening(dst []byte) []byte
	// appendChunk appends the event of token i; finish is "" for all but the last.
	appendChunk(dst []byte, i int, finish string) []byte
	// appendEnd appends what follows the last token.
	appendEnd(dst []byte, finish string, u Usage, withUsage bool) []byte
}

// newShape makes the shape of a stream with so many answers.
func newShape(a api, id identity, answers int) shape {
	switch a {
	case messages:
		return &messageShape{id: id}
	case responses:
		return &responseShape{id: id}
	case generateTokens:
		return &tokenShape{id: id}
	case generateText:
		return &textShape{id: id}
	case transcriptions:
		return newChunks(a, "trsc-", "transcription.chunk", id, 1)
	case chat:
		return newChunks(a, "chatcmpl-", "chat.completion.chunk", id, 1)
	default:
		return newChunks(a, "cmpl-", "text_completion", id, answers)
	}
}

// chunks is the shape of OpenAI's streams. What is the same in every chunk is made once.
type chunks struct {
	api     api
	answers int
	head    []byte // a chunk up to its choices
}

func newChunks(a api, prefix, object string, id identity, answers int) *chunks {
	quoted, _ := json.Marshal(id.model) // a string is always encoded
	b := []byte(`data: {"id":"`)
	b = append(b, id.name(prefix)...)
	b = append(b, `","object":"`...)
	b = append(b, object...)
	b = append(b, `","created":`...)
	b = strconv.AppendInt(b, id.created.Unix(), 10)
	b = append(b, `,"model":`...)
	b = append(b, quoted...)
	b = append(b, `,"choices":[`...)
	return &chunks{api: a, answers: answers, head: b}
}

func (s *chunks) appendOpening(dst []byte) []byte {
	if s.api != chat {
		return dst
	}
	dst = append(dst, s.head...)
	return append(dst, `{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}`+"\n\n"...)
}

func (s *chunks) appendChunk(dst []byte, i int, finish string) []byte {
	for answer := range s.answers {
		dst = append(dst, s.head...)
		dst = append(dst, `{"index":`...)
		dst = strconv.AppendInt(dst, int64(answer), 10)
		if s.api == completions {
			dst = append(dst, `,"text":"`...)
			dst = appendToken(dst, i)
			dst = append(dst, `","logprobs":null,"finish_reason":`...)
		} else {
			dst = append(dst, `,"delta":{"content":"`...)
			dst = appendToken(dst, i)
			dst = append(dst, `"},"logprobs":null,"finish_reason":`...)
		}
		if finish == "" {
			dst = append(dst, "null"...)
		} else {
			dst = append(dst, '"')
			dst = append(dst, finish...)
			dst = append(dst, '"')
		}
		dst = append(dst, "}]}\n\n"...)
	}
	return dst
}

func (s *chunks) appendEnd(dst []byte, _ string, u Usage, withUsage bool) []byte {
	if withUsage {
		dst = append(dst, s.head...)
		dst = append(dst, `],"usage":`...)
		usage, _ := json.Marshal(u) // a struct of numbers is always encoded
		dst = append(dst, usage...)
		dst = append(dst, "}\n\n"...)
	}
	return appendDone(dst)
}

// appendDone appends the event after which nothing follows.
func appendDone(dst []byte) []byte { return append(dst, "data: [DONE]\n\n"...) }

// object is a JSON object of an answer.
type object = map[string]any

// appendEvent appends an event with a value of ours, which is always encoded; name may be "".
func appendEvent(dst []byte, name string, v any) []byte {
	if name != "" {
		dst = append(dst, "event: "...)
		dst = append(dst, name...)
		dst = append(dst, '\n')
	}
	data, _ := json.Marshal(v)
	dst = append(dst, "data: "...)
	dst = append(dst, data...)
	return append(dst, "\n\n"...)
}

// token is token i as text.
func token(i int) string { return string(appendToken(nil, i)) }
