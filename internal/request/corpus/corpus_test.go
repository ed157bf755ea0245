package corpus

import (
	"encoding/json"
	"testing"
	"unicode/utf8"
)

func TestChat(t *testing.T) {
	for _, kind := range Kinds() {
		for _, size := range Sizes() {
			body := Chat(kind, size.Bytes)
			if len(body) != size.Bytes || !json.Valid(body) || !utf8.Valid(body) {
				t.Errorf("%s of %s: %d bytes, JSON %t, UTF-8 %t", kind, size.Name, len(body), json.Valid(body), utf8.Valid(body))
			}
		}
	}
}
