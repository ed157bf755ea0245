package extproc_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/fakeenvoy"
)

// Headers with token ids end here, however they are written and whether they can be read,
// unless the file says otherwise; session headers go on.
func TestTokenHeaders(t *testing.T) {
	names := []string{"x-pointsman-token-ids", "x-rolter-vllm-token-ids"}
	for _, test := range []struct {
		name, settings string
		stays          bool
	}{
		{"by default", "", false},
		{"said so", "affinity: {strip_token_ids: true}", false},
		{"not stripped", "affinity: {strip_token_ids: false}", true},
		{"a proxy that is not ours", "envoy: {clusters: external}", false},
		{"not ours, not stripped", "envoy: {clusters: external}\naffinity: {strip_token_ids: false}", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, oneRoute+test.settings+"\n")
			for _, stream := range []string{`{"model":"m"}`, `{"model":"m","stream":true}`} {
				x := w.ask(fakeenvoy.Request{Body: []byte(stream), Header: [][2]string{
					{names[0], "1,2,3"}, {names[1], "no ids"}, {names[0], "4"}, {"x-session-id", "s"},
				}})
				if x.Answer != nil {
					t.Fatalf("answered: %+v", x.Answer)
				}
				for _, name := range names {
					if stays := x.Header.Get(name) != ""; stays != test.stays {
						t.Errorf("%s reaches the engine: %t", name, stays)
					}
				}
				if x.Header.Get("x-session-id") != "s" {
					t.Errorf("the session header is gone")
				}
				w.end(x)
			}
			w.wantIdle()
		})
	}
}

// A reload changes what is stripped, also of a pool that is taken over as it is.
func TestTokenHeadersAfterReload(t *testing.T) {
	w := newWorld(t, oneRoute)
	for _, strip := range []string{"true", "false", "true"} {
		w.install(parse(t, oneRoute+"affinity: {strip_token_ids: "+strip+"}\n"))
		r := chat("m")
		r.Header = append(r.Header, [2]string{"x-pointsman-token-ids", "1"})
		x := w.ask(r)
		if gone := x.Header.Get("x-pointsman-token-ids") == ""; gone != (strip == "true") {
			t.Errorf("strip_token_ids %s: gone is %t", strip, gone)
		}
		w.end(x)
	}
	w.wantIdle()
}

// models is a body of n members called model, the last of which names m.
func models(n int) []byte {
	return []byte("{" + strings.Repeat(`"model":0,`, n-1) + `"model":"m"}`)
}

// A body of very many model keys is rewritten in time that grows as it does, and refused
// before it outgrows what may be sent.
func TestManyModels(t *testing.T) {
	const long = 250
	name := strings.Repeat("n", long)
	yaml := providers + `
limits: {body: 2MiB} # 200,000 keys would become 52 MB
routes:
  - {model: m, targets: [{provider: a, model: ` + name + `, id: a/m}, {provider: b, model: ` + name + `, id: b/m}]}
`
	w := newWorld(t, yaml)
	x := w.ask(fakeenvoy.Request{Body: models(1000)})
	if want := bytes.ReplaceAll(bytes.ReplaceAll(models(1000), []byte(`"m"`), []byte("0")), []byte("0"), []byte(`"`+name+`"`)); !bytes.Equal(x.Body, want) {
		t.Errorf("%d bytes to the upstream, want %d", len(x.Body), len(want))
	}
	w.end(x)
	begin := time.Now()
	x = w.ask(fakeenvoy.Request{Body: models(200_000)})
	if x.Answer == nil || x.Answer.Status != 413 || !strings.Contains(x.Answer.Body, "body_too_large") {
		t.Fatalf("answer %+v, want 413", x.Answer)
	}
	if err := x.WaitEnd(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > patience/2 {
		t.Errorf("took %s", took)
	}
	w.wantIdle()
}
