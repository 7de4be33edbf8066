package rules

import (
	"maps"
	"slices"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// Footprint is what warm holds of a key that an erase takes.
type Footprint struct {
	Kid      int64 // the head's number; 0: no head
	Whole    bool  // the key goes; else only what a user had there before its owner
	Versions int64 // rows to take
	Bytes    int64 // of those rows, uncompressed
	Top      int64 // the highest version anywhere
	Segments []string
}

// Empty reports whether there is nothing to take.
func (f *Footprint) Empty() bool { return f.Kid == 0 && len(f.Segments) == 0 }

// Count adds what is taken to the numbers of an erasure.
func (f *Footprint) Count(e *warm.Erasure) {
	if f.Whole {
		e.Keys++
	}
	e.Versions += f.Versions
	e.Bytes += f.Bytes
}

// Tally adds up what an erase would take. The zero value works.
type Tally struct {
	taken    warm.Erasure
	segments map[string]struct{}
}

// Add takes a key's footprint in.
func (t *Tally) Add(f Footprint) {
	if f.Empty() {
		return
	}
	f.Count(&t.taken)
	for _, name := range f.Segments {
		if t.segments == nil {
			t.segments = map[string]struct{}{}
		}
		t.segments[name] = struct{}{}
	}
}

// Erasure is what the footprints add up to.
func (t *Tally) Erasure(sel warm.Selector) warm.Erasure {
	e := t.taken
	e.Selector, e.Segments = sel, slices.Sorted(maps.Keys(t.segments))
	return e
}

// FinishErase makes an erasure done, which forgets all of its selector but the tenant.
// It reports false for one that was done before.
func FinishErase(e *warm.Erasure, now time.Time) (finished bool, err error) {
	switch {
	case !e.Done.IsZero():
		return false, nil
	case e.Pos == 0:
		return false, tiering.Errorf(tiering.CodeWrongKind, "the erase order %s is not finished in warm", e.ID)
	case len(e.Segments) > 0:
		return false, tiering.Errorf(tiering.CodeWrongKind, "the erase order %s has %d segments to clean", e.ID, len(e.Segments))
	}
	e.Done, e.Selector = now, warm.Selector{Tenant: e.Selector.Tenant}
	return true, nil
}
