package logs

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/config"
	"github.com/pointsman/pointsman/internal/ledger"
	"github.com/pointsman/pointsman/internal/request"
	"github.com/pointsman/pointsman/internal/routing"
	"github.com/pointsman/pointsman/internal/tracker"
)

// fields are those of a line, without its time.
type fields = map[string]any

// told gives the lines that f makes the sink write.
func told(t *testing.T, level string, on bool, f func(*Requests)) []fields {
	t.Helper()
	var out gate
	l := New(&out, "json")
	l.SetLevel(level)
	r := NewRequests(l.Requests())
	r.Switch(on)
	f(r)
	l.Flush()
	var all []fields
	for text := range strings.Lines(out.buf.String()) {
		var line fields
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		if _, err := time.Parse(time.RFC3339Nano, line["time"].(string)); err != nil {
			t.Error(err)
		}
		delete(line, "time")
		all = append(all, line)
	}
	return all
}

// decision makes one for a prompt that must be in no line.
func decision(t *testing.T) *routing.Decision {
	t.Helper()
	cfg, err := config.Parse("test.yaml", []byte(`
providers: [{name: a, url: "http://127.0.0.1:1"}, {name: b, url: "http://127.0.0.1:2"}]
routes: [{model: llama, strategy: cache_aware, targets: [{provider: a, model: up}, {provider: b, model: up}]}]
`))
	if err != nil {
		t.Fatal(err)
	}
	tr := tracker.New(tracker.Settings{CooldownBase: time.Hour, CooldownMax: time.Hour})
	s, err := routing.NewSnapshot(cfg, tr, nil)
	if err != nil {
		t.Fatal(err)
	}
	router := routing.NewRouter(tr, time.Now().Add(-time.Hour))
	router.Swap(s)
	tr.SetReachable("a/up", true)
	tr.SetReachable("b/up", true)
	tr.Target("a/up").Park(time.Now(), tracker.NoHint)
	const secret = "ZX-CANARY-17"
	q := &request.Request{Model: "llama", Text: []byte(secret), Length: 400, HasPrompt: true, Session: secret, Stream: true}
	d, err := router.Decide(t.Context(), s, q, "")
	if err != nil {
		t.Fatal(err)
	}
	d.ID, d.Took = "ps-0-t8k2qm-3mv", 3100*time.Nanosecond
	return d
}

// The lines and fields of the specification; a field without a value is left out.
func TestRequestLines(t *testing.T) {
	d := decision(t)
	for _, test := range []struct {
		name string
		tell func(*Requests)
		want fields // nil = no line
	}{
		{"decision", func(r *Requests) { r.Decided(d) }, fields{
			"msg": "decision", "decision": "ps-0-t8k2qm-3mv", "pool": "llama", "strategy": "cache_aware", "kind": "stream",
			"prompt_tokens": 100.0, "targets": []any{"b/up", "a/up"}, "fail_open": false, "took_us": 3.1,
		}},
		{"outcome, all fields", func(r *Requests) {
			r.Attempted("llama", "a/up", &ledger.Attempt{
				Decision: "x-1", Cluster: "pm|a/up", Number: 2, Outcome: ledger.ErrorStatus, Status: 429, RetryAfter: 7 * time.Second,
				FirstHeader: time.Millisecond, FirstBody: 212500 * time.Microsecond, Total: 1840 * time.Millisecond,
			}, true)
		}, fields{
			"msg": "outcome", "decision": "x-1", "target": "a/up", "attempt": 2.0, "outcome": "error_status", "status": 429.0,
			"first_byte_ms": 212.5, "duration_ms": 1840.0, "retry_after_secs": 7.0,
		}},
		{"outcome, nothing heard", func(r *Requests) {
			r.Attempted("llama", "a/up", &ledger.Attempt{Decision: "x-1", Number: 1, RetryAfter: tracker.NoHint}, false)
		}, fields{"msg": "outcome", "decision": "x-1", "target": "a/up", "attempt": 1.0, "outcome": "unknown"}},
		{"outcome, Retry-After 0", func(r *Requests) {
			r.Attempted("llama", "a/up", &ledger.Attempt{Decision: "x-1", Number: 1, Outcome: ledger.ErrorStatus, Status: 503}, false)
		}, fields{"msg": "outcome", "decision": "x-1", "target": "a/up", "attempt": 1.0, "outcome": "error_status", "status": 503.0,
			"retry_after_secs": 0.0}},
		{"answer of the proxy", func(r *Requests) {
			r.Answered(ledger.Answer{Decision: "x-1", Pool: "llama", Status: 504, Code: "upstream_timeout"})
		},
			fields{"msg": "answer", "decision": "x-1", "status": 504.0, "code": "upstream_timeout"}},
		{"answer of pointsman", func(r *Requests) { r.Answered(ledger.Answer{Status: 404, Code: "model_not_found"}) },
			fields{"msg": "answer", "status": 404.0, "code": "model_not_found"}},
		{"answer without a status", func(r *Requests) { r.Answered(ledger.Answer{Code: "x"}) }, fields{"msg": "answer", "code": "x"}},
		{"answer of an upstream", func(r *Requests) { r.Answered(ledger.Answer{Decision: "x-1", Status: 200}) }, nil},
		{"closed", func(r *Requests) { r.Closed(ledger.Record{Pool: "llama", Status: 200}) }, nil},
		{"late", func(r *Requests) { r.Late() }, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			var want []fields
			if test.want != nil {
				test.want["level"] = "INFO"
				want = []fields{test.want}
			}
			got := told(t, "info", true, test.tell)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if off := told(t, "debug", false, test.tell); off != nil {
				t.Errorf("switched off: %v", off)
			}
			if off := told(t, "warn", true, test.tell); off != nil {
				t.Errorf("with level warn: %v", off)
			}
			for _, line := range told(t, "debug", true, test.tell) {
				if text, _ := json.Marshal(line); strings.Contains(string(text), "CANARY") {
					t.Errorf("prompt or session: %s", text)
				}
			}
		})
	}
}
