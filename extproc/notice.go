package extproc

import (
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/pointsman/pointsman/internal/notice"
)

// reportSetting says that the filter is configured in a way in which pointsman cannot
// choose.
func (s *Server) reportSetting(setting, value string) {
	if n, ok := s.misconfigured.Due(time.Now()); ok {
		s.opts.Log.Error("the ext_proc filter of a proxy is not usable: requests are answered 500",
			slog.String("setting", setting), slog.String("value", value),
			slog.String("needed", neededSettings), slog.Int("not_logged", n))
	}
}

// neededSettings is what has to stand in the configuration of the filter.
const neededSettings = "observability_mode: false, processing_mode: {request_header_mode: SEND, request_body_mode: BUFFERED}"

// reportPanic says that the handling of a request panicked.
func (s *Server) reportPanic(p any) {
	if n, ok := s.panicked.Due(time.Now()); ok {
		s.opts.Log.Error("a request caused a panic: answered 500",
			slog.String("panic", notice.Panic(p)), slog.String("stack", string(debug.Stack())), slog.Int("not_logged", n))
	}
}
