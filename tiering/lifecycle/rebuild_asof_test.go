package lifecycle_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/coldtest"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm"
)

// Where a rebuild ends: at a time, at a gap; and what reaches beyond that.

func TestRebuildAsOf(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.namespace(siteTenant, "notes", tiering.Policy{})
	s.put(note("k"), `1`)
	s.put(note("deleted later"), `"still there"`)
	s.flush()
	s.put(note("k"), `2`)
	at := s.clock.Now()
	want := s.snapshot()
	s.put(note("k"), `3`)
	s.do(note("deleted later"), tiering.OpDelete)
	s.put(note("later"), `"not yet"`)
	s.flush() // one segment lies on both sides of the cut
	s.put(note("k"), `4`)
	s.flush() // and one beyond it
	report := s.rebuild(lifecycle.RebuildOptions{From: tiering.Primary, AsOf: at.Add(500 * time.Millisecond)})
	s.same(s.snapshot(), want)
	if report.Left != 1 || report.Segments != 2 || len(report.Gaps) > 0 {
		t.Errorf("the report is %+v", report)
	}
	if got, err := s.history(note("k"), 2); got != `2` || err != nil {
		t.Errorf("version 2 is %q, %v", got, err)
	}
	if got, err := s.history(note("k"), 3); !errors.Is(err, tiering.ErrNotFound) {
		t.Errorf("version 3 lies beyond the cut, and is %q, %v", got, err)
	}
	if locs, err := s.warm.Locations(s.ctx, note("later")); err != nil || len(locs) != 1 || locs[0].MaxVersion != 0 {
		t.Errorf("an erase has to find what lies beyond the cut: %+v, %v", locs, err)
	}

	t.Run("what was left out stays out", func(t *testing.T) {
		s.TB = t
		s.put(note("k"), `"second life"`)
		s.flush()
		want := s.snapshot()
		s.rebuild(lifecycle.RebuildOptions{From: tiering.Backup})
		s.same(s.snapshot(), want)
	})
	t.Run("as of a time in an earlier life", func(t *testing.T) {
		s.TB = t
		s.rebuild(lifecycle.RebuildOptions{From: tiering.Backup, AsOf: at.Add(-500 * time.Millisecond)})
		if got := s.body(note("k")); got != `1` {
			t.Errorf("the document is %s", got)
		}
		want := s.snapshot()
		report := s.rebuild(lifecycle.RebuildOptions{From: tiering.Primary})
		s.same(s.snapshot(), want)
		if len(report.Gaps) > 0 {
			t.Errorf("gaps %+v", report.Gaps)
		}
	})
}

// TestNothingLaterComesAlong: transactions that ran beside each other got their
// positions in another order than their times. A rebuild as of a time in between
// has nothing that was committed after it, wherever its segment ends.
func TestNothingLaterComesAlong(t *testing.T) {
	t.Parallel()
	for name, behind := range map[string]func(*site){"in one segment": func(*site) {}, "in segments of their own": (*site).flush} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.namespace(siteTenant, "notes", tiering.Policy{})
			s.put(note("k"), `1`)
			behind(s)
			want := s.snapshot()
			at := s.clock.Now()
			s.clock.advance(10 * time.Second)
			s.put(note("k"), `"later"`)
			behind(s)
			s.clock.advance(-9 * time.Second)
			s.put(note("beside it"), `2`)
			s.flush()
			s.rebuild(lifecycle.RebuildOptions{From: tiering.Backup, AsOf: at.Add(5 * time.Second)})
			s.same(s.snapshot(), want)
			s.rebuild(lifecycle.RebuildOptions{From: tiering.Primary}) // what was left out stays out
			s.same(s.snapshot(), want)
		})
	}
}

