package e2e

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestOddBodies is cases 130-136 and 150, and reports 012, 014 and 019, from outside: what is no
// fault reaches the engine byte for byte, but for the model where that is renamed; what is one is
// answered, and the next request is served.
func TestOddBodies(t *testing.T) {
	t.Parallel()
	m, f := readers(t)
	const user = `"messages":[{"role":"user","content":"hi"}]`
	deep := func(levels int) string { // the object is the first
		return `{"model":"M",` + user + `,"x":` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + `}`
	}
	for _, c := range []struct{ name, body string }{
		{"case 130: two messages keys", `{"messages":[{"role":"user","content":"first"}],"model":"M",` + user + `}`},
		{"two model keys", `{"model":"M","x":1,` + user + `,"model":"M"}`},
		{"a model that is none, before one", `{"model":"M",` + user + `,"temperature":0,"model": "M"}`},
		{"case 131: other letter case", `{"MODEL":"nobody","Model":"N","Messages":[{"role":"user","content":"x"}],"model":"M",` + user + `}`},
		{"case 133: a byte-order mark", "\xEF\xBB\xBF" + `{"model":"M",` + user + `}`},
		{"white space", " \t\r\n{ \"model\" :\n\"M\" ,\t" + user + " } \n"},
		{"case 135: half an emoji", `{"model":"M","messages":[{"role":"user","content":"emoji \ud83d"},{"role":"user","content":"\udc00 x"}]}`},
		{"case 135: no characters", `{"model":"M","messages":[{"role":"user","content":"` + "\xff\xfe" + `"}]}`},
		{"case 136: 512 levels", deep(512)},
		{"case 150: numbers and order", `{"z":9007199254740993,"n":18446744073709551617,"model" : "M","f":0.10,"e":1E+2,"a":-0,` + user + ` }`},
		{"report 019: tools and numbers", `{"tools":[{"type":"function","function":{"name":"f"}}],"seed":18446744073709551615,"logit_bias":{"50256":-100},"temperature":1e400,` +
			"\n  " + user + `,"unknown":{"b":1,"a":[ ]},"model":"M"}`},
		{"escapes that need none", `{"mod\u0065l":"M","\u0078":"\/\u00e4",` + user + `}`}, // case 132
	} {
		for model, upstream := range map[string]string{"plain": "plain", "llama": renamed} {
			t.Run(c.name+", "+model, func(t *testing.T) {
				a := m.post(chatPath, strings.ReplaceAll(c.body, `"M"`, `"`+model+`"`))
				f.arrived(t, a, 200, chatPath, strings.ReplaceAll(c.body, `"M"`, `"`+upstream+`"`))
			})
		}
	}
	for _, c := range []struct {
		name, body string
		code       string
	}{
		{"case 134: something behind the value", `{"model":"plain"} x`, "invalid_json"},
		{"two documents", `{"model":"plain"}{"model":"plain"}`, "invalid_json"},
		{"case 136: 513 levels", strings.Replace(deep(513), `"M"`, `"plain"`, 1), "invalid_json"},
		{"10,000 levels", strings.Repeat("[", 10_000), "invalid_json"},
		{"no end", `{`, "invalid_json"},
		{"nothing", ``, "missing_body"},
		{"a list", `[]`, "missing_model"},
		{"null", `null`, "missing_model"},
		{"text", `"x"`, "missing_model"},
		{"a number", `123`, "missing_model"},
		{"model: a number", `{"model":123}`, "missing_model"},
		{"model: null", `{"model":null}`, "missing_model"},
		{"model: a list", `{"model":["plain"]}`, "missing_model"},
		{"model: the last is none", `{"model":"plain","model":7}`, "missing_model"},
		{"model: empty", `{"model":""}`, "missing_model"},
		{"no model", `{"messages":"hi"}`, "missing_model"},
		{"spaces, then an object", strings.Repeat(" ", 1<<20) + `{}`, "missing_model"},
		{"so many models that the body would outgrow its limit", `{` + strings.Repeat(`"model":0,`, 100_000) + `"model":"llama"}`, "body_too_large"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := m.post(chatPath, c.body)
			status := 400
			if c.code == "body_too_large" {
				status = 413
			}
			if code, _ := a.code(t); a.status != status || code != c.code {
				t.Errorf("%d %s, want %s", a.status, a.body, c.code)
			}
			if next := m.post(chatPath, `{"model":"plain",`+user+`}`); next.status != 200 {
				t.Errorf("the next request: %d %s", next.status, next.body)
			}
		})
	}
	t.Run("a body that is as large as limits.body when its model is renamed, and one that is larger", func(t *testing.T) {
		head, tail := `{"model":"llama","messages":[{"role":"user","content":"`, `"}]}`
		body := head + strings.Repeat("x", 2<<20-len(head)-len(tail)-len(renamed)+len("llama")) + tail
		f.arrived(t, m.post(chatPath, body), 200, chatPath, strings.Replace(body, "llama", renamed, 1))
		a := m.post(chatPath, body+" ")
		if code, _ := a.code(t); a.status != 413 || code != "body_too_large" {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
	m.settled()
}

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}

func deflated(text string) string {
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}

// TestEncodings is cases 137 and 138 from outside: a compressed body is forwarded as it came, or
// decoded where the model is renamed.
func TestEncodings(t *testing.T) {
	t.Parallel()
	m, f := readers(t)
	body := func(model string) string { return chat(model, strings.Repeat("compress me ", 1000), false, 1) }
	for _, c := range []struct {
		name, encoding string
		sent           func(text string) string
	}{
		{"gzip", "gzip", zipped},
		{"two gzip members", "gzip", func(text string) string { return zipped(text[:100]) + zipped(text[100:]) }},
		{"x-gzip", "x-gzip", zipped},
		{"deflate", "deflate", deflated},
		{"as it is", "identity", func(text string) string { return text }},
	} {
		t.Run(c.name, func(t *testing.T) {
			sent := c.sent(body("plain"))
			a := m.post(chatPath, sent, "content-encoding", c.encoding)
			last, _ := f[0].Last()
			if a.servedBy() != "a" || last.BodySHA256 != sum(sent) || last.Headers.Get("content-encoding") != c.encoding {
				t.Errorf("status %d, engine saw %d bytes of %d, headers %v", a.status, last.BodyBytes, len(sent), last.Headers)
			}
			a = m.post(chatPath, c.sent(body("llama")), "content-encoding", c.encoding)
			f.arrived(t, a, 200, chatPath, body(renamed))
			if last, _ := f.named(a.servedBy()).Last(); c.encoding != "identity" && last.Headers.Get("content-encoding") != "" {
				t.Errorf("content-encoding %q of a decoded body", last.Headers.Get("content-encoding"))
			}
		})
	}
	whole := zipped(body("plain"))
	for _, c := range []struct {
		name, encoding, body string
		status               int
		code                 string
	}{
		{"cut gzip", "gzip", whole[:len(whole)-9], 400, "invalid_encoding"},
		{"corrupt gzip", "gzip", whole[:20] + "\x00\xff\x00\xff" + whole[24:], 400, "invalid_encoding"},
		{"no gzip at all", "gzip", body("plain"), 400, "invalid_encoding"},
		{"a bomb", "gzip", zipped(chat("plain", strings.Repeat("0", 3<<20), false, 1)), 413, "body_too_large"},
		{"br", "br", whole, 415, "unsupported_encoding"},
		{"zstd", "zstd", whole, 415, "unsupported_encoding"},
		{"stacked", "gzip, gzip", zipped(whole), 415, "unsupported_encoding"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := m.post(chatPath, c.body, "content-encoding", c.encoding)
			if code, _ := a.code(t); a.status != c.status || code != c.code {
				t.Errorf("%d %s, want %d %s", a.status, a.body, c.status, c.code)
			}
		})
	}
	m.settled()
}

