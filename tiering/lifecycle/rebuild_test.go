package lifecycle_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/coldtest"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/sqlite"
)

func ttlOf(d time.Duration) warm.Expiry { return warm.Expiry{TTL: &tiering.TTL{Life: d}} }

// populate writes a bit of everything, over several segments and two tenants.
func populate(s *site) {
	s.namespace(siteTenant, "notes", tiering.Policy{})
	s.namespace(siteTenant, "empty", tiering.Policy{Kind: tiering.KindLog})
	s.namespace("globex", "notes", tiering.Policy{})
	s.put(note("plain"), `{"a":1.10,"b":"\u0000"}`)
	s.put(note("often"), `1`)
	s.put(note("gone"), `"x"`)
	s.put(tiering.Key{Tenant: "globex", Namespace: "notes", ID: "plain"}, `"another tenant's"`)
	s.flush()
	owned := putOf(`"of ann"`)
	owned.User = "ann"
	s.commit(note("owned"), owned)
	s.put(note("often"), `2`)
	s.do(note("gone"), tiering.OpDelete)
	life := putOf(`"short"`)
	life.Expiry = ttlOf(time.Hour)
	s.commit(note("mortal"), life)
	life.Expiry = ttlOf(time.Minute)
	s.commit(note("expired"), life)
	s.put(note("pinned"), `"p"`)
	s.do(note("pinned"), tiering.OpPin)
	s.flush()
	s.clock.advance(10 * time.Minute)
	s.do(note("expired"), tiering.OpExpire)
	touch := warm.Row{Op: tiering.OpTouch, Expiry: ttlOf(48 * time.Hour)}
	s.commit(note("mortal"), touch)
	s.put(note("often"), `3`)
	s.put(note("back"), `1`)
	s.do(note("back"), tiering.OpDelete)
	s.put(note("back"), `2`)
	s.flush()
}

func TestRebuildBringsEverythingBack(t *testing.T) {
	t.Parallel()
	for _, from := range []tiering.Copy{tiering.Primary, tiering.Backup} {
		for _, memory := range []int{0, 1} { // 1: no body fits, all are read again
			t.Run(fmt.Sprintf("from %s with %d bytes of memory", from, memory), func(t *testing.T) {
				s := newSite(t)
				populate(s)
				want := s.snapshot()
				segments := len(s.objects(s.primary, "seg/"))
				// From one bucket alone: the other one is empty.
				if from == tiering.Primary {
					s.backup = &coldtest.Memory{}
				} else {
					s.primary = &coldtest.Memory{}
				}
				s.archive = cold.NewArchive(s.primary, s.backup, nil)
				report := s.rebuild(lifecycle.RebuildOptions{From: from, Memory: memory})
				s.same(s.snapshot(), want)
				if report.Segments != segments || len(report.Gaps)+len(report.Damaged) > 0 || report.Left != 0 || report.Tombstones != 2 {
					t.Errorf("the report is %+v", report)
				}
				for version, want := range map[int64]string{1: `1`, 2: `2`, 3: `3`} {
					if got, err := s.history(note("often"), version); got != want || err != nil {
						t.Errorf("version %d of often is %q, %v", version, got, err)
					}
				}
				items, _, err := s.warm.Query(s.ctx, warm.Query{Tenant: siteTenant, Namespace: "notes", Limit: 100})
				s.no(err)
				if len(items) != 6 {
					t.Errorf("a query finds %d documents, want 6", len(items))
				}
				n, err := s.warm.EnsureNamespace(s.ctx, warm.Namespace{Tenant: siteTenant, Name: "notes"})
				s.no(err)
				if n.Kind != tiering.KindState || n.Class != tiering.ClassPersistent || n.Floor != report.Floor {
					t.Errorf("the namespace is %+v", n)
				}
				all, err := s.warm.Segments(s.ctx, "", tiering.SegmentFinished, "", 100)
				s.no(err)
				for _, info := range all {
					if info.Copies[from] != tiering.CopyVerified || info.Copies[tiering.Backup-from] != tiering.CopyMissing || info.Size == 0 || info.SHA256 == (tiering.Digest{}) {
						t.Errorf("the catalog has %+v", info)
					}
				}
			})
		}
	}
}

