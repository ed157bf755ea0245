package enginesim

import (
	"encoding/json"
	"net/http"
	"time"
)

// maxModelLen is the longest prompt that the engine says it takes, in tokens.
const maxModelLen = 1 << 20

// onePixel is the picture that every request for one gets.
const onePixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="

// work answers a request whose answer is no text: one that goes through the model like
// a prompt, or one that is answered from the prompt alone.
func (e *Engine) work(w http.ResponseWriter, r *http.Request, c *call, a api, render bool, number int64, f *Fault) error {
	if !e.serves(w, c.Model) {
		return nil
	}
	text, err := c.render(nil, a)
	if err != nil {
		writeError(w, http.StatusBadRequest, "BadRequestError", err.Error())
		return nil
	}
	if len(text) == 0 {
		writeError(w, http.StatusBadRequest, "BadRequestError", "prompt is empty")
		return nil
	}
	p := c.measure(text, e.opts.BlockTokens)
	cached := 0
	if a.computes() {
		place, err := e.compute.batch.join()
		if err != nil {
			e.seen.count(func(s *Stats) { s.Refused++ })
			writeError(w, http.StatusServiceUnavailable, "ServiceUnavailableError", "The request queue is full.")
			return nil
		}
		if place.wait(r.Context()) != nil {
			return errLeft
		}
		defer place.leave()
		if cached, _, err = e.compute.prefill(r.Context(), p, f); err != nil {
			return errLeft
		}
		e.seen.count(func(s *Stats) {
			s.PromptTokens += int64(p.tokens)
			s.CachedTokens += int64(cached)
		})
	}
	id := identity{number, c.Model, time.Now()}
	if render {
		writeJSON(w, http.StatusOK, rendered(c, a, id, text))
	} else {
		writeJSON(w, http.StatusOK, c.result(a, id, text, newUsage(p.tokens, cached, 0)))
	}
	e.seen.count(func(s *Stats) { s.Completed++ })
	return nil
}

// rendered is a prompt as /inference/v1/generate takes it; completions give a list.
func rendered(c *call, a api, id identity, text []byte) any {
	v := object{
		"request_id": id.name("render-"), "token_ids": tokensOf(text), "token_offsets": nil, "features": nil,
		"sampling_params": object{}, "model": c.Model, "stream": c.Stream, "cache_salt": nil, "priority": 0,
	}
	if c.CacheSalt != "" {
		v["cache_salt"] = c.CacheSalt
	}
	if a == completions {
		return []object{v}
	}
	return v
}

// result is the answer to a request that generates nothing.
func (c *call) result(a api, id identity, text []byte, u Usage) any {
	switch a {
	case embeddings:
		data := []object{}
		for i := range prompts(c.Input) {
			data = append(data, object{"object": "embedding", "index": i, "embedding": []float64{0.6, 0, -0.8}})
		}
		return object{"id": id.name("embd-"), "object": "list", "created": id.created.Unix(), "model": c.Model, "data": data, "usage": u}
	case rerank:
		var documents []json.RawMessage
		_ = json.Unmarshal(c.Documents, &documents) // what is no list has no results
		results := []object{}
		for i, d := range documents {
			results = append(results, object{"index": i, "document": d, "relevance_score": 1 / float64(i+2)})
		}
		return object{"id": id.name("rerank-"), "model": c.Model, "results": results, "usage": object{"total_tokens": u.TotalTokens}}
	case score:
		data := []object{}
		for i := range prompts(c.Text2) {
			data = append(data, object{"index": i, "object": "score", "score": 1 / float64(i+2)})
		}
		return object{"id": id.name("score-"), "object": "list", "created": id.created.Unix(), "model": c.Model, "data": data, "usage": u}
	case countTokens:
		return object{"input_tokens": u.PromptTokens}
	case tokenize:
		return object{"count": u.PromptTokens, "max_model_len": maxModelLen, "tokens": tokensOf(text), "token_strs": nil}
	default:
		return object{"created": id.created.Unix(), "data": []object{{"b64_json": onePixel}}}
	}
}
