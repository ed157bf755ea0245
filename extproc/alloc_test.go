//go:build !race

package extproc

import (
	"testing"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/pointsman/pointsman/internal/config"
	"github.com/pointsman/pointsman/internal/routing"
	"github.com/pointsman/pointsman/internal/tracker"
)

// Making a reply allocates nothing, also when the body is rewritten.
func TestReplyAllocatesNothing(t *testing.T) {
	cfg, err := config.Parse("test.yaml", []byte(`
providers: [{name: a, url: "http://127.0.0.1:1"}, {name: b, url: "http://127.0.0.1:2"}]
routes: [{model: m, targets: [{provider: a, model: up}, {provider: b, model: up}]}]
`))
	if err != nil {
		t.Fatal(err)
	}
	track := tracker.New(tracker.Settings{})
	snapshot, err := routing.NewSnapshot(cfg, track, nil)
	if err != nil {
		t.Fatal(err)
	}
	track.SetReachable("a/up", true)
	track.SetReachable("b/up", true)
	router := routing.NewRouter(track, time.Now())
	router.Swap(snapshot)
	s := New(Options{})
	used := s.take()
	body := []byte(`{"model":"m","stream":true}`)
	if err := snapshot.Reader.Read("/v1/completions", &headers{}, body, &used.request); err != nil {
		t.Fatal(err)
	}
	d, err := router.Decide(t.Context(), snapshot, &used.request, "")
	if err != nil {
		t.Fatal(err)
	}
	d.ID = "node-1-t8k2qm-3mv"
	var out *extprocv3.ProcessingResponse
	if n := testing.AllocsPerRun(100, func() { out = used.reply(s.preparedFor(snapshot), d, body, &credentials{}) }); n != 0 {
		t.Errorf("%v allocations per reply", n)
	}
	if got := string(out.GetRequestBody().GetResponse().GetBodyMutation().GetBody()); got != `{"model":"up","stream":true}` {
		t.Errorf("body %s", got)
	}
	router.Free(d)
}
