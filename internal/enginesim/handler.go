package enginesim

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// Limits of what is read from and kept of one request.
const (
	// maxBody is twice pointsman's default limit, so that the engine is never
	// the one that refuses.
	maxBody = 64 << 20
	// maxPooled is the largest buffer kept for another request: a few huge
	// ones must not fill the memory.
	maxPooled = 1 << 20
)

// HeaderServedBy names the engine in every answer.
const HeaderServedBy = "X-Served-By"

// ServeHTTP answers one request. It is what Serve calls; a test that needs no
// connection may call it too.
func (e *Engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !e.begin() {
		panic(http.ErrAbortHandler)
	}
	defer e.handlers.Done()
	w.Header().Set(HeaderServedBy, e.opts.Name)
	if strings.HasPrefix(r.URL.Path, "/sim/") {
		e.mux.ServeHTTP(w, r)
		return
	}
	e.answer(w, r)
}

// begin counts a handler for Serve to wait for; false when the engine is closed.
func (e *Engine) begin() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.closed {
		return false
	}
	e.handlers.Add(1)
	return true
}

// errLeft says that the client was gone before its answer was whole.
var errLeft = errors.New("client left")

// answer counts a request to the engine and what became of it.
func (e *Engine) answer(w http.ResponseWriter, r *http.Request) {
	number := e.seen.arrived()
	var err error
	defer func() {
		in, _ := r.Context().Value(incarnationKey{}).(*incarnation)
		killed := in.isDead()
		e.seen.count(func(s *Stats) {
			s.InFlight--
			switch {
			case err != nil && killed:
				s.Killed++
			case err != nil:
				s.Aborted++
			}
		})
	}()
	err = e.attend(w, r, number)
}

// attend reads the request, lets a fault strike, and answers.
func (e *Engine) attend(w http.ResponseWriter, r *http.Request, number int64) error {
	path, render := apiOf(r.URL.Path)
	body := e.buffers.Get().(*[]byte)
	var readErr error
	if *body, readErr = readBody((*body)[:0], r); readErr != nil {
		e.recycle(body)
		if errors.Is(readErr, errTooLarge) {
			writeError(w, http.StatusRequestEntityTooLarge, "BadRequestError", readErr.Error())
			return nil
		}
		return errLeft
	}
	var c *call
	var callErr error
	if path.posts() {
		c, callErr = readCall(*body, r.Header)
	}
	last := &Last{
		Time: time.Now(), Proto: r.Proto, Method: r.Method, Path: r.URL.RequestURI(), Host: r.Host,
		Headers: r.Header, Trailers: r.Trailer, ContentLength: r.ContentLength, BodyBytes: len(*body),
	}
	if c != nil {
		last.Model = c.Model
	}
	if before := e.seen.remember(last, body); before != nil {
		e.recycle(before)
	}
	f := e.faults.take(r.URL.Path, path.posts())
	if done, err := e.strike(w, r, &f); done || err != nil {
		return err
	}
	switch {
	case path == unknownAPI:
		writeError(w, http.StatusNotFound, "NotFoundError", "no such path")
	case path.posts() && r.Method != http.MethodPost, !path.posts() && r.Method != http.MethodGet && r.Method != http.MethodHead:
		writeError(w, http.StatusMethodNotAllowed, "MethodNotAllowed", "method not allowed")
	case path == health:
		w.WriteHeader(http.StatusOK)
	case path == models:
		e.listModels(w)
	case callErr != nil:
		writeError(w, http.StatusBadRequest, "BadRequestError", callErr.Error())
	case path.generates() && !render:
		return e.generate(w, r, c, path, number, &f)
	default:
		return e.work(w, r, c, path, render, number, &f)
	}
	return nil
}

// recycle keeps a buffer for another request.
func (e *Engine) recycle(b *[]byte) {
	if cap(*b) <= maxPooled {
		e.buffers.Put(b)
	}
}