// TestAMergedSegmentMovesNoCut: one whose early records retention took covers
// their positions all the same, and those of what was merged around it. That it
// has nothing but later records says nothing of what lies between.
func TestAMergedSegmentMovesNoCut(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	epoch, err := s.warm.Epoch(s.ctx)
	s.no(err)
	at := s.clock.Now()
	record := func(id string, version, pos int64, when time.Time) cold.Record {
		body := []byte(`"` + id + `"`)
		return cold.Record{Key: note(id), Version: version, Op: tiering.OpPut, Pos: pos, At: when, CreatedAt: when, Digest: tiering.DigestOf(body), Body: body}
	}
	for i, seg := range []struct {
		covers  []tiering.Range
		records []cold.Record
	}{
		{[]tiering.Range{{From: 1, To: 2}, {From: 5, To: 6}}, []cold.Record{record("later", 1, 6, at.Add(time.Hour))}},
		{[]tiering.Range{{From: 3, To: 4}}, []cold.Record{record("before", 1, 4, at.Add(-time.Hour))}},
	} {
		enc, err := cold.Encode(siteTenant, seg.covers, seg.records, &cold.EncodeOptions{Epoch: epoch})
		s.no(err)
		for _, b := range []*coldtest.Memory{s.primary, s.backup} {
			b.Replace(s.archive.Name(at, int64(i+1)), enc.Data)
		}
	}
	s.rebuild(lifecycle.RebuildOptions{From: tiering.Backup, AsOf: at})
	if got := s.body(note("before")); got != `"before"` {
		t.Errorf("what was there before is %q", got)
	}
	if got := s.body(note("later")); got != "" {
		t.Errorf("what came later is %q", got)
	}
}

func TestRebuildEndsAtTheFirstGap(t *testing.T) {
	t.Parallel()
	damage := map[string]func(s *site, name string){
		"a segment is gone": func(s *site, name string) { s.no(s.backup.Delete(s.ctx, name)) },
		"a block of it is damaged": func(s *site, name string) {
			data, err := s.backup.Read(s.ctx, name, 0, -1)
			s.no(err)
			data[100] ^= 1
			s.backup.Replace(name, data)
		},
		"its end is cut": func(s *site, name string) {
			data, err := s.backup.Read(s.ctx, name, 0, -1)
			s.no(err)
			s.backup.Replace(name, data[:len(data)-10])
		},
	}
	for name, harm := range damage {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.namespace(siteTenant, "notes", tiering.Policy{})
			s.namespace("globex", "notes", tiering.Policy{})
			s.put(note("k"), `1`)
			s.flush()
			want := s.body(note("k"))
			s.put(note("k"), `2`)
			s.flush()
			lost := s.segments()[1]
			s.put(note("k"), `3`)
			s.put(tiering.Key{Tenant: "globex", Namespace: "notes", ID: "k"}, `"whole"`)
			s.flush()
			harm(s, lost)
			report := s.rebuild(lifecycle.RebuildOptions{From: tiering.Backup})
			if got := s.body(note("k")); got != want {
				t.Errorf("the document is %s, want %s", got, want)
			}
			if got := s.body(tiering.Key{Tenant: "globex", Namespace: "notes", ID: "k"}); got != `"whole"` {
				t.Errorf("the other tenant's is %s", got)
			}
			if len(report.Gaps) != 1 || report.Gaps[0].Tenant != siteTenant || report.Gaps[0].Segments != 1 || report.Gaps[0].Records != 1 || report.Gaps[0].To < report.Gaps[0].From {
				t.Errorf("gaps %+v", report.Gaps)
			}
			if damaged := strings.HasPrefix(name, "a segment") == false; damaged != (len(report.Damaged) == 1 && report.Damaged[0].Segment == lost) {
				t.Errorf("damaged %+v", report.Damaged)
			}
		})
	}
}