// TestRebuiltStoreGoesOn: what a rebuilt store writes is archived in its own
// life, and a second rebuild brings back both.
func TestRebuiltStoreGoesOn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	populate(s)
	s.rebuild(lifecycle.RebuildOptions{From: tiering.Backup})
	s.put(note("often"), `4`)
	s.put(note("new"), `"of the second life"`)
	s.do(note("plain"), tiering.OpDelete)
	s.flush()
	want := s.snapshot()
	report := s.rebuild(lifecycle.RebuildOptions{From: tiering.Primary})
	s.same(s.snapshot(), want)
	if len(report.Gaps) > 0 {
		t.Errorf("gaps %+v", report.Gaps)
	}
	for version, want := range map[int64]string{1: `1`, 3: `3`} {
		if got, err := s.history(note("often"), version); got != want || err != nil {
			t.Errorf("version %d of often is %q, %v", version, got, err)
		}
	}
	if p, b := s.objects(s.primary, "epoch/"), s.objects(s.backup, "epoch/"); len(p) != 2 || fmt.Sprint(p) != fmt.Sprint(b) {
		t.Errorf("markers: primary %v, backup %v", p, b)
	}
}

// TestVersionsNeverRestart is race R28: warm dies with writes that were
// acknowledged and never archived.
func TestVersionsNeverRestart(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.namespace(siteTenant, "notes", tiering.Policy{})
	for i := range 5 {
		s.put(note("k"), fmt.Sprint(i))
	}
	s.flush()
	s.put(note("k"), `"lost"`)
	lost := s.put(note("k"), `"lost too"`)
	report := s.rebuild(lifecycle.RebuildOptions{From: tiering.Backup})
	if got := s.body(note("k")); got != `4` {
		t.Fatalf("the document is %s", got)
	}
	r, err := s.warm.Commit(s.ctx, &warm.Batch{ID: uuid.New(), Changes: []warm.Change{{Key: note("k"), If: tiering.IfVersion(lost.Version), Rows: []warm.Row{putOf(`"stale"`)}}}})
	s.no(err)
	if r[0][0].Status != warm.Conflict {
		t.Fatalf("a condition on a version that was lost: status %d", r[0][0].Status)
	}
	for _, k := range []tiering.Key{note("k"), note("fresh"), {Tenant: siteTenant, Namespace: tiering.APIKeyNamespace, ID: "other"}} {
		if h := s.put(k, `1`); h.Version <= report.Floor || h.Version <= lost.Version {
			t.Errorf("%s is version %d, the floor %d", k, h.Version, report.Floor)
		}
	}
	s.flush()
	first := report.Floor
	if report = s.rebuild(lifecycle.RebuildOptions{From: tiering.Primary}); report.Floor < first+1<<32 {
		t.Errorf("the second floor %d is not far above the first %d", report.Floor, first)
	}
}

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

