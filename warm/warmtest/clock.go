package warmtest

import (
	"testing"
	"time"
)

func testClock(t *testing.T, h Harness) {
	f := setup(t, h)
	high := func() time.Time {
		f.Helper()
		at, err := f.store.HighWater(f.ctx)
		f.no(err)
		return at
	}
	equal(f, "the high water of a new store", high(), time.Time{})
	noon := f.clock.Now()
	for _, c := range []struct {
		what  string
		note  time.Time
		reset bool
		want  time.Time
	}{
		{"the first time", noon, false, noon},
		{"a later one", noon.Add(time.Hour), false, noon.Add(time.Hour)},
		{"an earlier one", noon, false, noon.Add(time.Hour)},
		{"an earlier one that resets", noon.Add(time.Minute), true, noon.Add(time.Minute)},
		{"a later one that resets", noon.Add(time.Hour), true, noon.Add(time.Hour)},
	} {
		f.no(f.store.NoteTime(f.ctx, c.note, c.reset))
		equal(f, "the high water after "+c.what, high(), c.want)
	}
	f.reopen()
	equal(f, "the high water after a restart", high(), noon.Add(time.Hour))
	equal(f, "entries of the feed", len(f.feed()), 0)
}
