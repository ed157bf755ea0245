package routing

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/config"
	"github.com/pointsman/pointsman/internal/request"
)

const oneEngine = `
providers: [{name: a, url: "http://127.0.0.1:8001"}]
routes: [{model: m, targets: [{provider: a}]}]
`

func parsed(t *testing.T, yaml string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("test.yaml", []byte(oneEngine+yaml))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// The defaults of the file are those of the reader.
func TestReadOptionsByDefault(t *testing.T) {
	want := request.DefaultOptions()
	want.SessionBodyFields = []string{}
	if diff := cmp.Diff(want, ReadOptions(parsed(t, ""))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// The reader knows every body field that the file may name, in the file's order.
func TestEveryBodyField(t *testing.T) {
	fields := request.SessionBodyFields()
	slices.Reverse(fields)
	cfg := parsed(t, "session: {body_fields: ["+strings.Join(fields, ", ")+"]}")
	if diff := cmp.Diff(fields, ReadOptions(cfg).SessionBodyFields); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

type header map[string]string

func (h header) Get(name string) string { return h[name] }

func (h header) Values(name string) []string {
	if v, ok := h[name]; ok {
		return []string{v}
	}
	return nil
}

// What the file says of reading is what is done, from the next snapshot on.
func TestSettingsOfReading(t *testing.T) {
	const body = `{"model":"m","user":"u","session_id":"s","metadata":{"user_id":"w"},"messages":[{"role":"user","content":"TEXT"}]}`
	for _, test := range []struct {
		name, yaml string
		h          header
		session    string
		text       int
	}{
		{"case 146: only the second", "session: {headers: [x-a, x-b]}", header{"x-b": "b"}, "b", 0},
		{"case 146: both", "session: {headers: [x-b, X-A]}", header{"x-a": "a", "x-b": "b"}, "b", 0},
		{"case 147: a field, no header", "session: {body_fields: [user]}", header{}, "u", 0},
		{"a header before every field", "session: {body_fields: [user]}", header{"x-session-id": "h"}, "h", 0},
		{"case 357", "session: {body_fields: [session_id]}", header{}, "s", 0},
		{"the order of the file", "session: {body_fields: [metadata.user_id, user]}", header{}, "w", 0},
		{"no header", "session: {headers: []}", header{"x-session-id": "h"}, "", 0},
		{"longer text", "affinity: {max_text: 40KiB}", header{}, "", 40 << 10},
		{"shorter text", "affinity: {max_text: 1KiB}", header{}, "", 1 << 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			reader := request.NewReader(ReadOptions(parsed(t, test.yaml)))
			var q request.Request
			long := strings.Replace(body, "TEXT", strings.Repeat("x", 50<<10), 1)
			if err := reader.Read("/v1/chat/completions", test.h, []byte(long), &q); err != nil {
				t.Fatal(err)
			}
			if q.Session != test.session {
				t.Errorf("session %q, want %q", q.Session, test.session)
			}
			if test.text > 0 && len(q.Text) != test.text {
				t.Errorf("%d bytes of text, want %d", len(q.Text), test.text)
			}
		})
	}
}