// TestDeletionsOutliveTheCut: a revocation of an API key and an erase order
// count whatever the time asked for.
func TestDeletionsOutliveTheCut(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.namespace(siteTenant, "notes", tiering.Policy{})
	apiKey := tiering.Key{Tenant: siteTenant, Namespace: tiering.APIKeyNamespace, ID: "k1"}
	other := tiering.Key{Tenant: siteTenant, Namespace: tiering.APIKeyNamespace, ID: "k2"}
	s.put(apiKey, `{"id":"k1"}`)
	s.put(other, `{"id":"k2"}`)
	s.put(note("a/1"), `1`)
	s.put(note("a/2"), `2`)
	s.put(note("b"), `3`)
	s.flush()
	at := s.clock.Now()
	s.do(apiKey, tiering.OpDelete)
	epoch, err := s.warm.Epoch(s.ctx)
	s.no(err)
	_, pos, err := s.warm.FeedBounds(s.ctx)
	s.no(err)
	order := lifecycle.NewOrder("01jorder", warm.Selector{Tenant: siteTenant, Namespace: "notes", Prefix: "a/"}, epoch, pos, s.clock.Now())
	s.no(errors.Join(firstOf(s.archive.WriteBoth(s.ctx, order.Name(), order.Encode()))...))
	s.put(note("a/1"), `"again"`)
	s.flush()

	check := func(t *testing.T, again string) {
		t.Helper()
		cur, err := s.warm.Head(s.ctx, apiKey)
		s.no(err)
		if cur.Head.Version == 0 || !cur.Head.Op.Deleting() {
			t.Errorf("the revoked key is %+v", cur.Head)
		}
		if s.body(other) == "" {
			t.Error("the other key is gone")
		}
		if got := s.body(note("a/1")); got != again {
			t.Errorf("a/1 is %q, want %q", got, again)
		}
		if cur, err := s.warm.Head(s.ctx, note("a/2")); err != nil || cur.Head.Version != 0 {
			t.Errorf("a/2 is %+v, %v", cur.Head, err)
		}
		if s.body(note("b")) == "" {
			t.Error("what the order does not name is gone")
		}
		for _, id := range []string{"a/1", "a/2"} {
			if got, err := s.history(note(id), 1); !errors.Is(err, tiering.ErrNotFound) {
				t.Errorf("the erased version of %s is %q, %v", id, got, err)
			}
		}
	}
	t.Run("now", func(t *testing.T) {
		s.TB = t
		report := s.rebuild(lifecycle.RebuildOptions{From: tiering.Primary, Scratch: true})
		check(t, `"again"`)
		if report.Erased != 2 || len(report.Rewrite) != 1 {
			t.Errorf("the report is %+v", report)
		}
	})
	t.Run("as of before", func(t *testing.T) {
		s.TB = t
		report := s.rebuild(lifecycle.RebuildOptions{From: tiering.Backup, AsOf: at})
		check(t, "")
		if report.Revoked != 1 {
			t.Errorf("the report is %+v", report)
		}
	})
	t.Run("after what lay beyond the cut was collected", func(t *testing.T) {
		s.TB = t
		names := s.objects(s.primary, "seg/")
		if len(names) != 2 {
			t.Fatalf("the buckets hold %v", names)
		}
		for _, b := range []cold.Bucket{s.primary, s.backup} {
			s.no(b.Delete(s.ctx, names[1]))
		}
		s.rebuild(lifecycle.RebuildOptions{From: tiering.Backup})
		check(t, "")
	})
}

// TestSessionsLiveOn: while the store stands still sessions do not age; what
// had expired by then stays expired, and other documents keep their expiry.
func TestSessionsLiveOn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.namespace(siteTenant, "notes", tiering.Policy{})
	s.namespace(siteTenant, "chats", tiering.Policy{Class: tiering.ClassSession, TTL: tiering.Duration(time.Hour)})
	chat := func(id string) tiering.Key {
		return tiering.Key{Tenant: siteTenant, Namespace: "chats", ID: id}
	}
	row := putOf(`"hello"`)
	row.Expiry = ttlOf(time.Minute)
	s.commit(chat("over"), row)
	s.clock.advance(10 * time.Minute)
	row.Expiry = ttlOf(time.Hour)
	s.commit(chat("open"), row)
	fixed := s.commit(note("fixed"), row)
	s.flush()
	last := s.clock.Now()
	remaining := func(k tiering.Key) time.Duration {
		cur, err := s.warm.Head(s.ctx, k)
		s.no(err)
		return cur.Head.ExpiresAt.Sub(s.clock.Now())
	}
	left := remaining(chat("open")) // at the last change
	for round, from := range []tiering.Copy{tiering.Primary, tiering.Backup} {
		s.clock.advance(24 * time.Hour)
		s.rebuild(lifecycle.RebuildOptions{From: from})
		if got := remaining(chat("open")); got != left {
			t.Errorf("rebuild %d: the session has %s left, want %s", round, got, left)
		}
		if got := remaining(chat("over")); got > 0 {
			t.Errorf("rebuild %d: what had expired has %s left", round, got)
		}
		cur, err := s.warm.Head(s.ctx, note("fixed"))
		s.no(err)
		if !cur.Head.ExpiresAt.Equal(fixed.ExpiresAt) {
			t.Errorf("rebuild %d: a document that is no session expires at %s, want %s", round, cur.Head.ExpiresAt, fixed.ExpiresAt)
		}
	}
	t.Run("as of a time in the first life", func(t *testing.T) {
		s.TB = t
		s.clock.advance(24 * time.Hour)
		s.rebuild(lifecycle.RebuildOptions{From: tiering.Primary, AsOf: last.Add(10 * time.Minute)})
		if got := remaining(chat("open")); got != left-10*time.Minute {
			t.Errorf("the session has %s left, want %s", got, left-10*time.Minute)
		}
	})
}
