package warm

import (
	"context"
	"math"
	"time"

	"github.com/tierd/tierd/tiering"
)

// A log is a key like any other: an append is a put, an array of entries a fold,
// and the version rows are the log. So entries are archived, found in cold,
// rebuilt and erased as versions are; what is special is that they are read in
// runs, and that policy keeps them while the log lives.

// EntryRange selects the entries of a log.
type EntryRange struct {
	Key           tiering.Key
	After, Before int64     // exclusive; Before 0: no bound
	Since, Until  time.Time // Since inclusive, Until exclusive; zero: no bound
	Descending    bool
	Limit         int
	// MaxBytes bounds the bodies: no further entry is read once they make it,
	// but at least one is.
	MaxBytes int64
}

// Holds reports whether the range has an entry of that number and time.
func (r EntryRange) Holds(seq int64, at time.Time) bool {
	return seq > r.After && (r.Before == 0 || seq < r.Before) &&
		!at.Before(r.Since) && (r.Until.IsZero() || at.Before(r.Until))
}

// Bounds are the limits of a range as numbers, open ends filled in: versions
// below before, and times in microseconds from since on, below until.
func (r EntryRange) Bounds() (before, since, until int64) {
	before, since, until = math.MaxInt64, math.MinInt64, math.MaxInt64
	if r.Before > 0 {
		before = r.Before
	}
	if !r.Since.IsZero() {
		since = microsUp(r.Since)
	}
	if !r.Until.IsZero() {
		until = microsUp(r.Until)
	}
	return before, since, until
}

// microsUp is the first microsecond that is not before t.
func microsUp(t time.Time) int64 { return t.Add(time.Microsecond - 1).UnixMicro() }

// EntryReader reads runs of entries.
type EntryReader interface {
	// Entries returns the version rows of puts in a range, with their bodies, in
	// order of their versions. Entries that lie in cold alone are left out, also
	// between others. Rows of earlier lives of the key are among them.
	Entries(ctx context.Context, r EntryRange) ([]Version, error)
	// Heads returns the heads of keys, in their order and without bodies.
	Heads(ctx context.Context, keys []tiering.Key) ([]Current, error)
}
