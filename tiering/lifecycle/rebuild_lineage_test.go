package lifecycle_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/sqlite"
)

// A life has one successor, whoever dies or races on the way.

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
