package extproc

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/pointsman/pointsman/internal/ledger"
	"github.com/pointsman/pointsman/internal/wire"
)

// modelsDetail is the response-code detail of an answer about models.
const modelsDetail = wire.DetailPrefix + "models"

// model is one element of the list of models, in the form of the OpenAI API.
type model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

func newModel(id string, created int64) model {
	return model{ID: id, Object: "model", Created: created, OwnedBy: "pointsman"}
}

// modelsPath tells whether a path (with query) asks for the list of models, id "",
// or for one of them.
func modelsPath(path string) (id string, ok bool) {
	path, _, _ = strings.Cut(path, "?")
	rest, ok := strings.CutPrefix(path, "/v1/models")
	if !ok || rest == "" {
		return "", ok
	}
	return strings.CutPrefix(rest, "/")
}

// models answers from the snapshot in force, without an engine.
func (c *conversation) models(id string) *extprocv3.ProcessingResponse {
	p := c.server.preparedFor(c.server.opts.Router.Snapshot())
	body := p.models
	if id != "" {
		name, ok := p.modelName(id)
		if !ok {
			return c.refuse(wire.ErrModelNotFound, "", "the model does not exist", 0)
		}
		body = mustJSON(newModel(name, c.server.opts.Start.Unix()))
	}
	c.phase = decided
	c.server.opts.Ledger.Refused(ledger.Answer{Status: http.StatusOK})
	return &extprocv3.ProcessingResponse{Response: immediate(http.StatusOK, body, modelsDetail)}
}

// modelName finds the model that the last part of a path names, as it stands there or
// escaped.
func (p *prepared) modelName(id string) (string, bool) {
	if p.snapshot.Pool(id) != nil {
		return id, true
	}
	id, err := url.PathUnescape(id)
	return id, err == nil && p.snapshot.Pool(id) != nil
}

// mustJSON encodes structs of strings and numbers, which cannot fail.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
