package enginesim

import (
	"errors"
	"fmt"
	"math"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"time"
)

// Action is how an answer is broken off.
type Action string

// The actions.
const (
	// Reset aborts: a TCP reset over HTTP/1, RST_STREAM over HTTP/2.
	Reset Action = "reset"
	// Close closes the connection in good order in the middle of the answer
	// (over HTTP/2 it is a Reset: a stream cannot be closed so).
	Close Action = "close"
	// Hang sends nothing more, until the client leaves or Fault.For has passed.
	Hang Action = "hang"
	// End ends the answer as if it were whole, without its finish and [DONE].
	End Action = "end"
)

// maxFaults bounds the list of faults of one engine: no test scripts more.
const maxFaults = 1000

// Fault is something that goes wrong with a request. Its parts may be combined.
type Fault struct {
	// Path is the beginning of the paths it strikes, default all that generate.
	Path string `json:"path,omitempty"`
	// Count is how many requests it strikes, 0 = all from now on.
	Count int `json:"count,omitempty"`

	// DelayMS is waited before anything else, in milliseconds.
	DelayMS int `json:"delay_ms,omitempty"`
	// Slow multiplies the time of prefill and of every token. 0 = 1.
	Slow float64 `json:"slow,omitempty"`

	// Status answers with this status and Body instead of doing any work.
	Status int `json:"status,omitempty"`
	// Body of that answer, default an error in the engine's JSON.
	Body string `json:"body,omitempty"`
	// RetryAfter is sent as it is.
	RetryAfter string `json:"retry_after,omitempty"`
	// Headers are added to whatever answer is given.
	Headers map[string]string `json:"headers,omitempty"`

	// Action breaks the answer off, "" = no.
	Action Action `json:"action,omitempty"`
	// AfterTokens says when: nil = before the response headers, otherwise
	// after them and so many tokens. An answer with fewer tokens comes through whole. A whole
	// (not streamed) answer is broken off in its middle.
	AfterTokens *int `json:"after_tokens,omitempty"`
	// ForMS is how long a Hang lasts in milliseconds, 0 = for ever.
	ForMS int `json:"for_ms,omitempty"`
}

// check refuses a fault that would never do what it seems to say.
func (f *Fault) check() error {
	switch {
	case f.Count < 0 || f.DelayMS < 0 || f.ForMS < 0:
		return errors.New("count and times cannot be negative")
	case f.Slow < 0 || math.IsNaN(f.Slow) || math.IsInf(f.Slow, 0):
		return fmt.Errorf("slow: %v", f.Slow)
	case f.Status != 0 && (f.Status < 200 || f.Status > 599):
		return fmt.Errorf("status: %d is not a final status", f.Status)
	case f.Body != "" && f.Status == 0:
		return errors.New("body: needs a status")
	case !slices.Contains([]Action{"", Reset, Close, Hang, End}, f.Action):
		return fmt.Errorf("action: %q is none of reset, close, hang, end", f.Action)
	case f.Action == End && f.AfterTokens == nil:
		return errors.New("action: an answer that has not begun cannot end")
	case f.AfterTokens != nil && *f.AfterTokens < 0:
		return errors.New("after_tokens: cannot be negative")
	case f.AfterTokens != nil && f.Action == "":
		return errors.New("after_tokens: needs an action")
	case f.AfterTokens != nil && f.Status != 0:
		return errors.New("after_tokens: an answer with a status has no tokens")
	}
	for name := range f.Headers {
		if textproto.TrimString(name) != name || name == "" || strings.ContainsAny(name, " :\r\n") {
			return fmt.Errorf("headers: %q is not a name", name)
		}
	}
	return nil
}

// none says that nothing goes wrong.
func (f *Fault) none() bool {
	return f.DelayMS == 0 && f.Slow == 0 && f.Status == 0 && f.RetryAfter == "" && len(f.Headers) == 0 && f.Action == ""
}

// delay is the time before anything happens.
func (f *Fault) delay() time.Duration { return time.Duration(f.DelayMS) * time.Millisecond }

// slowed is a time stretched by the fault.
func (f *Fault) slowed(d time.Duration) time.Duration {
	if f.Slow == 0 {
		return d
	}
	return time.Duration(float64(d) * f.Slow)
}

// beforeHeaders says that the action comes instead of an answer.
func (f *Fault) beforeHeaders() bool { return f.Action != "" && f.AfterTokens == nil }

// breaksAt gives the number of tokens after which the answer breaks off.
func (f *Fault) breaksAt() (tokens int, breaks bool) {
	if f.Action == "" || f.AfterTokens == nil {
		return 0, false
	}
	return *f.AfterTokens, true
}

// faultList is the faults in force, in order.
type faultList struct {
	mu struct {
		sync.Mutex
		list []Fault
	}
}

// set replaces all faults.
func (l *faultList) set(faults []Fault) error {
	if len(faults) > maxFaults {
		return fmt.Errorf("%d faults are more than %d", len(faults), maxFaults)
	}
	for i := range faults {
		if err := faults[i].check(); err != nil {
			return fmt.Errorf("fault %d: %w", i, err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.list = slices.Clone(faults)
	return nil
}

// take gives the fault that strikes a request: the first in the list whose
// path fits. A fault that has struck Count times is gone. The zero Fault does nothing.
func (l *faultList) take(path string, generates bool) Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.mu.list {
		f := &l.mu.list[i]
		if f.Path == "" && !generates || !strings.HasPrefix(path, f.Path) {
			continue
		}
		struck := *f
		if f.Count == 1 {
			l.mu.list = slices.Delete(l.mu.list, i, i+1)
		} else if f.Count > 1 {
			f.Count--
		}
		return struck
	}
	return Fault{}
}
