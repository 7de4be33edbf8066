package lifecycle_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/coldtest"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm"
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
