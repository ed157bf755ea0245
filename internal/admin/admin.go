// Package admin is the HTTP listener for operators: /healthz, /readyz and
// /metrics. It shows what others know and holds no state of its own. app runs
// it; its handlers are called from any goroutine.
package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	// readTimeout bounds how long a client may take to say what it wants.
	readTimeout = 5 * time.Second
	// writeTimeout bounds how long it may take to read the answer: longer than any
	// scraper waits.
	writeTimeout = time.Minute
	// idleTimeout is longer than the usual times between two scrapes.
	idleTimeout = 2 * time.Minute
	// maxHeader bounds the headers of a request, in bytes.
	maxHeader = 16 << 10
	// closeTimeout bounds how long a running scrape is waited for at the end.
	closeTimeout = time.Second
)

// Options are what the listener shows.
type Options struct {
	// NotReady gives one line for each condition of readiness that does not hold.
	NotReady func() []string
	Metrics  http.Handler
	// Log hears what goes wrong with connections.
	Log *slog.Logger
}

// Server serves the admin listener.
type Server struct{ http http.Server }

// New gives a server that is not listening yet.
func New(opts Options) *Server {
	mux := http.NewServeMux()
	mux.Handle("/healthz", readOnly(func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok") }))
	mux.Handle("/readyz", readOnly(func(w http.ResponseWriter, _ *http.Request) {
		if why := opts.NotReady(); len(why) > 0 {
			plain(w, http.StatusServiceUnavailable, strings.Join(why, "\n"))
			return
		}
		plain(w, http.StatusOK, "ok")
	}))
	mux.Handle("/metrics", readOnly(opts.Metrics.ServeHTTP))
	return &Server{http: http.Server{
		Handler:     mux,
		ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader,
		ErrorLog:       slog.NewLogLogger(opts.Log.Handler(), slog.LevelWarn),
	}}
}

// Serve answers on lis until ctx ends. It closes lis.
func (s *Server) Serve(ctx context.Context, lis net.Listener) error {
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		if s.http.Shutdown(end) != nil {
			_ = s.http.Close()
		}
	})
	err := s.http.Serve(lis)
	if !stop() {
		<-closed
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("admin listener: %w", err)
	}
	return nil
}

// readOnly lets only GET and HEAD through.
func readOnly(h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			plain(w, http.StatusMethodNotAllowed, "method not allowed")
			return
		}
		h(w, r)
	})
}

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n")
}
