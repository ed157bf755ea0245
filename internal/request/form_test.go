package request

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"strings"
	"testing"
)

// field is one part of a form; with a file name it is a file.
type field struct{ name, file, value string }

func makeForm(t *testing.T, boundary string, fields ...field) []byte {
	t.Helper()
	var out bytes.Buffer
	w := multipart.NewWriter(&out)
	if err := w.SetBoundary(boundary); err != nil {
		t.Fatal(err)
	}
	for _, f := range fields {
		var p io.Writer
		var err error
		if f.file != "" {
			p, err = w.CreateFormFile(f.name, f.file)
		} else {
			p, err = w.CreateFormField(f.name)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Write([]byte(f.value)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestForms is case 139 and report 009.
func TestForms(t *testing.T) {
	const boundary = "a b=1"
	typ := `multipart/form-data; boundary="` + boundary + `"`
	noise := make([]byte, 500<<10)
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(rnd.Uint32())
	}
	copy(noise[1000:], "\r\n--a b=")
	copy(noise[2000:], "\r\n--a b=12\r\n")
	copy(noise[3000:], "--a b=1\r\n")
	speech := string(noise)
	form := func(fields ...field) string { return string(makeForm(t, boundary, fields...)) }
	model := field{name: "model", value: "whisper-large-v3"}
	file := field{"file", "a.wav", speech}
	tests := []struct {
		name, body, model string
		values            int // how many values of that name there are
	}{
		{"case 139: file first", form(file, model), "whisper-large-v3", 1},
		{"model first", form(model, file), "whisper-large-v3", 1},
		{"two files", form(field{"image", "a.png", "x"}, field{"image", "b.png", ""}, model), "whisper-large-v3", 1},
		{"empty parts around", form(field{"prompt", "", ""}, model, field{"x", "", ""}), "whisper-large-v3", 1},
		{"the last of two", form(field{"model", "", "a"}, field{"model", "", "b"}), "b", 2},
		{"blank", form(field{"model", "", "   "}), "   ", 1},
		{"several lines", form(field{"model", "", "a\r\nb"}), "a\r\nb", 1},
		{"no UTF-8", form(field{"model", "", "a\xff"}), "a\uFFFD", 1},
		{"empty", form(field{"model", "", ""}), "", 1},
		{"none", form(file), "", 0},
		{"other names", form(field{"models", "", "x"}, field{"Model", "", "x"}, field{"xmodel", "", "x"}), "", 0},
		{"a file of that name", form(field{"model", "model.bin", "x"}), "", 0},
		{"not closed behind the model", strings.TrimSuffix(form(file, model), "\r\n--a b=1--\r\n"), "", 0},
		{"not closed behind another", strings.TrimSuffix(form(model, file), "\r\n--a b=1--\r\n"), "whisper-large-v3", 1},
		{"behind 1 MiB", form(file, file, file, model), "", 0},
		{"up to 1 MiB", form(model, field{"file", "a", strings.Repeat("x", 2<<20)}), "whisper-large-v3", 1},
		{"nothing", "x", "", 0},
		{"behind the end", form() + form(model), "", 0},
		{"with a preamble", "hello\r\n" + form(model), "whisper-large-v3", 1},
		{"line feeds only", strings.ReplaceAll(form(model), "\r\n", "\n"), "whisper-large-v3", 1},
		{"spaces behind the delimiter", strings.ReplaceAll(form(model), "--a b=1\r\n", "--a b=1 \t\r\n"), "whisper-large-v3", 1},
		{
			"headers in another order and case",
			"--a b=1\r\nContent-Type: text/plain\r\ncontent-DISPOSITION: form-data; name=model\r\n\r\nm\r\n--a b=1--", "m", 1,
		},
		{"an empty content without a line of its own", "--a b=1\r\nContent-Disposition: form-data; name=model\r\n\r\n--a b=1--", "", 1},
		{"no end of the header", "--a b=1\r\nContent-Disposition: form-data; name=model\r\n", "", 0},
		{"a broken header", "--a b=1\r\nContent-Disposition: form-data; name=\"model\r\n\r\nm\r\n--a b=1--", "", 0},
	}
	r := NewReader(DefaultOptions())
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var q Request
			err := r.Read("/v1/audio/transcriptions", header{"content-type": {typ}}, []byte(test.body), &q)
			want := error(nil)
			if test.model == "" {
				want = MissingModel
			}
			if !errors.Is(err, want) {
				t.Errorf("fault %v, want %v", err, want)
			}
			if q.Model != test.model || len(q.ModelSpans) != test.values {
				t.Errorf("model %q of %d values, want %q of %d", q.Model, len(q.ModelSpans), test.model, test.values)
			}
			if q.HasPrompt || len(q.Text) > 0 || q.Length != 0 || !q.Form {
				t.Errorf("prompt %t, form %t", q.HasPrompt, q.Form)
			}
		})
	}
	t.Run("with another model", func(t *testing.T) {
		var q Request
		body := makeForm(t, boundary, file, model, field{"x", "", "y"}, model)
		if err := r.Read("/v1/audio/transcriptions", header{"content-type": {typ}}, body, &q); err != nil {
			t.Fatal(err)
		}
		other := field{name: "model", value: `a"b`}
		want := makeForm(t, boundary, file, other, field{"x", "", "y"}, other)
		if got := q.AppendModel(nil, body, other.value); !bytes.Equal(got, want) {
			t.Error("not the same form with other values")
		}
		if n := q.RewrittenLen(len(body), other.value); n != len(want) {
			t.Errorf("length %d, want %d", n, len(want))
		}
	})
	t.Run("no boundary", func(t *testing.T) {
		for _, typ := range []string{"multipart/form-data", "multipart/form-data; boundary=", `multipart/form-data; boundary="x`} {
			var q Request
			if err := r.Read("/x", header{"content-type": {typ}}, makeForm(t, "x", model), &q); !errors.Is(err, MissingModel) {
				t.Errorf("%s: fault %v", typ, err)
			}
		}
	})
}

// FuzzForm holds the form walk against mime/multipart where that accepts the form,
// and lets it find nothing outside of the body elsewhere.
func FuzzForm(f *testing.F) {
	f.Add([]byte("--b\r\nContent-Disposition: form-data; name=model\r\n\r\nm\r\n--b--\r\n"))
	f.Add([]byte("x\n--b\nContent-Disposition: form-data; name=\"model\"\n\nm\n--b\n\n--b--"))
	f.Add([]byte("--b\r\nContent-Disposition: form-data; name=\"model\"; filename=x\r\n\r\n\r\n--bc\r\n--b--"))
	f.Fuzz(func(t *testing.T, body []byte) {
		spans := appendFormModels(nil, body, "multipart/form-data; boundary=b")
		var got []string
		end := 0
		for _, s := range spans {
			if s.Offset < end || s.Length < 0 || s.Offset+s.Length > len(body) {
				t.Fatalf("spans %v in %d bytes", spans, len(body))
			}
			end = s.Offset + s.Length
			got = append(got, string(body[s.Offset:end]))
		}
		form, err := multipart.NewReader(bytes.NewReader(body), "b").ReadForm(1 << 20)
		if err != nil || bytes.Contains(bytes.ReplaceAll(body, []byte("\r\n"), nil), []byte("\r")) {
			return
		}
		for i, v := range form.Value["model"] {
			if i >= len(got) || got[i] != v {
				t.Fatalf("values %q, mime/multipart has %q", got, form.Value["model"])
			}
		}
	})
}