// TestLineageNeverForks: every rebuild goes on from the last life that any
// bucket knows of.
func TestLineageNeverForks(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	populate(s)
	first, err := s.warm.Epoch(s.ctx)
	s.no(err)
	a := s.rebuild(lifecycle.RebuildOptions{From: tiering.Primary})
	if a.Parent != first {
		t.Errorf("the parent is %s, want %s", a.Parent, first)
	}
	// A second rebuild without any write of the first: the same parent again.
	b := s.rebuild(lifecycle.RebuildOptions{From: tiering.Backup})
	if b.Parent != a.Epoch {
		t.Errorf("the parent of the second is %s, want %s", b.Parent, a.Epoch)
	}
	// A bucket that missed the markers hears of them from the other.
	for _, name := range s.objects(s.backup, "epoch/") {
		s.no(s.backup.Delete(s.ctx, name))
	}
	c := s.rebuild(lifecycle.RebuildOptions{From: tiering.Backup})
	if c.Parent != b.Epoch {
		t.Errorf("the parent of the third is %s, want %s", c.Parent, b.Epoch)
	}
	if p, b := s.objects(s.primary, "epoch/"), s.objects(s.backup, "epoch/"); len(p) != 3 || fmt.Sprint(p) != fmt.Sprint(b) {
		t.Errorf("markers: primary %v, backup %v", p, b)
	}
	t.Run("an old store that still writes is ignored", func(t *testing.T) {
		s.TB = t
		want := s.snapshot()
		old, err := cold.Encode(siteTenant, []tiering.Range{{From: 1, To: 1 << 40}}, []cold.Record{{
			Key: note("plain"), Op: tiering.OpPut, Version: 99, Pos: 1 << 39, At: s.clock.Now(), Digest: tiering.DigestOf([]byte(`"zombie"`)), Body: []byte(`"zombie"`),
		}}, &cold.EncodeOptions{Epoch: first})
		s.no(err)
		s.no(errors.Join(firstOf(s.archive.WriteBoth(s.ctx, s.archive.Name(s.clock.Now(), 1), old.Data))...))
		s.rebuild(lifecycle.RebuildOptions{From: tiering.Primary})
		s.same(s.snapshot(), want)
	})
	t.Run("two stores in one bucket are refused", func(t *testing.T) {
		s.TB = t
		other, err := cold.Encode(siteTenant, []tiering.Range{{From: 1, To: 1}}, nil, &cold.EncodeOptions{Epoch: "01ANOTHERSTORE"})
		s.no(err)
		s.no(errors.Join(firstOf(s.archive.WriteBoth(s.ctx, s.archive.Name(s.clock.Now(), 1), other.Data))...))
		_, err = s.tryRebuild(lifecycle.RebuildOptions{From: tiering.Primary})
		if !errors.Is(err, tiering.ErrCorrupt) || !strings.Contains(err.Error(), "01ANOTHERSTORE") {
			t.Errorf("got %v", err)
		}
	})
}

// TestAMergeAfterARebuildBringsNothingBack: what lay beyond the cut, and what an
// erase order took, stays unseen whatever becomes of its segments.
func TestAMergeAfterARebuildBringsNothingBack(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.namespace(siteTenant, "notes", tiering.Policy{})
	s.put(note("k"), `1`)
	s.put(note("subject"), `"of ann"`)
	s.flush()
	s.put(note("k"), `2`)
	at := s.clock.Now()
	s.put(note("k"), `3`)
	s.flush()
	epoch, err := s.warm.Epoch(s.ctx)
	s.no(err)
	order := lifecycle.NewOrder("01jorder", warm.Selector{Tenant: siteTenant, Namespace: "notes", ID: "subject"}, epoch, 1000, s.clock.Now())
	s.no(errors.Join(firstOf(s.archive.WriteBoth(s.ctx, order.Name(), order.Encode()))...))
	s.rebuild(lifecycle.RebuildOptions{From: tiering.Primary, AsOf: at})
	s.no(s.engine.Replicate(s.ctx))
	s.no(s.engine.FinishOrders(s.ctx))
	s.put(note("subject"), `"another"`)
	s.flush()
	want := s.snapshot()
	s.engine = lifecycle.New(lifecycle.Config{Warm: s.warm, Archive: s.archive, MergeCount: 2})
	check := func() {
		t.Helper()
		s.same(s.snapshot(), want)
		for version, want := range map[int64]string{1: `1`, 2: `2`} {
			if got, err := s.history(note("k"), version); got != want || err != nil {
				t.Errorf("version %d is %q, %v", version, got, err)
			}
		}
		if got, err := s.history(note("k"), 3); !errors.Is(err, tiering.ErrNotFound) {
			t.Errorf("version 3 lies beyond the cut, and is %q, %v", got, err)
		}
		if got, err := s.history(note("subject"), 1); !errors.Is(err, tiering.ErrNotFound) {
			t.Errorf("the erased version is %q, %v", got, err)
		}
	}
	check()
	for _, name := range s.objects(s.primary, cold.SegmentPrefix) {
		data, err := s.primary.Read(s.ctx, name, 0, -1)
		s.no(err)
		if cold.Occupied(data) {
			continue
		}
		seg, err := cold.OpenSegment(bytes.NewReader(data), int64(len(data)))
		s.no(err)
		for r, err := range seg.Records() {
			if s.no(err); string(r.Body) == `"of ann"` {
				t.Errorf("%s holds what was erased", name)
			}
		}
	}
	check()
	r, err := s.engine.GC(s.ctx, false)
	s.no(err)
	if len(r.Rewritten) == 0 || len(r.Left) > 0 {
		t.Fatalf("nothing was merged: %+v", r)
	}
	check()
	s.rebuild(lifecycle.RebuildOptions{From: tiering.Backup})
	check()
}

