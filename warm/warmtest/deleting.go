package warmtest

import (
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
)

// testDeleting: a segment remembers whose intent it was, and since when its
// objects may go.
func testDeleting(t *testing.T, h Harness) {
	k := key("k")
	segment := func(f *fixture, name string) tiering.SegmentInfo {
		f.Helper()
		s, ok, err := f.store.Segment(f.ctx, name)
		f.no(err)
		equal(f, name+" is there", ok, true)
		return s
	}
	t.Run("an intent says whose it is", func(t *testing.T) {
		f := setup(t, h)
		f.no(f.store.StartSegment(f.ctx, tiering.SegmentInfo{Name: "seg-1", Tenant: tenant, Owner: "merge", Token: 3}))
		equal(f, "the owner", segment(f, "seg-1").Owner, "merge")
		started, err := f.store.Segments(f.ctx, "", tiering.SegmentStarted, "", 10)
		f.no(err)
		equal(f, "the owner in a list", started[0].Owner, "merge")
	})
	t.Run("a replaced segment is deleting as of then", func(t *testing.T) {
		f := setup(t, h)
		f.archived("seg-1", tiering.CopyVerified, tiering.CopyVerified, k, 1, 2)
		equal(f, "deleting while finished", segment(f, "seg-1").Deleting, time.Time{})
		f.clock.advance(time.Minute)
		s := tiering.SegmentInfo{Name: "seg-2", Tenant: tenant, Owner: "merge", Token: 1}
		f.no(f.store.StartSegment(f.ctx, s))
		f.no(f.store.ReplaceSegments(f.ctx, s, nil, []string{"seg-1"}))
		replaced := f.clock.Now()
		f.clock.advance(time.Hour)
		if got := segment(f, "seg-1"); got.State != tiering.SegmentDeleting || !got.Deleting.Equal(replaced) {
			t.Fatalf("the replaced segment: %+v, want deleting as of %s", got, replaced)
		}
	})
	t.Run("a dropped segment is deleting as of then", func(t *testing.T) {
		f := setup(t, h)
		s := tiering.SegmentInfo{Name: "seg-1", Tenant: tenant, Token: 1}
		f.no(f.store.StartSegment(f.ctx, s))
		f.no(f.store.FinishSegment(f.ctx, s, nil, "", 0))
		f.clock.advance(time.Minute)
		dropped, err := f.store.DropSegment(f.ctx, "seg-1")
		f.no(err)
		equal(f, "dropped", dropped, true)
		equal(f, "deleting as of now", segment(f, "seg-1").Deleting.Equal(f.clock.Now()), true)
	})
	t.Run("a dropped intent is deleting, and its writer cannot finish it", func(t *testing.T) {
		f := setup(t, h)
		s := tiering.SegmentInfo{Name: "seg-1", Tenant: tenant, Owner: "archive", Token: 1}
		f.no(f.store.StartSegment(f.ctx, s))
		f.clock.advance(time.Minute)
		dropped, err := f.store.DropIntent(f.ctx, "seg-1")
		f.no(err)
		equal(f, "dropped", dropped, true)
		if got := segment(f, "seg-1"); got.State != tiering.SegmentDeleting || !got.Deleting.Equal(f.clock.Now()) {
			t.Fatalf("the dropped intent: %+v", got)
		}
		if err := f.store.FinishSegment(f.ctx, s, nil, "archive", 5); err == nil {
			t.Fatal("a dropped intent was finished")
		}
		f.archived("seg-2", tiering.CopyVerified, tiering.CopyVerified, k, 1, 2)
		for _, name := range []string{"seg-1", "seg-2", "seg-3"} {
			dropped, err := f.store.DropIntent(f.ctx, name)
			f.no(err)
			equal(f, "dropped "+name, dropped, false)
		}
		equal(f, "a finished segment", segment(f, "seg-2").State, tiering.SegmentFinished)
	})
}
