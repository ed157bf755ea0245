package extproc

import (
	"slices"
	"strings"
	"testing"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pointsman/pointsman/internal/config"
	"github.com/pointsman/pointsman/internal/request"
	"github.com/pointsman/pointsman/internal/routing"
	"github.com/pointsman/pointsman/internal/tracker"
	"github.com/pointsman/pointsman/internal/wire"
)

// The metadata that is put together by hand is what the protobuf library would encode,
// for lengths of one, two and three bytes.
func TestAppendMetadata(t *testing.T) {
	for _, clusters := range [][]string{
		{"pm|a/m"},
		{"pm|a/m", "pm|b/m", "pm|c/m"},
		{strings.Repeat("a", 60), strings.Repeat("b", 127), strings.Repeat("c", 128), strings.Repeat("d", 20_000)},
		{"ü-gpu 1", "a\nb", `"`},
	} {
		var groups [][]byte
		var list []any
		for _, c := range clusters {
			groups = append(groups, (&prepared{}).prepareTarget(&routing.Target{Cluster: c}).group)
			list = append(list, map[string]any{
				"name": c, "clusters": []any{map[string]any{"cluster_name": c, "weight": 1}},
			})
		}
		var fields []byte
		fields = appendText(fields, wire.KeyModel, clusters[0])
		fields = appendTrue(fields, wire.KeyForm)
		fields = appendText(fields, wire.KeyAsked, "a\xff")
		spans := make([]request.Span, len(clusters[0]))
		var pairs []any
		for i := range spans {
			spans[i] = request.Span{Offset: i << i, Length: i}
			pairs = append(pairs, []any{float64(i << i), float64(i)})
		}
		fields = appendSpans(fields, spans)
		want, err := structpb.NewStruct(map[string]any{
			wire.DecisionNamespace: map[string]any{
				wire.KeyPriorityGroups: list, wire.KeyModel: clusters[0], wire.KeyForm: true,
				wire.KeyAsked: "a\uFFFD", wire.KeySpans: pairs,
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		var got extprocv3.ProcessingResponse
		if err := proto.Unmarshal(appendMetadata(nil, groups, fields), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&extprocv3.ProcessingResponse{DynamicMetadata: want}, &got, protocmp.Transform()); diff != "" {
			t.Errorf("%.40q (-want +got):\n%s", clusters, diff)
		}
	}
}

// Report 038: a cluster whose name cannot be sent as a header is named in the metadata only.
func TestClusterThatIsNoHeader(t *testing.T) {
	for cluster, ok := range map[string]bool{"pm|a/m": true, "ü-gpu 1": true, "a\nb": false, "a\x00b": false, "a\x7f": false, "": false} {
		if got := (&prepared{}).prepareTarget(&routing.Target{Cluster: cluster}).cluster != nil; got != ok {
			t.Errorf("%q as a header: %v, want %v", cluster, got, ok)
		}
	}
}

// Until the proxies can give each target its own model, the list holds only targets that
// want the same.
func TestListBeforeTheChain(t *testing.T) {
	cfg, err := config.Parse("test.yaml", []byte(`
providers: [{name: a, url: "http://127.0.0.1:1"}, {name: b, url: "http://127.0.0.1:2"}, {name: c, url: "http://127.0.0.1:3"}]
routes: [{model: m, targets: [{provider: a, model: one}, {provider: b, model: one}, {provider: c, model: two}]}]
`))
	if err != nil {
		t.Fatal(err)
	}
	track := tracker.New(tracker.Settings{})
	snapshot, err := routing.NewSnapshot(cfg, track, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a/one", "b/one", "c/two"} {
		track.SetReachable(id, true)
	}
	router := routing.NewRouter(track, time.Now())
	router.Swap(snapshot)
	for chained, want := range map[bool][]int{true: {3, 3, 3}, false: {2, 1, 1}} {
		s := New(Options{Chained: func() bool { return chained }})
		var got []int
		for range 3 { // lists a b c, b c a and c a b
			used := s.take()
			body := []byte(`{"model":"m"}`)
			if err := snapshot.Reader.Read("/v1/completions", &headers{}, body, &used.request); err != nil {
				t.Fatal(err)
			}
			d, err := router.Decide(t.Context(), snapshot, &used.request, "")
			if err != nil {
				t.Fatal(err)
			}
			d.ID = "x"
			out := used.reply(s.preparedFor(snapshot), d, body, &credentials{})
			got = append(got, len(used.groups))
			if changed := out.GetRequestBody().GetResponse().GetBodyMutation() != nil; changed == chained {
				t.Errorf("chained %v: body changed: %v", chained, changed)
			}
			router.Free(d)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("chained %v: lists of %v, want %v", chained, got, want)
		}
	}
}
