package enginesim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
)

// maxControlBody bounds a list of faults.
const maxControlBody = 1 << 20

// routes are the paths under /sim of the engine's own port. They are neither counted
// nor struck by faults.
func (e *Engine) routes() http.Handler {
	mux := http.NewServeMux()
	e.handle(mux, "/sim")
	mux.HandleFunc("POST /sim/kill", func(w http.ResponseWriter, r *http.Request) {
		// The connection that asks gets its answer and is closed in good order.
		conn, _ := r.Context().Value(connKey{}).(net.Conn)
		e.kill(conn)
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusOK)
	})
	return mux
}

// handle registers what both the engine and Control offer.
func (e *Engine) handle(mux *http.ServeMux, prefix string) {
	mux.HandleFunc("GET "+prefix+"/stats", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, e.Stats())
	})
	mux.HandleFunc("GET "+prefix+"/last", func(w http.ResponseWriter, _ *http.Request) {
		last, ok := e.Last()
		if !ok {
			writeError(w, http.StatusNotFound, "NotFoundError", "no request yet")
			return
		}
		writeJSON(w, http.StatusOK, last)
	})
	mux.HandleFunc("POST "+prefix+"/reset", func(w http.ResponseWriter, _ *http.Request) {
		e.Reset()
		w.WriteHeader(http.StatusOK)
	})
	mux.HandleFunc("POST "+prefix+"/faults", func(w http.ResponseWriter, r *http.Request) {
		faults, err := readFaults(http.MaxBytesReader(w, r.Body, maxControlBody))
		if err == nil {
			err = e.SetFaults(faults...)
		}
		if err != nil {
			writeError(w, http.StatusBadRequest, "BadRequestError", err.Error())
			return
		}
		w.WriteHeader(http.StatusOK)
	})
}

// readFaults reads one fault or a list of them, strictly: a misspelt key would
// make a test pass for the wrong reason.
func readFaults(body io.Reader) ([]Fault, error) {
	raw, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	raw = bytes.TrimSpace(raw)
	if len(raw) > 0 && raw[0] != '[' {
		raw = append(append([]byte{'['}, raw...), ']')
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	var faults []Fault
	if err := dec.Decode(&faults); err != nil {
		return nil, fmt.Errorf("faults: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("faults: something follows the list")
	}
	return faults, nil
}

// Status is what Control lists of an engine.
type Status struct {
	Name  string `json:"name"`
	Addr  string `json:"addr"`
	Stats Stats  `json:"stats"`
}

// Control serves several engines from a port that lives on when they die:
//
//	GET  /engines                  all, with their counts
//	GET  /engines/<name>/stats
//	GET  /engines/<name>/last
//	POST /engines/<name>/faults    one Fault or a list of them replaces all
//	POST /engines/<name>/reset
//	POST /engines/<name>/kill
//	POST /engines/<name>/revive
//
// Each of the last six stands on the engine's own port under /sim too, but for revive.
// The names of the engines must be unique.
func Control(engines ...*Engine) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /engines", func(w http.ResponseWriter, _ *http.Request) {
		list := make([]Status, 0, len(engines))
		for _, e := range engines {
			list = append(list, Status{Name: e.Name(), Addr: e.Addr(), Stats: e.Stats()})
		}
		writeJSON(w, http.StatusOK, list)
	})
	for _, e := range engines {
		prefix := "/engines/" + e.Name()
		e.handle(mux, prefix)
		mux.HandleFunc("POST "+prefix+"/kill", func(w http.ResponseWriter, _ *http.Request) {
			e.Kill()
			w.WriteHeader(http.StatusOK)
		})
		mux.HandleFunc("POST "+prefix+"/revive", func(w http.ResponseWriter, _ *http.Request) {
			if err := e.Revive(); err != nil {
				writeError(w, http.StatusInternalServerError, "InternalServerError", err.Error())
				return
			}
			w.WriteHeader(http.StatusOK)
		})
	}
	return mux
}
