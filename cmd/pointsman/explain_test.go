package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zeebo/xxh3"
)

// explained runs explain on a body from standard input.
func explained(t *testing.T, body string, args ...string) (out string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	c := command(&stdout, &stderr)
	c.SetIn(strings.NewReader(body))
	c.SetArgs(append([]string{"explain", "--request", "-"}, args...))
	err = c.Execute()
	return stdout.String(), err
}

func TestExplain(t *testing.T) {
	cfg := filepath.Join(t.TempDir(), "pointsman.yaml")
	const yaml = "providers: [{name: a, url: \"http://10.0.0.1\"}]\nroutes: [{model: m, targets: [{provider: a}]}]\n" +
		"session: {body_fields: [user]}\naffinity: {max_text: 1KiB}\nlimits: {body: 64KiB}\n"
	if err := os.WriteFile(cfg, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	var zipped bytes.Buffer
	zw := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(zw, `{"model":"m","prompt":"hi"}`)
	_ = zw.Close()
	for _, test := range []struct {
		name, body string
		args       []string
		want       []string // lines, with single spaces
	}{
		{"a chat", `{"model":"m","messages":[{"role":"user","content":"what is rust"}]}`, nil,
			[]string{
				"path /v1/chat/completions (the prompt was read)", `model "m"`, "kind unary", "text 19 bytes", "length 19 bytes",
				fmt.Sprintf("digest %016x", xxh3.HashString("user: what is rust\n")), "tokens 4 (length / 4)", "session no", "salt no", "kv score yes", "model at 9-12",
			}},
		{"no prompt", `{"model":"m"}`, []string{"--path", "/v1/chat/completions/?x=1"},
			[]string{"path /v1/chat/completions/ (no prompt in the body, which stands for it)", "length 13 bytes"}},
		{"no prompt, a salt", `{"model":"m","cache_salt":"s"}`, nil,
			[]string{"path /v1/chat/completions (no prompt in the body, which stands for it)", "salt yes"}},
		{"another path", `{"model":"m"}`, []string{"--path", "/v1/rerank"},
			[]string{"path /v1/rerank (not a listed path: the body stands for the prompt)"}},
		{"token ids, a salt that is a list", `{"model":"m","prompt":[1,2,3],"cache_salt":["a"]}`, []string{"--path", "/v1/completions"},
			[]string{"text 5 bytes", "length 12 bytes", "tokens 3 (the ids are known)", "salt no", "kv score no"}},
		{"headers", `{"model":"m"}`, []string{"--header", "X-Session-ID=s", "--header", "x-pointsman-token-ids= 1,2"},
			[]string{"session yes", "tokens 2 (the ids are known)"}},
		{"compressed", zipped.String(), []string{"--path", "/v1/completions", "--header", "content-encoding=gzip"},
			[]string{`model "m"`, "text 2 bytes", "decoded 27 bytes of 51"}},
		{"many models", `{` + strings.Repeat(`"model":0,`, 9) + `"model":"m"}`, nil, []string{
			"model at 9-10, 19-20, 29-30, 39-40, 49-50, 59-60, 69-70, 79-80, and 2 more",
		}},
		{"a form", "--b\r\nContent-Disposition: form-data; name=model\r\n\r\nwhisper\r\n--b--\r\n",
			[]string{"--path", "/v1/audio/transcriptions", "--header", "content-type=multipart/form-data; boundary=b"},
			[]string{"path /v1/audio/transcriptions (a form: no prompt)", `model "whisper"`, "tokens 0 (length / 4)"}},
		{"a configuration", `{"model":"m","user":"u","messages":[{"role":"user","content":"` + strings.Repeat("x", 5000) + `"}]}`, []string{"--config", cfg},
			[]string{"text 1024 bytes", "length 5007 bytes", "session yes"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, err := explained(t, test.body, test.args...)
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			lines := map[string]bool{}
			var all []string
			for line := range strings.Lines(out) {
				line = strings.Join(strings.Fields(line), " ")
				lines[line] = true
				all = append(all, line)
			}
			if test.name == "a chat" {
				if diff := cmp.Diff(test.want, all); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
			for _, line := range test.want {
				if !lines[line] {
					t.Errorf("%q is not in\n%s", line, out)
				}
			}
		})
	}
	for _, test := range []struct {
		name, body string
		args       []string
		out, err   string
	}{
		{"no JSON", `{`, nil, `"code":"invalid_json"`, "refused: 400 invalid_json"},
		{"no JSON, for Messages", `{`, []string{"--path", "/v1/messages/"}, `{"type":"error","error":{"type":"invalid_request_error"`, "refused: 400 invalid_json"},
		{"nothing", ``, nil, `"code":"missing_body"`, "refused: 400 missing_body"},
		{"no model", `{}`, nil, `"code":"missing_model"`, "refused: 400 missing_model"},
		{"br", `{}`, []string{"--header", "content-encoding=br"}, `"code":"unsupported_encoding"`, "refused: 415 unsupported_encoding"},
		{"too large", strings.Repeat(" ", 64<<10) + `{}`, []string{"-c", cfg}, `larger than 65536 bytes`, "refused: 413 body_too_large"},
		{"no header", `{}`, []string{"--header", "x"}, "", `--header "x" is not name=value`},
		{"no configuration", `{}`, []string{"-c", cfg + ".absent"}, "", "cannot be read"},
		{"no file", `{}`, []string{"-r", cfg + ".absent"}, "", "request: open "},
		{"no request", `{}`, []string{"-r", ""}, "", "--request is missing"},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, err := explained(t, test.body, test.args...)
			if err == nil || !strings.Contains(err.Error(), test.err) || !strings.Contains(out, test.out) {
				t.Errorf("error %v, output %s", err, out)
			}
		})
	}
}

// TestDocumentedExplain: docs/requests.md shows what the program prints.
func TestDocumentedExplain(t *testing.T) {
	doc, err := os.ReadFile("../../docs/requests.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(doc), "$ cat chat.json\n")
	body, rest, _ := strings.Cut(rest, "$ pointsman explain --request chat.json\n")
	want, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("no example")
	}
	got, err := explained(t, body)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-documented +printed):\n%s", diff)
	}
}
