package enginesim

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"sync"
	"time"
)

// Stats are the counts of an engine. Requests are those to the OpenAI paths, not /sim.
type Stats struct {
	Name  string `json:"name"`
	Alive bool   `json:"alive"`

	Requests  int64 `json:"requests"`  // came in, whatever became of them
	InFlight  int64 `json:"in_flight"` // being answered now
	MaxFlight int64 `json:"max_in_flight"`
	Completed int64 `json:"completed"` // generated and sent whole
	Aborted   int64 `json:"aborted"`   // the client left before the end
	Killed    int64 `json:"killed"`    // cut by Kill
	Refused   int64 `json:"refused"`   // queue full
	Faulted   int64 `json:"faulted"`   // struck by a fault

	Running int `json:"running"` // hold a place in the batch
	Waiting int `json:"waiting"` // queue for one

	PromptTokens     int64 `json:"prompt_tokens"` // of the prompts that were read
	CachedTokens     int64 `json:"cached_tokens"` // of these, found in the prefix cache
	CompletionTokens int64 `json:"completion_tokens"`
}

// Last is one request as it arrived.
type Last struct {
	Time    time.Time   `json:"time"`
	Proto   string      `json:"proto"`
	Method  string      `json:"method"`
	Path    string      `json:"path"` // with the query
	Host    string      `json:"host"`
	Headers http.Header `json:"headers"`
	// Trailers are those that came after the body.
	Trailers http.Header `json:"trailers,omitempty"`
	// ContentLength is -1 when the request did not say it.
	ContentLength int64 `json:"content_length"`
	// BodyBytes and BodySHA256 are of the body as it was received, compressed or not.
	BodyBytes  int    `json:"body_bytes"`
	BodySHA256 string `json:"body_sha256"`
	// Model is the model in the body, "" when none was read.
	Model string `json:"model"`
}

// seen is what an engine remembers of its requests.
type seen struct {
	mu struct {
		sync.Mutex
		stats Stats
		last  *Last   // without the sum
		body  *[]byte // of last: its sum is made when asked for
	}
}

// count changes the counts.
func (s *seen) count(change func(*Stats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.mu.stats)
}

// arrived counts a request and gives its number since the start or reset.
func (s *seen) arrived() (number int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := &s.mu.stats
	st.Requests++
	st.InFlight++
	st.MaxFlight = max(st.MaxFlight, st.InFlight)
	return st.Requests
}

// remember takes the request and its body as the last, and gives back the
// buffer of the one before, nil at first.
func (s *seen) remember(l *Last, body *[]byte) (before *[]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before = s.mu.body
	s.mu.last, s.mu.body = l, body
	return before
}

func (s *seen) last() (Last, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.last == nil {
		return Last{}, false
	}
	l := *s.mu.last
	sum := sha256.Sum256(*s.mu.body)
	l.BodySHA256 = hex.EncodeToString(sum[:])
	return l, true
}

func (s *seen) stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.stats
}

// reset forgets all but what is in flight.
func (s *seen) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	inFlight := s.mu.stats.InFlight
	s.mu.stats = Stats{InFlight: inFlight, MaxFlight: inFlight}
	s.mu.last, s.mu.body = nil, nil
}