func firstOf(errs [2]error) []error { return errs[:] }

// TestOneRebuildWins: of two rebuilds from the same life one fails, and the
// store that it was filling stays unusable.
func TestOneRebuildWins(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	populate(s)
	var err error
	won := false
	s.no(s.warm.Close())
	s.open(filepath.Join(t.TempDir(), "warm.db"), true)
	loser := s.warm
	_, err = s.fill(lifecycle.RebuildOptions{From: tiering.Primary, Warm: &between{Restorer: loser, after: func() {
		if won {
			return
		}
		won = true
		winner, err := sqlite.Open(s.ctx, filepath.Join(t.TempDir(), "warm.db"), &sqlite.Options{Restore: true, Clock: s.clock.Now})
		s.no(err)
		defer winner.Close()
		_, err = s.fill(lifecycle.RebuildOptions{From: tiering.Backup, Warm: winner})
		s.no(err)
	}}})
	if tiering.CodeOf(err) != tiering.CodeFenced {
		t.Fatalf("the slower one: %v", err)
	}
	s.no(loser.Close())
	if _, err := sqlite.Open(s.ctx, s.path, nil); err == nil {
		t.Error("the store that lost opens")
	}
}

// between calls after when keys were restored.
type between struct {
	warm.Restorer
	after func()
}

func (b *between) RestoreKeys(ctx context.Context, keys []warm.Restored) error {
	err := b.Restorer.RestoreKeys(ctx, keys)
	b.after()
	return err
}

// TestRebuildIsBegunAgain: whatever step it dies at, the store cannot be used,
// and the next run brings everything back.
func TestRebuildIsBegunAgain(t *testing.T) {
	t.Parallel()
	died := errors.New("killed")
	for name, prepare := range map[string]func(s *site, o *lifecycle.RebuildOptions){
		"while keys are restored": func(s *site, o *lifecycle.RebuildOptions) {
			o.Warm = &dying{Restorer: s.warm, keys: died}
		},
		"while the catalog is": func(s *site, o *lifecycle.RebuildOptions) {
			o.Warm = &dying{Restorer: s.warm, segment: died}
		},
		"when the markers are written": func(s *site, o *lifecycle.RebuildOptions) {
			o.Warm = &dying{Restorer: s.warm, end: died}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			populate(s)
			want := s.snapshot()
			s.no(s.warm.Close())
			s.open(filepath.Join(t.TempDir(), "warm.db"), true)
			o := lifecycle.RebuildOptions{From: tiering.Backup}
			prepare(s, &o)
			if _, err := s.fill(o); !errors.Is(err, died) {
				t.Fatalf("got %v", err)
			}
			s.no(s.warm.Close())
			if _, err := sqlite.Open(s.ctx, s.path, nil); err == nil {
				t.Fatal("a store that is half filled opens")
			}
			s.open(s.path, true)
			_, err := s.fill(lifecycle.RebuildOptions{From: tiering.Backup})
			s.no(err)
			s.same(s.snapshot(), want)
		})
	}
}

// dying fails a step as a crash would end it.
type dying struct {
	warm.Restorer
	keys, segment, end error
}

func (d *dying) RestoreKeys(ctx context.Context, keys []warm.Restored) error {
	return errors.Join(d.Restorer.RestoreKeys(ctx, keys), d.keys)
}

func (d *dying) RestoreSegment(ctx context.Context, s tiering.SegmentInfo, l []tiering.Location) error {
	return errors.Join(d.Restorer.RestoreSegment(ctx, s, l), d.segment)
}

func (d *dying) EndRestore(ctx context.Context) error {
	if d.end != nil {
		return d.end
	}
	return d.Restorer.EndRestore(ctx)
}

