package extproc

import (
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

// noticeEvery is the least time between two lines about the same kind of event.
const noticeEvery = time.Minute

// notice holds back the lines of an event that repeats.
type notice struct {
	mu       sync.Mutex
	last     time.Time
	heldBack int
}

// due tells whether to write a line now, and how many were held back before it.
func (n *notice) due(now time.Time) (heldBack int, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.last.IsZero() && now.Sub(n.last) < noticeEvery {
		n.heldBack++
		return 0, false
	}
	heldBack, n.heldBack, n.last = n.heldBack, 0, now
	return heldBack, true
}

// reportSetting says that the filter is configured in a way in which pointsman cannot
// choose.
func (s *Server) reportSetting(setting, value string) {
	if n, ok := s.misconfigured.due(time.Now()); ok {
		s.opts.Log.Error("the ext_proc filter of a proxy is not usable: requests are answered 500",
			slog.String("setting", setting), slog.String("value", value),
			slog.String("needed", neededSettings), slog.Int("not_logged", n))
	}
}

// neededSettings is what has to stand in the configuration of the filter.
const neededSettings = "observability_mode: false, processing_mode: {request_header_mode: SEND, request_body_mode: BUFFERED}"

// reportPanic says that the handling of a request panicked. A value made by other
// than the runtime may hold anything, a prompt for example: only its type is told.
func (s *Server) reportPanic(p any) {
	n, ok := s.panicked.due(time.Now())
	if !ok {
		return
	}
	what := fmt.Sprintf("%T", p)
	if err, ok := p.(runtime.Error); ok {
		what = err.Error()
	}
	s.opts.Log.Error("a request caused a panic: answered 500",
		slog.String("panic", what), slog.String("stack", string(debug.Stack())), slog.Int("not_logged", n))
}
