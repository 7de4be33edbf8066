package column

import (
	"time"

	"github.com/tierd/tierd/tiering"
)

// Nanos is the stored form of a time inside a segment: 0 for the zero time.
func Nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// NanoTime is the time of Nanos.
func NanoTime(v int64) time.Time {
	if v == 0 {
		return time.Time{}
	}
	return time.Unix(0, v).UTC()
}

// CopyText is the stored state of a copy; one that nobody spoke of is missing.
func CopyText(c tiering.CopyState) string {
	if c == "" {
		c = tiering.CopyMissing
	}
	return string(c)
}
