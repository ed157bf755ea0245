package request

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func compress(t *testing.T, e string, data ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	for _, d := range data {
		var w io.WriteCloser
		switch e {
		case "gzip":
			w = gzip.NewWriter(&out)
		case "zlib":
			w = zlib.NewWriter(&out)
		case "stored":
			w, _ = flate.NewWriter(&out, flate.NoCompression)
		case "flate":
			w, _ = flate.NewWriter(&out, flate.BestCompression)
		}
		if _, err := io.WriteString(w, d); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// TestEncodings is cases 137 and 138: the body is read without its encoding, and stays as it came.
func TestEncodings(t *testing.T) {
	opts := DefaultOptions()
	opts.BodyLimit = 100 << 10
	r := NewReader(opts)
	body := `{"model":"m",` + user(`"what is rust"`) + `}`
	bomb := func(e string) []byte {
		b := compress(t, e, `{"model":"m","x":"`+strings.Repeat("x", 100<<10)+`"}`)
		if len(b) > 1<<10 {
			t.Fatalf("a bomb of %d bytes", len(b))
		}
		return b
	}
	padded := func(n int) string { return `{"model":"m"}` + strings.Repeat(" ", n-len(`{"model":"m"}`)) }
	whole := compress(t, "gzip", body)
	sum := bytes.Clone(whole)
	sum[len(sum)-5] ^= 1
	tests := []struct {
		name string
		enc  []string
		body []byte
		want error
	}{
		{"none", nil, []byte(body), nil},
		{"identity", []string{"identity"}, []byte(body), nil},
		{"case 137: gzip", []string{"gzip"}, whole, nil},
		{"x-gzip, in capitals", []string{"X-GZIP"}, whole, nil},
		{"case 137: two gzip members", []string{"gzip"}, compress(t, "gzip", body[:20], body[20:]), nil},
		{"deflate", []string{"deflate"}, compress(t, "zlib", body), nil},
		{"deflate without a header", []string{"deflate"}, compress(t, "flate", body), nil},
		{"deflate without a header, stored", []string{"deflate"}, compress(t, "stored", body), nil},
		{"gzip and identity", []string{"identity, gzip"}, whole, nil},
		{"case 137: cut gzip", []string{"gzip"}, whole[:len(whole)-1], InvalidEncoding},
		{"cut in the header", []string{"gzip"}, whole[:5], InvalidEncoding},
		{"cut second member", []string{"gzip"}, append(bytes.Clone(whole), whole[:12]...), InvalidEncoding},
		{"wrong sum", []string{"gzip"}, sum, InvalidEncoding},
		{"no gzip", []string{"gzip"}, []byte(body), InvalidEncoding},
		{"no deflate", []string{"deflate"}, []byte(body), InvalidEncoding},
		{"gzip with something behind it", []string{"gzip"}, append(bytes.Clone(whole), 'x'), InvalidEncoding},
		{"deflate with something behind it", []string{"deflate"}, append(compress(t, "zlib", body), 'x'), InvalidEncoding},
		{"cut deflate", []string{"deflate"}, compress(t, "zlib", body)[:30], InvalidEncoding},
		{"cut deflate without a header", []string{"deflate"}, compress(t, "flate", body)[:30], InvalidEncoding},
		{"case 137: gzip bomb", []string{"gzip"}, bomb("gzip"), BodyTooLarge},
		{"deflate bomb", []string{"deflate"}, bomb("zlib"), BodyTooLarge},
		{"bare deflate bomb", []string{"deflate"}, bomb("flate"), BodyTooLarge},
		{"at the limit", []string{"gzip"}, compress(t, "gzip", padded(100<<10)), nil},
		{"over the limit by one", []string{"gzip"}, compress(t, "gzip", padded(100<<10+1)), BodyTooLarge},
		{"gzip of no JSON", []string{"gzip"}, compress(t, "gzip", `{`), InvalidJSON},
		{"gzip of nothing", []string{"gzip"}, compress(t, "gzip", ``), MissingBody},
		{"case 138: br", []string{"br"}, []byte(body), UnsupportedEncoding},
		{"zstd", []string{"zstd"}, []byte(body), UnsupportedEncoding},
		{"one over the other", []string{"gzip, gzip"}, whole, UnsupportedEncoding},
		{"one over the other in two headers", []string{"gzip", "br"}, whole, UnsupportedEncoding},
		{"one over the other, the first supported", []string{"deflate", "gzip"}, whole, UnsupportedEncoding},
	}
	var q Request
	for range 2 { // the second time with used decompressors
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				h := header{"content-encoding": test.enc}
				came := bytes.Clone(test.body)
				err := r.Read(chatPath, h, test.body, &q)
				if !errors.Is(err, test.want) {
					t.Fatalf("fault %v, want %v", err, test.want)
				}
				if !bytes.Equal(came, test.body) {
					t.Error("the body was changed")
				}
				plain := len(test.enc) == 0 || test.enc[0] == "identity"
				if err != nil {
					return
				}
				if q.Model != "m" || plain != (q.Decoded == nil) {
					t.Fatalf("model %q, decoded %q", q.Model, q.Decoded)
				}
				if plain || strings.HasPrefix(test.name, "at") {
					return
				}
				if diff := cmp.Diff(body, string(q.Decoded)); diff != "" {
					t.Errorf("decoded (-want +got):\n%s", diff)
				}
				if string(q.Text) != "user: what is rust\n" {
					t.Errorf("text %q", q.Text)
				}
				if got, want := string(q.AppendModel(nil, q.Decoded, "n")), strings.Replace(body, `"m"`, `"n"`, 1); got != want {
					t.Errorf("with another model: %s", got)
				}
			})
		}
	}
}

// TestCompressedNoise gives the decompressors what they do not expect.
func TestCompressedNoise(t *testing.T) {
	r := NewReader(DefaultOptions())
	rnd := rand.New(rand.NewPCG(1, 2))
	whole := compress(t, "gzip", `{"model":"m",`+user(quote(strings.Repeat("what is rust ", 100)))+`}`)
	var q Request
	for range 2000 {
		noisy := bytes.Clone(whole)
		for range 1 + rnd.IntN(3) {
			noisy[rnd.IntN(len(noisy))] = byte(rnd.Uint32())
		}
		for _, e := range []string{"gzip", "deflate"} {
			err := r.Read(chatPath, header{"content-encoding": {e}}, noisy[:rnd.IntN(len(noisy))+1], &q)
			if err == nil && q.Model != "m" {
				t.Fatalf("model %q", q.Model)
			}
		}
	}
}
