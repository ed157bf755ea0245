package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pointsman/pointsman/internal/enginesim"
)

// readers is a mesh for tests of what is read: warm remembers prompts, llama is known to
// the engines by a longer name, plain has one engine. Bodies are limited to 2 MiB.
func readers(t *testing.T) (*mesh, fleet) {
	t.Helper()
	f := newFleet(t, 3, enginesim.Options{})
	m := newMesh(t, "limits: {body: 2MiB}\nsession: {headers: [X-Tenant, x-session-id], body_fields: [session_id, user]}\n"+
		f.providers()+"routes:\n"+f.route("warm", "cache_aware", "warm")+f.route("llama", "round_robin", renamed)+f[:1].route("plain", "round_robin", "plain"))
	m.reachable(7)
	return m, f
}

// renamed is what the engines call llama.
const renamed = "meta-llama/Llama-3.1-70B-Instruct"

// learned posts, and waits until pointsman has heard how that ended.
func (m *mesh) learned(path, body string, headers ...string) answer {
	m.t.Helper()
	before := m.metric("pointsman_outcomes_total")
	a := m.post(path, body, headers...)
	eventually(m.t, "the attempt is told", func() error {
		if m.metric("pointsman_outcomes_total") == before {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	return a
}

// arrived checks that the answer is the engine's, of this status, and that the engine
// was sent these bytes on this path.
func (f fleet) arrived(t *testing.T, a answer, status int, path, body string) {
	t.Helper()
	e := f.named(a.servedBy())
	if e == nil || a.status != status {
		t.Fatalf("status %d by %q, want %d: %.300s", a.status, a.servedBy(), status, a.body)
	}
	last, _ := e.Last()
	if last.Path != path || last.BodySHA256 != sum(body) || last.ContentLength != int64(len(body)) {
		t.Errorf("engine saw %s, %d bytes (length said: %d), not the %d sent, or other ones", last.Path, last.BodyBytes, last.ContentLength, len(body))
	}
}

// TestPaths is cases 114-118, 126, 128-129, 140-142, 355-356 and 358, and reports 001 to 005 and 020, from
// outside: every path is served, by the engine it was decided for, with the bytes
// that were sent, and a prompt that comes again goes where it was before.
func TestPaths(t *testing.T) {
	t.Parallel()
	m, f := readers(t)
	type request struct {
		name, path, body string
		status           int // of the engine; 0 = 200
	}
	tests := []request{
		{"a query", chatPath + "?api-version=2024-10-21", `{"model":"warm","messages":[{"role":"user","content":"N"}]}`, 0},
		{"two queries", "/v1/completions?x=1&x=2", `{"model":"warm","prompt":"N"}`, 0},
		{"a slash at the end", chatPath + "/", `{"model":"warm","messages":[{"role":"user","content":"N"}]}`, 0},
		{"a rendered chat", chatPath + "/render", `{"model":"warm","messages":[{"role":"user","content":"N"}]}`, 0},
		{"a prefix", "/openai" + chatPath, `{"model":"warm","messages":[{"role":"user","content":"N"}]}`, 0},
		{"two slashes", "/" + chatPath, `{"model":"warm","messages":[{"role":"user","content":"N"}]}`, 0},
		{"system blocks", "/v1/messages?beta=true", `{"model":"warm","max_tokens":9,"system":[{"type":"text","text":"N"}],"tools":[{"name":"f","input_schema":{}}],"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"42"}]}]}]}`, 0},
		{"a system string, other tools", "/v1/messages", `{"model":"warm","max_tokens":9,"system":"N","tools":[{"name":"g","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"x"}]}`, 0},
		{"rendered messages", "/v1/messages/render", `{"model":"warm","messages":[{"role":"user","content":"N"}]}`, 0},
		{"counted messages", "/v1/messages/count_tokens", `{"model":"warm","messages":[{"role":"user","content":"N"}]}`, 0},
		{"instructions and a string", "/v1/responses", `{"model":"warm","instructions":"be kind","input":"N"}`, 0},
		{"function call and output", "/v1/responses", `{"model":"warm","input":[{"role":"user","content":[{"type":"input_text","text":"N"}]},{"type":"function_call","call_id":"c","name":"sh","arguments":"{\"cmd\":\"ls\"}"},{"type":"function_call_output","call_id":"c","output":"a b"},{"type":"reasoning","summary":[]}]}`, 0},
		{"tokens in", "/inference/v1/generate", `{"model":"warm","token_ids":[1001,1002,1003,1004,1005],"sampling_params":{"max_tokens":2}}`, 0},
		{"tokens in, with a picture", "/inference/v1/generate", `{"model":"warm","token_ids":[2001,2002,2003,2004,2005],"features":{"mm_hashes":{"image":["N"]}},"sampling_params":{}}`, 0},
		{"SGLang, text", "/generate", `{"model":"warm","text":"N","sampling_params":{"max_new_tokens":3}}`, 0},
		{"SGLang, ids", "/generate", `{"model":"warm","input_ids":[3001,3002,3003,3004,3005]}`, 0},
		{"cut tokens", "/v1/completions", `{"model":"warm","truncate_prompt_tokens":100,"prompt":[4001,4002,4003,4004,4005]}`, 0},
		{"null content, no content, no role", chatPath, `{"model":"warm","messages":[{"content":"N"},{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"sh","arguments":"{\"cmd\":\"ls\"}"}}]},{"role":"tool","tool_call_id":"c1","content":"a b"},{"role":"assistant","reasoning":"hm"}]}`, 0},
		{"an unknown path: tokenize", "/tokenize", `{"model":"warm","prompt":"N"}`, 0},
		{"an unknown path: rerank", "/v1/rerank", `{"model":"warm","query":"N","documents":["a","b"]}`, 0},
		{"an unknown path: score", "/score", `{"model":"warm","text_1":"N","text_2":"b"}`, 0},
		{"an unknown path: pictures", "/v1/images/generations", `{"model":"warm","prompt":"N"}`, 0},
		{"a path unknown to the engine", "/v1/frobnicate?x", `{"model":"warm","x":"N"}`, http.StatusNotFound},
		{"no messages", chatPath, `{"model":"warm","x":"N"}`, http.StatusBadRequest},
		{"messages of an odd type", chatPath, `{"model":"warm","messages":"N"}`, http.StatusBadRequest},
		{"empty messages", chatPath, `{"model":"warm","messages":[]}`, http.StatusBadRequest},
		{"an element that is a number", chatPath, `{"model":"warm","messages":[{"role":"user","content":"N"},7]}`, http.StatusBadRequest},
		{"no ids: a sign", "/v1/completions", `{"model":"warm","prompt":[1,-2]}`, http.StatusBadRequest},
		{"no ids: a fraction", "/v1/completions", `{"model":"warm","prompt":[1.5]}`, http.StatusBadRequest},
	}
	for i, image := range []string{ // report 004
		`{"type":"image_url","image_url":{"url":"https://x.example/a.png"}}`, `{"type":"image_url","image_url":"https://x.example/a.png"}`,
		`{"type":"image_url","url":"https://x.example/a.png"}`, `{"type":"input_audio","input_audio":{"data":"AA==","format":"wav"}}`,
		`{"type":"video_url","video_url":{"url":"https://x.example/a.mp4"}}`, `{"type":"hologram","x":[1,{"y":null}]}`,
	} {
		tests = append(tests, request{fmt.Sprint("part ", i), chatPath, `{"model":"warm","messages":[{"role":"user","content":[{"type":"text","text":"N describe "},` + image + `,{"type":"text","text":"at this"}]}]}`, 0})
	}
	tests = append(tests, request{"no parts", chatPath, `{"model":"warm","messages":[{"role":"user","content":"N"},{"role":"user","content":[]}]}`, 0})
	for _, api := range [][2]string{{"/v1/completions", "prompt"}, {"/v1/embeddings", "input"}} { // report 003
		for i, p := range []struct {
			prompt string
			status int
		}{{`"N hi"`, 0}, {`["N hi","there"]`, 0}, {`[1,2,3]`, 0}, {`[[1,2],[3,4]]`, 0}, {`""`, 400}, {`[]`, 400}} {
			tests = append(tests, request{fmt.Sprint(api[1], " ", i), api[0], `{"model":"warm","` + api[1] + `":` + p.prompt + `}`, p.status})
		}
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := &mesh{t: t, base: m.base, admin: m.admin}
			// Prompts that share nothing: the number comes first.
			body := strings.Replace(test.body, "N", fmt.Sprintf("%d%s", i, strings.Repeat(fmt.Sprint(" number ", i), 20)), 1)
			status := max(test.status, http.StatusOK)
			first := m.learned(test.path, body)
			f.arrived(t, first, status, test.path, body)
			for range 3 {
				again := m.learned(test.path, body)
				f.arrived(t, again, status, test.path, body)
				if status == http.StatusOK && again.servedBy() != first.servedBy() {
					t.Errorf("served by %s, and before by %s", again.servedBy(), first.servedBy())
				}
			}
		})
	}
	m.settled()
}

// A GET without a body to a path that needs none, and an upgrade (report 045: answered 501, as documented).
func TestRequestsWithoutBody(t *testing.T) {
	t.Parallel()
	m, _ := readers(t)
	upgrade := []string{"connection", "upgrade", "upgrade", "websocket", "sec-websocket-version", "13", "sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="}
	for _, c := range []struct {
		name, path string
		headers    []string
		status     int
		code       string
	}{
		{"upgrade", "/v1/realtime?model=plain", upgrade, 501, "not_supported"},
		{"upgrade on a path with a body", chatPath, upgrade, 501, "not_supported"},
		{"plain GET", "/v1/realtime?model=plain", nil, 400, "missing_model"},
		{"GET of a path with a body", chatPath, nil, 400, "missing_body"},
	} {
		a, err := do(t.Context(), http.MethodGet, m.base+c.path, "", c.headers...)
		if err != nil {
			t.Fatal(err)
		}
		if code, _ := a.code(t); a.status != c.status || code != c.code {
			t.Errorf("%s: %d %s", c.name, a.status, a.body)
		}
	}
	m.settled()
}

// TestSalts is case 414: requests with different salts share no prefix.
func TestSalts(t *testing.T) {
	t.Parallel()
	m, _ := readers(t)
	prompt := strings.Repeat("one prompt for all ", 30)
	salted := func(salt int) string {
		return fmt.Sprintf(`{"model":"warm","cache_salt":"salt %d","messages":[{"role":"user","content":%q}]}`, salt, prompt)
	}
	const salts = 6
	var by [salts]string
	engines := map[string]bool{}
	for i := range salts {
		by[i] = m.learned(chatPath, salted(i)).servedBy()
		engines[by[i]] = true
	}
	if len(engines) < 2 {
		t.Errorf("all %d salts on %v, as if they shared the prompt", salts, engines)
	}
	for i := range salts {
		if got := m.learned(chatPath, salted(i)).servedBy(); got != by[i] {
			t.Errorf("salt %d: served by %q, and before by %q", i, got, by[i])
		}
	}
	m.settled()
}

// TestRequestHeaders is cases 143-146, from outside: token ids, good or bad, never reach the
// engine; session headers of any letter case do, unchanged.
func TestRequestHeaders(t *testing.T) {
	t.Parallel()
	m, f := readers(t)
	many := strings.TrimSuffix(strings.Repeat("128000,", 7000), ",") // 48 KiB
	for _, ids := range []string{"1, 2 ,3", "1,,2", "1,x", "4294967296", "-1", many} {
		for _, model := range []string{"plain", "llama"} {
			body := `{"model":"` + model + `","prompt":[1,2,3]}`
			a := m.post("/v1/completions", body, "X-Pointsman-Token-Ids", ids, "x-pointsman-token-ids", "7",
				"X-ROLTER-vLLM-Token-IDs", "5,6", "X-SESSION-ID", " s 1 ", "x-Tenant", "t", "X-Other-Ids", "1")
			if a.status != 200 {
				t.Fatalf("ids %.20q: %d %s", ids, a.status, a.body)
			}
			last, _ := f.named(a.servedBy()).Last()
			for name, want := range map[string]string{
				"X-Pointsman-Token-Ids": "", "X-Rolter-Vllm-Token-Ids": "", "X-Session-Id": "s 1", "X-Tenant": "t", "X-Other-Ids": "1",
			} {
				if got := last.Headers.Get(name); got != want {
					t.Errorf("ids %.20q: engine saw %s: %.40q, want %q", ids, name, got, want)
				}
			}
		}
	}
	m.settled()
}
