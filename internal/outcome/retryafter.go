package outcome

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pointsman/pointsman/internal/tracker"
)

// retryAfter reads a Retry-After header, heard now: whole seconds, or a date of one of
// HTTP's three forms, in the future. A number too large to represent is the
// longest time there is. Anything else is tracker.NoHint.
//
// Envoy joins repeated headers with commas, and the first counts; but two of the
// three forms of a date hold a comma themselves.
func retryAfter(value string, now time.Time) time.Duration {
	first, rest, _ := strings.Cut(value, ",")
	first = strings.TrimSpace(first)
	if digits(first) {
		const longest = math.MaxInt64 / int64(time.Second)
		secs, err := strconv.ParseInt(first, 10, 64)
		if err != nil || secs > longest {
			return math.MaxInt64
		}
		return time.Duration(secs) * time.Second
	}
	date, err := http.ParseTime(first) // asctime's form
	if err != nil {
		second, _, _ := strings.Cut(rest, ",")
		if date, err = http.ParseTime(first + "," + strings.TrimRight(second, " \t")); err != nil {
			return tracker.NoHint
		}
	}
	if d := date.Sub(now); d > 0 {
		return d
	}
	return tracker.NoHint
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
