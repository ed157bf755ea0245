package ledger

import (
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/config"
	"github.com/pointsman/pointsman/internal/request"
	"github.com/pointsman/pointsman/internal/routing"
	"github.com/pointsman/pointsman/internal/tracker"
)

// deaf is a Sink that listens to nothing.
type deaf struct{}

func (deaf) Decided(*routing.Decision)                {}
func (deaf) Attempted(string, string, *Attempt, bool) {}
func (deaf) Answered(Answer)                          {}
func (deaf) Closed(Record)                            {}
func (deaf) Late()                                    {}

// A request from its decision to its end, by all processors at once: what the one
// lock of the ledger costs is in it.
func BenchmarkRequest(b *testing.B) {
	tr := tracker.New(tracker.Settings{})
	router := routing.NewRouter(tr, time.Now().Add(-time.Hour))
	c := &config.Config{
		Providers: []config.Provider{{Slug: "a"}, {Slug: "b"}},
		Routes: []config.Route{{Model: "m", Strategy: "round_robin", Targets: []config.Target{
			{ID: "a", Weight: 1}, {ID: "b", Weight: 1, ProviderIndex: 1}}}},
	}
	s, err := routing.NewSnapshot(c, tr, nil)
	if err != nil {
		b.Fatal(err)
	}
	router.Swap(s)
	tr.SetReachable("a", true)
	tr.SetReachable("b", true)
	l := New(Options{Prefix: "node-start-", LatencyTTFT: func() bool { return false }, Free: router.Free, Sink: deaf{}})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		q := &request.Request{Model: "m"}
		for pb.Next() {
			d, err := router.Decide(b.Context(), s, q, "")
			if err != nil {
				b.Error(err)
				return
			}
			l.Open(d)
			a := Attempt{Decision: d.ID, Cluster: d.Entry(0).Cluster, Number: 1, Outcome: Complete, Status: 200,
				RetryAfter: tracker.NoHint, Total: time.Millisecond}
			number := d.Number
			l.AttemptEnded(&a)
			l.StreamEnded(number)
		}
	})
}