func TestRebuildRefuses(t *testing.T) {
	t.Parallel()
	t.Run("a store that is not empty", func(t *testing.T) {
		s := newSite(t)
		populate(s)
		want := s.snapshot()
		if _, err := s.fill(lifecycle.RebuildOptions{From: tiering.Primary}); err == nil || !strings.Contains(err.Error(), "not empty") {
			t.Errorf("got %v", err)
		}
		s.same(s.snapshot(), want)
		if names := s.objects(s.primary, "epoch/"); len(names) > 0 {
			t.Errorf("it wrote %v", names)
		}
	})
	t.Run("an empty bucket", func(t *testing.T) {
		s := newSite(t)
		if _, err := s.tryRebuild(lifecycle.RebuildOptions{From: tiering.Primary}); !errors.Is(err, tiering.ErrNotFound) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("while the other bucket cannot be told, unless it is asked to", func(t *testing.T) {
		s := newSite(t)
		populate(s)
		want := s.snapshot()
		s.no(s.primary.Close())
		_, err := s.tryRebuild(lifecycle.RebuildOptions{From: tiering.Backup})
		if !errors.Is(err, tiering.ErrUnavailable) || !strings.Contains(err.Error(), "primary") {
			t.Fatalf("got %v", err)
		}
		report := s.rebuild(lifecycle.RebuildOptions{From: tiering.Backup, WithoutOther: true})
		s.same(s.snapshot(), want)
		if report.Unreachable != "primary" {
			t.Errorf("the report says that %q was unreachable", report.Unreachable)
		}
	})
	t.Run("when its own bucket cannot be listed", func(t *testing.T) {
		s := newSite(t)
		populate(s)
		s.no(s.primary.Close())
		if _, err := s.tryRebuild(lifecycle.RebuildOptions{From: tiering.Primary, WithoutOther: true}); err == nil {
			t.Error("it went on without its bucket")
		}
	})
	t.Run("an erase order that it cannot read", func(t *testing.T) {
		s := newSite(t)
		populate(s)
		s.backup.Replace("erase/01x.json", []byte("{"))
		if _, err := s.tryRebuild(lifecycle.RebuildOptions{From: tiering.Primary}); !errors.Is(err, tiering.ErrCorrupt) {
			t.Errorf("got %v", err)
		}
	})
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

func TestRebuildKeepsDeletedNamespaces(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.namespace(siteTenant, "old", tiering.Policy{Class: tiering.ClassSession})
	dropped, err := s.warm.DropNamespace(s.ctx, siteTenant, "old")
	s.no(err)
	if !dropped {
		t.Fatal("not dropped")
	}
	s.put(tiering.Key{Tenant: siteTenant, Namespace: tiering.PolicyNamespace, ID: "old"}, `{"kind":"state","class":"session","deleted":true}`)
	s.flush()
	s.rebuild(lifecycle.RebuildOptions{From: tiering.Primary})
	r, err := s.warm.Commit(s.ctx, &warm.Batch{ID: uuid.New(), Changes: []warm.Change{{Key: tiering.Key{Tenant: siteTenant, Namespace: "old", ID: "k"}, Rows: []warm.Row{putOf(`1`)}}}})
	s.no(err)
	if r[0][0].Status != warm.NoNamespace {
		t.Errorf("a write to a deleted namespace: status %d", r[0][0].Status)
	}
}

// TestACopyInTheOtherBucketIsMadeAgain: the catalog of a rebuilt store says
// that the other copy is missing until it was verified or made.
func TestACopyInTheOtherBucketIsMadeAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	populate(s)
	s.primary = &coldtest.Memory{} // the disk was replaced
	s.archive = cold.NewArchive(s.primary, s.backup, nil)
	s.rebuild(lifecycle.RebuildOptions{From: tiering.Backup})
	s.no(s.engine.Replicate(s.ctx))
	if p, b := s.objects(s.primary, "seg/"), s.objects(s.backup, "seg/"); fmt.Sprint(p) != fmt.Sprint(b) {
		t.Errorf("primary holds %v, backup %v", p, b)
	}
}