// formBody is a form of parts, each a header's parameters and a content, between these boundaries.
func formBody(boundary string, parts ...[2]string) string {
	var b strings.Builder
	for _, p := range parts {
		fmt.Fprintf(&b, "--%s\r\nContent-Disposition: form-data; %s\r\n\r\n%s\r\n", boundary, p[0], p[1])
	}
	return b.String() + "--" + boundary + "--\r\n"
}

// TestForms is case 139 and report 009: a form is routed by its field model.
func TestForms(t *testing.T) {
	t.Parallel()
	m, f := readers(t)
	const boundary = "a b=1"
	contentType := fmt.Sprintf("multipart/form-data; boundary=%q", boundary)
	noise := strings.Repeat("\r\n--a b=\r\n\x00\xff--a b=1", 50_000)
	file := [2]string{`name="file"; filename="a.wav"`, noise}
	model := func(name string) [2]string { return [2]string{`name="model"`, name} }
	post := func(path, body string) answer {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, m.base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("content-type", contentType)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		data, err := io.ReadAll(resp.Body)
		return answer{status: resp.StatusCode, header: resp.Header, body: string(data), err: err}
	}
	form := func(model string) []string {
		field := [2]string{`name="model"`, model}
		return []string{
			formBody(boundary, file, field),
			formBody(boundary, field, file),
			formBody(boundary, [2]string{`name="prompt"`, "model"}, field, [2]string{`name="model"; filename="m"`, "none"}, file),
		}
	}
	for i := range form("") {
		for _, path := range []string{"/v1/audio/transcriptions", "/v1/images/edits"} {
			f.arrived(t, post(path, form("plain")[i]), 200, path, form("plain")[i])
			f.arrived(t, post(path, form("llama")[i]), 200, path, form(renamed)[i])
		}
	}
	const path = "/v1/audio/transcriptions"
	open := strings.TrimSuffix(formBody(boundary, model("plain"), file), "--a b=1--\r\n")
	f.arrived(t, post(path, open), 400, path, open) // whether it may be broken is the engine's affair
	for _, c := range []struct {
		name, body string
		status     int
		code       string
	}{
		{"blank model", formBody(boundary, model("   "), file), 404, "model_not_found"},
		{"empty model", formBody(boundary, model(""), file), 400, "missing_model"},
		{"no model", formBody(boundary, file), 400, "missing_model"},
		{"broken before the model", "--a b=1\r\nContent-Disposition: form-data; name=\"mo", 400, "missing_model"},
	} {
		a := post(path, c.body)
		if code, _ := a.code(t); a.status != c.status || code != c.code {
			t.Errorf("%s: %d %s", c.name, a.status, a.body)
		}
	}
	m.settled()
}

