package outcome

import (
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/tracker"
)

// Cases 212-214, the reading of the header; what the tracker makes of the hint is tested
// where both meet.
func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ahead, past := now.Add(90*time.Second), now.Add(-90*time.Second)
	tests := []struct {
		value string
		want  time.Duration
	}{
		{"", tracker.NoHint},
		{"7", 7 * time.Second},
		{"1", time.Second},
		{"0", 0},
		{"007", 7 * time.Second},
		{" 7\t", 7 * time.Second},
		{"9999", 9999 * time.Second},
		{"9223372036", 9223372036 * time.Second},
		{"9223372037", math.MaxInt64},
		{"123456789012345678901234567890", math.MaxInt64},

		{ahead.Format(http.TimeFormat), 90 * time.Second},
		{ahead.Format("Monday, 02-Jan-06 15:04:05 GMT"), 90 * time.Second},
		{ahead.Format(time.ANSIC), 90 * time.Second},
		{past.Format(http.TimeFormat), tracker.NoHint},
		{past.Format("Monday, 02-Jan-06 15:04:05 GMT"), tracker.NoHint},
		{past.Format(time.ANSIC), tracker.NoHint},
		{now.Format(http.TimeFormat), tracker.NoHint},

		// The first of a repeated header counts.
		{"7,60", 7 * time.Second},
		{"7, 60", 7 * time.Second},
		{"soon,60", tracker.NoHint},
		{",60", tracker.NoHint},
		{ahead.Format(http.TimeFormat) + ",60", 90 * time.Second},
		{ahead.Format(time.ANSIC) + "," + past.Format(http.TimeFormat), 90 * time.Second},
		{past.Format(http.TimeFormat) + "," + ahead.Format(http.TimeFormat), tracker.NoHint},

		{"1.5", tracker.NoHint},
		{"-3", tracker.NoHint},
		{"+3", tracker.NoHint},
		{"3s", tracker.NoHint},
		{"0x10", tracker.NoHint},
		{"soon", tracker.NoHint},
		{"Sun, 99 Nov 2026 00:00:00 GMT", tracker.NoHint},
		{"\x00\xff", tracker.NoHint},
	}
	for _, test := range tests {
		if got := retryAfter(test.value, now); got != test.want {
			t.Errorf("retryAfter(%q) = %s, want %s", test.value, got, test.want)
		}
	}
}
