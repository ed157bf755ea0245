package enginesim

import "strings"

// api is what a path of the engine does.
type api uint8

const (
	unknownAPI api = iota
	models
	health

	chat
	completions
	messages
	responses
	generateTokens // of vLLM
	generateText   // of SGLang
	transcriptions

	embeddings
	rerank
	score

	countTokens
	tokenize
	images
)

// apis are the paths, in an order in which the first match is the longest. Any
// prefix may stand before them, as engines have it behind a root path.
var apis = [...]struct {
	path    string
	api     api
	renders bool // the prompt may be asked for, with /render behind the path
}{
	{"/v1/messages/count_tokens", countTokens, false},
	{"/v1/audio/transcriptions", transcriptions, false},
	{"/v1/audio/translations", transcriptions, false},
	{"/v1/images/generations", images, false},
	{"/v1/chat/completions", chat, true},
	{"/inference/v1/generate", generateTokens, false},
	{"/v1/images/variations", images, false},
	{"/v1/images/edits", images, false},
	{"/v1/completions", completions, true},
	{"/v1/embeddings", embeddings, false},
	{"/v1/responses", responses, true},
	{"/v1/messages", messages, true},
	{"/v1/models", models, false},
	{"/tokenize", tokenize, false},
	{"/generate", generateText, false},
	{"/rerank", rerank, false},
	{"/health", health, false},
	{"/score", score, false},
}

// apiOf finds the API of a path. Slashes at its end mean nothing.
func apiOf(path string) (a api, render bool) {
	path, render = strings.CutSuffix(strings.TrimRight(path, "/"), "/render")
	for i := range apis {
		if p := &apis[i]; strings.HasSuffix(path, p.path) && (p.renders || !render) {
			return p.api, render
		}
	}
	return unknownAPI, false
}

// posts says that requests have a body that names a model.
func (a api) posts() bool { return a >= chat }

// generates says that the answer is made of tokens, and may be a stream.
func (a api) generates() bool { return a >= chat && a <= transcriptions }

// computes says that the prompt goes through the model, though the answer is no text.
func (a api) computes() bool { return a >= embeddings && a <= score }
