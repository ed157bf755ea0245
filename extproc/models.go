package extproc

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/pointsman/pointsman/internal/ledger"
	"github.com/pointsman/pointsman/internal/routing"
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
func (c *conversation) models(snapshot *routing.Snapshot, id string) *extprocv3.ProcessingResponse {
	created := c.server.opts.Start.Unix()
	var body []byte
	if id == "" {
		list := struct {
			Object string  `json:"object"`
			Data   []model `json:"data"`
		}{Object: "list", Data: []model{}}
		for _, id := range snapshot.Models(c.caller) {
			list.Data = append(list.Data, newModel(id, created))
		}
		body = mustJSON(list)
	} else {
		name, ok := modelName(snapshot, id, c.caller)
		if !ok {
			return c.refuse(wire.ErrModelNotFound, "", "the model does not exist", 0)
		}
		body = mustJSON(newModel(name, created))
	}
	c.phase = decided
	c.server.opts.Ledger.Refused(ledger.Answer{Status: http.StatusOK})
	return &extprocv3.ProcessingResponse{Response: immediate(http.StatusOK, body, modelsDetail)}
}

// modelName finds the model that the last part of a path names, as it stands there or
// escaped.
func modelName(snapshot *routing.Snapshot, id, caller string) (string, bool) {
	if snapshot.HasModel(id, caller) {
		return id, true
	}
	id, err := url.PathUnescape(id)
	return id, err == nil && snapshot.HasModel(id, caller)
}

// mustJSON encodes structs of strings and numbers, which cannot fail.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
