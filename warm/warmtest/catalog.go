package warmtest

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
)

func testCatalog(t *testing.T, h Harness) {
	k := key("k")
	t.Run("the life of a segment", func(t *testing.T) {
		f := setup(t, h)
		at := f.clock.Now()
		s := tiering.SegmentInfo{Name: "seg-1", Tenant: tenant, Token: 7, Started: at}
		f.no(f.store.StartSegment(f.ctx, s))
		got, ok, err := f.store.Segment(f.ctx, "seg-1")
		f.no(err)
		if !ok || got.State != tiering.SegmentStarted || got.Token != 7 || got.Tenant != tenant || !got.Started.Equal(at) || got.Verified() != 0 {
			t.Fatalf("a started segment: %+v, %v", got, ok)
		}
		if err := f.store.StartSegment(f.ctx, s); err == nil {
			t.Fatal("a name was started twice")
		}
		s.State, s.Size, s.RawSize, s.Count, s.SHA256 = tiering.SegmentFinished, 100, 400, 2, tiering.DigestOf([]byte("x"))
		s.MinTime, s.MaxTime = at.Add(time.Nanosecond), at.Add(time.Hour)
		s.Ranges = []tiering.Range{{From: 1, To: 5}, {From: 8, To: 8}}
		s.Copies = [2]tiering.CopyState{tiering.CopyVerified, tiering.CopyMissing}
		loc := tiering.Location{Key: k, Segment: "seg-1", MinVersion: 1, MaxVersion: 2, MinTime: s.MinTime, MaxTime: s.MaxTime,
			Blocks: []tiering.BlockRef{{FirstVersion: 1, Offset: 10, Length: 20}, {FirstVersion: 2, Offset: 30, Length: 20}}}
		f.no(f.store.FinishSegment(f.ctx, s, []tiering.Location{loc}, "archive/"+tenant, 8))
		got, _, err = f.store.Segment(f.ctx, "seg-1")
		f.no(err)
		if !reflect.DeepEqual(got, s) {
			t.Fatalf("a finished segment is\n%+v\nwant\n%+v", got, s)
		}
		locations, err := f.store.Locations(f.ctx, k)
		f.no(err)
		if !reflect.DeepEqual(locations, []tiering.Location{loc}) {
			t.Fatalf("locations are %+v, want %+v", locations, loc)
		}
		pos, err := f.store.Position(f.ctx, "archive/"+tenant)
		f.no(err)
		equal(f, "the reader's position", pos, 8)
		f.no(f.store.SetCopy(f.ctx, "seg-1", tiering.Backup, tiering.CopyVerified))
		got, _, err = f.store.Segment(f.ctx, "seg-1")
		f.no(err)
		equal(f, "verified copies", got.Verified(), 2)
		f.no(f.store.SetCopy(f.ctx, "seg-1", tiering.Primary, tiering.CopyBad))
		got, _, err = f.store.Segment(f.ctx, "seg-1")
		f.no(err)
		equal(f, "the primary", got.Copies[tiering.Primary], tiering.CopyBad)
	})
	t.Run("only the holder of the token finishes", func(t *testing.T) {
		f := setup(t, h)
		s := tiering.SegmentInfo{Name: "seg-1", Tenant: tenant, Token: 7}
		loc := []tiering.Location{{Key: k, Segment: "seg-1", MinVersion: 1, MaxVersion: 1}}
		if err := f.store.FinishSegment(f.ctx, s, loc, "archive", 5); err == nil {
			t.Fatal("a segment was finished that nobody started")
		}
		f.no(f.store.StartSegment(f.ctx, s))
		s.Token = 6
		if err := f.store.FinishSegment(f.ctx, s, loc, "archive", 5); err == nil {
			t.Fatal("a segment was finished under another token")
		}
		locations, err := f.store.Locations(f.ctx, k)
		f.no(err)
		equal(f, "locations", len(locations), 0)
		pos, err := f.store.Position(f.ctx, "archive")
		f.no(err)
		equal(f, "position", pos, 0)
		s.Token = 7
		f.no(f.store.FinishSegment(f.ctx, s, loc, "archive", 5))
		if err := f.store.FinishSegment(f.ctx, s, loc, "archive", 5); err == nil {
			t.Fatal("a segment was finished twice")
		}
	})
	t.Run("an abandoned intent is gone, a finished segment stays", func(t *testing.T) {
		f := setup(t, h)
		f.no(f.store.StartSegment(f.ctx, tiering.SegmentInfo{Name: "seg-1", Tenant: tenant, Token: 1}))
		f.archived("seg-2", tiering.CopyVerified, tiering.CopyVerified, k, 1, 1)
		f.no(f.store.AbandonSegment(f.ctx, "seg-1"))
		f.no(f.store.AbandonSegment(f.ctx, "seg-2"))
		_, ok, err := f.store.Segment(f.ctx, "seg-1")
		f.no(err)
		equal(f, "the abandoned one there", ok, false)
		_, ok, err = f.store.Segment(f.ctx, "seg-2")
		f.no(err)
		equal(f, "the finished one there", ok, true)
	})
	t.Run("lists", func(t *testing.T) {
		f := setup(t, h)
		for i, who := range []string{tenant, "globex", tenant} {
			f.no(f.store.StartSegment(f.ctx, tiering.SegmentInfo{Name: fmt.Sprint("seg-", i), Tenant: who, Token: 1}))
		}
		f.archived("seg-9", tiering.CopyVerified, tiering.CopyMissing, k, 1, 1)
		for _, c := range []struct {
			tenant string
			state  tiering.SegmentState
			after  string
			limit  int
			want   string
		}{
			{"", "", "", 10, "[seg-0 seg-1 seg-2 seg-9]"},
			{tenant, "", "", 10, "[seg-0 seg-2 seg-9]"},
			{tenant, tiering.SegmentStarted, "", 10, "[seg-0 seg-2]"},
			{"", tiering.SegmentFinished, "", 10, "[seg-9]"},
			{"", "", "seg-0", 2, "[seg-1 seg-2]"},
		} {
			segments, err := f.store.Segments(f.ctx, c.tenant, c.state, c.after, c.limit)
			f.no(err)
			var names []string
			for _, s := range segments {
				names = append(names, s.Name)
			}
			equal(f, fmt.Sprintf("segments of %+v", c), fmt.Sprint(names), c.want)
		}
	})
	t.Run("locations of a key, newest first", func(t *testing.T) {
		f := setup(t, h)
		f.archived("seg-b", tiering.CopyVerified, tiering.CopyVerified, k, 1, 4)
		f.archived("seg-a", tiering.CopyVerified, tiering.CopyVerified, k, 5, 9)
		f.archived("seg-c", tiering.CopyVerified, tiering.CopyVerified, key("other"), 1, 9)
		locations, err := f.store.Locations(f.ctx, k)
		f.no(err)
		if len(locations) != 2 || locations[0].Segment != "seg-a" || locations[1].Segment != "seg-b" {
			t.Fatalf("locations: %+v", locations)
		}
	})
}
