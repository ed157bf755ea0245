//go:build !race

package request

import (
	"strings"
	"testing"
)

// maxAllocs is how many allocations a request may cost.
const maxAllocs = 3

// TestAllocations reads with one Request, as extproc does, and with a fresh one.
func TestAllocations(t *testing.T) {
	opts := DefaultOptions()
	opts.SessionBodyFields = []string{"user"}
	long := strings.Repeat("x", 100<<10)
	tests := []struct {
		name, path, body string
		h                header
		fresh            float64 // allocations with a fresh Request: text, names, and what the test says
	}{
		{"chat", chatPath, `{"model":"m",` + user(`"what is rust"`) + `}`, header{}, 2},
		{"escapes and absorbed values", chatPath, `{"model":"m",` + user(`["a\n",{"x": 1,"x":2}]`) + `}`, header{}, 2},
		{"long", chatPath, `{"model":"m",` + user(`"`+long+`"`) + `}`, header{}, 2},
		{"long with escapes", chatPath, `{"model":"m",` + user(`"`+long+`\n"`) + `}`, header{}, 2},
		{"many messages", chatPath, `{"model":"m","messages":[` + strings.Repeat(`{"role":"u","content":"x"},`, 1000) + `{}]}`, header{}, 2},
		{"Chinese", chatPath, `{"model":"m",` + user(`"`+strings.Repeat("什么", 1000)+`"`) + `}`, header{}, 2},
		{"no character", chatPath, `{"model":"m",` + user(`"`+strings.Repeat("\xff", 1000)+`"`) + `}`, header{}, 3}, // grows the text
		{"unreadable", "/x", `{"model":"m"}`, header{}, 2},
		{"session header", chatPath, `{"model":"m",` + user(`"x"`) + `}`, header{"x-session-id": {"s"}}, 2},
		{"token ids", "/v1/completions", `{"model":"m","prompt":[1,2,3]}`, header{}, 3},                                          // the ids
		{"salt and session of the body", chatPath, `{"model":"m","user":"u","cache_salt":"s",` + user(`"x"`) + `}`, header{}, 2}, // strings of one byte
		{"long names", chatPath, `{"model":"model","user":"user","cache_salt":"salt",` + user(`"x"`) + `}`, header{}, 2},         // together
		{"everything", "/v1/completions", `{"model":"model","user":"user","cache_salt":"salt","prompt":[10,20,30]}`, header{}, 3},
		{"everything, in headers", "/v1/completions", `{"model":"model","cache_salt":"salt","prompt":"x"}`,
			header{"x-session-id": {long}, "x-pointsman-token-ids": {strings.Repeat("100,", 5000) + "1", "2"}}, 3},
		{"one header of ids", "/v1/completions", `{"model":"model","user":"user","cache_salt":"salt","prompt":"x"}`,
			header{"x-pointsman-token-ids": {strings.Repeat("100,", 5000) + "1"}}, 3},
		{"invalid", chatPath, `{"model":"m"`, header{}, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := NewReader(opts)
			body := []byte(test.body)
			var q Request
			if n := testing.AllocsPerRun(100, func() { _ = r.Read(test.path, test.h, body, &q) }); n != 0 {
				t.Errorf("%v allocations with a used Request, want none", n)
			}
			n := testing.AllocsPerRun(100, func() {
				var q Request
				_ = r.Read(test.path, test.h, body, &q)
			})
			if n--; n > test.fresh { // the Request itself, as the Reader takes its address
				t.Errorf("%v allocations with a fresh Request, at most %v", n, test.fresh)
			}
		})
	}
	t.Run("another model, session and salt each time", func(t *testing.T) {
		r := NewReader(opts)
		bodies := [2][]byte{
			[]byte(`{"model":"model 1","user":"user 1","cache_salt":"salt 1",` + user(`"x"`) + `}`),
			[]byte(`{"model":"model 2","user":"user 2","cache_salt":"salt 2",` + user(`"x"`) + `}`),
		}
		var q Request
		h := header{}
		i := 0
		n := testing.AllocsPerRun(100, func() {
			i++
			_ = r.Read(chatPath, h, bodies[i%2], &q)
		})
		if n > 1 {
			t.Errorf("%v allocations, at most one", n)
		}
	})
	t.Run("gzip", func(t *testing.T) {
		r := NewReader(opts)
		body := compress(t, "gzip", `{"model":"m",`+user(`"`+long+`"`)+`}`)
		h := header{"content-encoding": {"gzip"}}
		var q Request
		if n := testing.AllocsPerRun(100, func() { _ = r.Read(chatPath, h, body, &q) }); n > maxAllocs {
			t.Errorf("%v allocations, at most %d", n, maxAllocs)
		}
	})
	t.Run("rewriting", func(t *testing.T) {
		var q Request
		body := []byte(`{"model":"m",` + user(`"`+long+`"`) + `}`)
		_ = NewReader(opts).Read(chatPath, header{}, body, &q)
		out := make([]byte, 0, q.RewrittenLen(len(body), "another"))
		if n := testing.AllocsPerRun(100, func() { out = q.AppendModel(out[:0], body, "another") }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}
