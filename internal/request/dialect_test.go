package request

import (
	"testing"

	"github.com/pointsman/pointsman/internal/wire"
)

// FuzzMessagesPath: what is read as Messages is answered as Messages, and nothing else is
// (report 002 for slashes and /render).
func FuzzMessagesPath(f *testing.F) {
	for _, path := range []string{
		"/v1/messages", "/v1/messages/", "/v1/messages/render", "/v1/messages/render/", "/v1/messages//render", "//v1/messages//",
		"/v1/messages/count_tokens/render/", "/v1/messages/render/count_tokens", "/v1/messages/render/render", "/anthropic/v1/messages",
		"/v1/messages/batches", "/v1/messagesx", "/xv1/messages", "/render", "/", "",
	} {
		f.Add(path)
		f.Add(path + "?beta=true")
		f.Add("/x?y=" + path)
	}
	r := NewReader(DefaultOptions())
	f.Fuzz(func(t *testing.T, path string) {
		var q Request
		_ = r.Read(path, header{}, nil, &q)
		read, answered := apiOf(q.Path) == messagesAPI, wire.DialectOf(path) == wire.Anthropic
		if read != answered {
			t.Errorf("path %q: read as Messages %t, answered as Messages %t", path, read, answered)
		}
	})
}
