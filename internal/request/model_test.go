package request

import (
	"bytes"
	"strings"
	"testing"
)

// TestManyModels rewrites a body of 1,000,000 model keys, which would take hours if each
// place cost more than its own bytes; what comes out has exactly the length foretold.
func TestManyModels(t *testing.T) {
	const n = 1_000_000
	body := []byte("{" + strings.Repeat(`"model":0,`, n-1) + `"model":"m"}`)
	var q Request
	if err := NewReader(DefaultOptions()).Read(chatPath, header{}, body, &q); err != nil {
		t.Fatal(err)
	}
	if len(q.ModelSpans) != n {
		t.Fatalf("%d places, want %d", len(q.ModelSpans), n)
	}
	size := q.RewrittenLen(len(body), "up")
	got := q.AppendModel(make([]byte, 0, size), body, "up")
	if want := []byte("{" + strings.Repeat(`"model":"up",`, n-1) + `"model":"up"}`); !bytes.Equal(got, want) || len(got) != size {
		t.Errorf("%d bytes, foretold %d, want %d", len(got), size, len(want))
	}
	q.Reset()
	if cap(q.ModelSpans) > keepItems {
		t.Errorf("memory for %d places is kept", cap(q.ModelSpans))
	}
}