// strike does what a fault does before the answer; done means instead of it.
func (e *Engine) strike(w http.ResponseWriter, r *http.Request, f *Fault) (done bool, err error) {
	if f.none() {
		return false, nil
	}
	e.seen.count(func(s *Stats) { s.Faulted++ })
	for name, value := range f.Headers {
		w.Header().Set(name, value)
	}
	if f.RetryAfter != "" {
		w.Header().Set("Retry-After", f.RetryAfter)
	}
	if sleepUntil(r.Context(), time.Now().Add(f.delay())) != nil {
		return true, errLeft
	}
	if f.beforeHeaders() {
		if err := breakOff(r, f); err != nil {
			return true, err
		}
	}
	if f.Status == 0 {
		return false, nil
	}
	if f.Body == "" {
		writeError(w, f.Status, "SimulatedFault", fmt.Sprintf("simulated status %d", f.Status))
		return true, nil
	}
	w.WriteHeader(f.Status)
	_, _ = io.WriteString(w, f.Body) // the client may be gone
	return true, nil
}

// breakOff does the fault's action. It returns nil when a hang of limited time
// is over, errLeft when the client left first, and panics with ErrAbortHandler, which is how
// net/http is told to drop a connection, for the others.
func breakOff(r *http.Request, f *Fault) error {
	switch f.Action {
	case Hang:
		if f.ForMS == 0 {
			<-r.Context().Done()
			return errLeft
		}
		if sleepUntil(r.Context(), time.Now().Add(time.Duration(f.ForMS)*time.Millisecond)) != nil {
			return errLeft
		}
		return nil
	case Reset:
		if tcp, ok := r.Context().Value(connKey{}).(*net.TCPConn); ok && r.ProtoMajor == 1 {
			_ = tcp.SetLinger(0) // net/http closes it next
		}
	case Close, End:
	}
	panic(http.ErrAbortHandler)
}

// listModels answers GET /v1/models.
func (e *Engine) listModels(w http.ResponseWriter) {
	names := e.opts.Models
	if len(names) == 0 {
		names = []string{e.opts.Name}
	}
	list := modelList{Object: "list", Data: make([]modelCard, 0, len(names))}
	for _, name := range names {
		list.Data = append(list.Data, modelCard{ID: name, Object: "model", Created: e.started.Unix(), OwnedBy: "enginesim"})
	}
	writeJSON(w, http.StatusOK, list)
}

// errTooLarge says that a body is over the limit.
var errTooLarge = fmt.Errorf("body over %d bytes", maxBody)

// readBody appends the whole body to dst.
func readBody(dst []byte, r *http.Request) ([]byte, error) {
	if r.ContentLength > maxBody {
		return dst, errTooLarge
	}
	return readAll(dst, r.Body, int(max(0, r.ContentLength)))
}

// readAll appends what src holds to dst, at most maxBody bytes; size is what it probably is.
func readAll(dst []byte, src io.Reader, size int) ([]byte, error) {
	buf := bytes.NewBuffer(dst)
	buf.Grow(size + bytes.MinRead) // room to see the end without growing again
	n, err := buf.ReadFrom(io.LimitReader(src, maxBody+1))
	if err == nil && n > maxBody {
		err = errTooLarge
	}
	return buf.Bytes(), err
}

// readCall parses the body of a request that names a model.
func readCall(body []byte, h http.Header) (*call, error) {
	switch encoding := h.Get("Content-Encoding"); encoding {
	case "", "identity":
	case "gzip":
		zr, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, fmt.Errorf("body: %w", err)
		}
		if body, err = readAll(nil, zr, len(body)); err != nil {
			return nil, fmt.Errorf("body: %w", err)
		}
	default:
		return nil, fmt.Errorf("content-encoding %q is not understood", encoding)
	}
	if boundary := formBoundary(h.Get("Content-Type")); boundary != "" {
		return readForm(body, boundary)
	}
	c := new(call)
	// Python's json, which real engines use, skips the byte-order mark too.
	if err := json.Unmarshal(bytes.TrimPrefix(body, []byte("\xEF\xBB\xBF")), c); err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	return c, nil
}
