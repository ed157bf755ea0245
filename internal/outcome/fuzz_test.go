package outcome

import (
	"testing"
	"time"
	"unicode/utf8"

	logv3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	alsv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	"google.golang.org/protobuf/proto"

	"github.com/pointsman/pointsman/internal/fakeenvoy"
	"github.com/pointsman/pointsman/internal/ledger"
)

// Whatever a message holds: no panic, and nothing out of range.
func FuzzEntries(f *testing.F) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, a := range []fakeenvoy.Attempt{
		{Decision: "7", Cluster: "pm|a", Number: 1, Status: 200, FirstHeader: 1, FirstBody: 1, Total: time.Hour},
		{Decision: "7", Cluster: "pm|a", Number: 2, Status: 503, RetryAfter: "Sun, 01 Mar 2026 12:01:00 GMT"},
		{},
	} {
		seed, err := proto.Marshal(&alsv3.StreamAccessLogsMessage{LogEntries: &alsv3.StreamAccessLogsMessage_HttpLogs{
			HttpLogs: &alsv3.StreamAccessLogsMessage_HTTPAccessLogEntries{LogEntry: []*logv3.HTTPAccessLogEntry{a.Entry()}},
		}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var m alsv3.StreamAccessLogsMessage
		if proto.Unmarshal(data, &m) != nil {
			return
		}
		for _, e := range m.GetHttpLogs().GetLogEntry() {
			var a ledger.Attempt
			readAttempt(e, now, &a)
			if a.Number < 0 || a.FirstHeader < 0 || a.FirstBody < 0 || a.Total < 0 || a.RetryAfter < -1 {
				t.Errorf("out of range: %+v", a)
			}
			if ans, ok := readAnswer(e); ok && (len(ans.Code) > maxCode || !utf8.ValidString(ans.Code) || ans.Status == 0) {
				t.Errorf("out of range: %+v", ans)
			}
		}
	})
}

func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{"7", "1.5", "Sun, 01 Mar 2026 12:01:00 GMT, 7", "Sunday, 01-Mar-26 12:01:00 GMT", "Sun Mar  1 12:01:00 2026"} {
		f.Add(seed)
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, value string) {
		if got := retryAfter(value, now); got < -1 {
			t.Errorf("retryAfter(%q) = %d", value, got)
		}
	})
}