// TestChunks is report 016: an upload in chunks of any size arrives as it was sent, also when
// the client first asks whether to send it.
func TestChunks(t *testing.T) {
	t.Parallel()
	m, f := readers(t)
	for _, size := range []int{1, 7, 65536} {
		for _, expect := range []string{"", "Expect: 100-continue\r\n"} {
			body := chat("plain", strings.Repeat("chunk ", 1000+10*size/7), false, 1)
			conn, err := (&net.Dialer{Timeout: patience}).DialContext(t.Context(), "tcp", strings.TrimPrefix(m.base, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			_ = conn.SetDeadline(time.Now().Add(patience))
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n%s\r\n", chatPath, expect)
			answers := bufio.NewReader(conn)
			if expect != "" {
				if resp, err := http.ReadResponse(answers, nil); err != nil || resp.StatusCode != http.StatusContinue {
					t.Fatalf("asked whether to send: %v %v", resp, err)
				}
			}
			w := bufio.NewWriter(conn)
			for rest := body; rest != ""; {
				n := min(size, len(rest))
				fmt.Fprintf(w, "%x\r\n%s\r\n", n, rest[:n])
				rest = rest[n:]
			}
			fmt.Fprint(w, "0\r\n\r\n")
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(answers, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			last, _ := f[0].Last()
			if resp.StatusCode != 200 || last.BodySHA256 != sum(body) {
				t.Errorf("chunks of %d, %q: status %d, engine saw %d bytes of %d", size, expect, resp.StatusCode, last.BodyBytes, len(body))
			}
		}
	}
	m.settled()
}

// TestCompressedAnswers is report 033: what an engine compressed reaches the client as it was sent.
func TestCompressedAnswers(t *testing.T) {
	t.Parallel()
	var sent bytes.Buffer
	zw := gzip.NewWriter(&sent)
	var flushed []int
	for i := range 5 {
		_, _ = fmt.Fprintf(zw, "data: {\"n\":%d}\n\n", i)
		_ = zw.Flush()
		flushed = append(flushed, sent.Len())
	}
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		if r.URL.Path == "/v1/completions" {
			return // no bytes
		}
		w.Header().Set("Content-Type", "text/event-stream")
		from := 0
		for _, to := range flushed {
			_, _ = w.Write(sent.Bytes()[from:to])
			_ = http.NewResponseController(w).Flush()
			from = to
		}
	}))
	t.Cleanup(engine.Close)
	m := newMesh(t, "providers: [{name: z, url: \""+engine.URL+"\"}]\nroutes: [{model: m, targets: [{provider: z}]}]\n")
	m.reachable(1)
	for path, want := range map[string]string{"/v1/completions": "", chatPath: sent.String()} {
		a := m.post(path, `{"model":"m","stream":true}`, "accept-encoding", "gzip")
		if a.status != 200 || a.err != nil || a.body != want || a.header.Get("content-encoding") != "gzip" {
			t.Errorf("%s: %d, %d bytes of %d, %v %v", path, a.status, len(a.body), len(want), a.header, a.err)
		}
	}
	m.settled()
}
