package request

import "strings"

// api is what a request path says about the body.
type api uint8

const (
	unlisted api = iota
	chatCompletions
	messagesAPI
	responses
	completions
	embeddings
	generateTokens // of vLLM
	generateText   // of SGLang
)

// apis are the paths whose prompt can be read, in an order in which the first
// match is the longest. All begin with a slash, so a match is one of whole segments.
var apis = [...]struct {
	path string
	api  api
}{
	{"/v1/messages/count_tokens", messagesAPI},
	{"/v1/chat/completions", chatCompletions},
	{"/inference/v1/generate", generateTokens},
	{"/v1/completions", completions},
	{"/v1/embeddings", embeddings},
	{"/v1/responses", responses},
	{"/v1/messages", messagesAPI},
	{"/generate", generateText},
}

// apiOf finds the API of a path without query. Slashes at its end mean nothing.
func apiOf(path string) api {
	path = strings.TrimRight(path, "/")
	path = strings.TrimSuffix(path, "/render")
	for _, a := range &apis {
		if strings.HasSuffix(path, a.path) {
			return a.api
		}
	}
	return unlisted
}

// KnownPath tells whether the prompt of requests with this path (with or without
// query) can be read. Such a request needs a body.
func KnownPath(path string) bool {
	path, _, _ = strings.Cut(path, "?")
	return apiOf(path) != unlisted
}

// withoutBody is what is wrong with a request that has no body.
func (a api) withoutBody() Fault {
	if a == unlisted {
		return MissingModel
	}
	return MissingBody
}

// shapeOf is what is recorded of a top-level member.
func (a api) shapeOf(k key) shape {
	switch k {
	case keyMetadata:
		return metadata
	case keyMessages:
		if a == chatCompletions || a == messagesAPI {
			return items
		}
	case keySystem:
		if a == messagesAPI {
			return parts
		}
	case keyInstructions:
		if a == responses {
			return parts
		}
	case keyInput:
		switch a {
		case responses:
			return items
		case embeddings:
			return list
		}
	case keyPrompt:
		if a == completions {
			return list
		}
	case keyText, keyInputIDs:
		if a == generateText {
			return list
		}
	case keyTokenIDs:
		if a == generateTokens {
			return list
		}
	}
	return leaf
}
