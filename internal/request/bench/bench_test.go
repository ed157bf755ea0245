// Package bench measures the reader of internal/request against other ways to get
// the same out of a chat: model, affinity text, length and digest.
//
// It is a module of its own, so that the libraries it compares with are none of the
// program's. Run it with: go test -bench .
package bench

import (
	"encoding/json"
	"errors"
	"testing"
	"unicode/utf8"

	"github.com/bytedance/sonic"
	gojson "github.com/goccy/go-json"
	"github.com/tidwall/gjson"
	"github.com/zeebo/xxh3"

	"github.com/pointsman/pointsman/internal/request"
	"github.com/pointsman/pointsman/internal/request/corpus"
)

// prompt is what everyone has to come to.
type prompt struct {
	model  string
	text   []byte
	full   bool
	length int
	digest uint64
	hash   xxh3.Hasher
}

const maxText = 32 << 10

func (p *prompt) reset() {
	p.text, p.full, p.length = p.text[:0], false, 0
	p.hash.Reset()
}

func (p *prompt) push(s string) {
	p.length += len(s)
	_, _ = p.hash.WriteString(s)
	if p.full {
		return
	}
	n := min(len(s), maxText-len(p.text))
	for n < len(s) && n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	p.text = append(p.text, s[:n]...)
	p.full = n < len(s)
}

func (p *prompt) turn(role, content string) {
	p.push(role)
	p.push(": ")
	p.push(content)
	p.push("\n")
}

// chat is a body for those who decode into structs. They know only the form of
// message that the corpora have.
type chat struct {
	Model    string `json:"model"`
	Messages []struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	} `json:"messages"`
}

// decoding reads with an Unmarshal.
func decoding(unmarshal func([]byte, any) error) func([]byte, *prompt) error {
	return func(body []byte, p *prompt) error {
		var c chat
		if err := unmarshal(body, &c); err != nil {
			return err
		}
		p.model = c.Model
		for _, m := range c.Messages {
			p.turn(m.Role, m.Content)
		}
		p.digest = p.hash.Sum64()
		return nil
	}
}

// readGJSON checks and then looks up: gjson alone accepts anything.
func readGJSON(body []byte, p *prompt) error {
	if !gjson.ValidBytes(body) {
		return errors.New("invalid")
	}
	found := gjson.GetManyBytes(body, "model", "messages")
	p.model = found[0].String()
	found[1].ForEach(func(_, m gjson.Result) bool {
		p.turn(m.Get("role").String(), m.Get("content").String())
		return true
	})
	p.digest = p.hash.Sum64()
	return nil
}

type header struct{}

func (header) Get(name string) string {
	if name == "content-type" {
		return "application/json"
	}
	return ""
}
func (header) Values(string) []string { return nil }

// pointsman reads with the reader of the program.
func pointsman() func([]byte, *prompt) error {
	r := request.NewReader(request.DefaultOptions())
	var q request.Request
	return func(body []byte, p *prompt) error {
		err := r.Read("/v1/chat/completions", header{}, body, &q)
		p.model, p.text, p.length, p.digest = q.Model, q.Text, int(q.Length), q.Digest
		return err
	}
}

func readers() []struct {
	name string
	read func([]byte, *prompt) error
} {
	return []struct {
		name string
		read func([]byte, *prompt) error
	}{
		{"pointsman", pointsman()},
		{"encoding_json", decoding(json.Unmarshal)},
		{"sonic", decoding(sonic.Unmarshal)},
		{"sonic_std", decoding(sonic.ConfigStd.Unmarshal)},
		{"gjson", readGJSON},
		{"go_json", decoding(gojson.Unmarshal)},
	}
}

// TestSame holds that all come to the same, or their times would say nothing.
func TestSame(t *testing.T) {
	for _, kind := range corpus.Kinds() {
		for _, size := range corpus.Sizes() {
			body := corpus.Chat(kind, size.Bytes)
			var want prompt
			for i, r := range readers() {
				var p prompt
				if err := r.read(body, &p); err != nil {
					t.Fatalf("%s: %v", r.name, err)
				}
				if i == 0 {
					want = p
				}
				if p.model != want.model || string(p.text) != string(want.text) || p.length != want.length || p.digest != want.digest {
					t.Errorf("%s, %s of %s: another result", r.name, kind, size.Name)
				}
			}
		}
	}
}

func BenchmarkReaders(b *testing.B) {
	for _, kind := range corpus.Kinds() {
		for _, size := range corpus.Sizes() {
			body := corpus.Chat(kind, size.Bytes)
			for _, r := range readers() {
				b.Run(kind+"/"+size.Name+"/"+r.name, func(b *testing.B) {
					var p prompt
					b.SetBytes(int64(len(body)))
					b.ReportAllocs()
					for b.Loop() {
						p.reset()
						if err := r.read(body, &p); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}
