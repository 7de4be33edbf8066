package lifecycle_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/coldtest"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/sqlite"
)

// contents copies what a bucket holds.
func (w *ward) contents(b cold.Bucket) *coldtest.Memory {
	w.Helper()
	out := &coldtest.Memory{}
	for info, err := range b.List(w.ctx, "") {
		w.no(err)
		data, err := b.Read(w.ctx, info.Name, 0, -1)
		w.no(err)
		w.no(out.Create(w.ctx, info.Name, bytes.NewReader(data), int64(len(data))))
	}
	return out
}

// inCold lists whose versions of a key the finished segments hold.
func (w *ward) inCold(b cold.Bucket, k tiering.Key) (out string) {
	w.Helper()
	segments, err := w.store.Segments(w.ctx, k.Tenant, tiering.SegmentFinished, "", 1000)
	w.no(err)
	for _, s := range segments {
		data, err := b.Read(w.ctx, s.Name, 0, -1)
		w.no(err)
		for _, r := range w.records(data) {
			if r.Key == k {
				out += fmt.Sprintf("%d %s %s %s; ", r.Version, r.Op, r.User, r.Body)
			}
		}
	}
	return out
}

// rebuiltFrom is what a rebuild from copies of a bucket's objects makes of a key.
func (w *ward) rebuiltFrom(b cold.Bucket, k tiering.Key) string {
	w.Helper()
	store, err := sqlite.Open(w.ctx, filepath.Join(w.TempDir(), "warm.db"), &sqlite.Options{Restore: true})
	w.no(err)
	defer store.Close()
	archive := cold.NewArchive(b, &coldtest.Memory{}, nil)
	_, err = lifecycle.Rebuild(w.ctx, lifecycle.RebuildOptions{Archive: archive, Warm: store, From: tiering.Primary, Scratch: true})
	w.no(err)
	cur, err := store.Load(w.ctx, k)
	w.no(err)
	out := fmt.Sprintf("%d %s %s; ", cur.Head.Version, cur.Head.User, cur.Body)
	locs, err := store.Locations(w.ctx, k)
	w.no(err)
	for _, l := range locs {
		for v := max(l.MinVersion, 1); v <= l.MaxVersion; v++ {
			if r, _, err := archive.Read(w.ctx, l, v); err == nil && bytes.Contains(r.Body, []byte(canary)) {
				out += fmt.Sprintf("cold %d %s; ", v, r.Body)
			}
		}
	}
	return out
}

// A user's versions under a key that another owner has by now go, wherever they
// lie; the other's document and his history stay byte for byte.
func TestAUsersVersionsUnderAKeyThatChangedHands(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		flush   bool // all is archived
		retired bool // and the user's versions are in cold alone, where warm does not know whose they are
	}{{"in warm", false, false}, {"in warm and cold", true, false}, {"in cold alone", true, true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWard(t, wardOptions{})
			k := in("notes", "shared")
			w.write(k, owned(canary, `{"text":"`+canary+`"}`))
			w.write(k, row(tiering.OpDelete))
			w.write(k, owned("bob", `{"text":"bobs first"}`))
			h := w.write(k, owned("bob", `{"text":"bobs"}`))
			const bobs = `3 put bob {"text":"bobs first"}; 4 put bob {"text":"bobs"}; `
			if c.flush {
				w.flush()
			}
			if c.retired {
				n, err := w.store.Retire(w.ctx, k, []int64{1, 2})
				w.no(err)
				if n != 2 {
					t.Fatalf("%d versions left warm", n)
				}
				w.no(w.store.TrimFeed(w.ctx, time.Now().Add(time.Hour)))
			}
			old := w.contents(w.buckets[0])

			r := w.erase(tiering.EraseRequest{User: canary})
			if r.State != "done" || r.Keys != 0 || !c.retired && r.Versions != 2 {
				t.Fatalf("%+v", r)
			}
			w.gone()
			cur, err := w.store.Load(w.ctx, k)
			w.no(err)
			if cur.Head != h || string(cur.Body) != `{"text":"bobs"}` {
				t.Errorf("the other owner's document is %s, %+v, was %+v", cur.Body, cur.Head, h)
			}
			if v, ok, err := w.store.Version(w.ctx, k, 3); err != nil || !ok || string(v.Body) != `{"text":"bobs first"}` {
				t.Errorf("his version before it is %s, %t, %v", v.Body, ok, err)
			}
			w.flush()
			for i, b := range w.buckets {
				if got := w.inCold(b, k); got != bobs {
					t.Errorf("%s holds %s, want %s", tiering.Copy(i), got, bobs)
				}
				if got, want := w.rebuiltFrom(w.contents(b), k), `4 bob {"text":"bobs"}; `; got != want {
					t.Errorf("a rebuild from %s makes %s, want %s", tiering.Copy(i), got, want)
				}
			}
			locs, err := w.store.Locations(w.ctx, k)
			w.no(err)
			if len(locs) != 1 || locs[0].MinVersion != 3 || locs[0].MaxVersion != 4 {
				t.Errorf("it lies at %+v", locs)
			}
			if !c.flush {
				return
			}
			// Nor from the objects of before, once the order is beside them.
			for info, err := range w.buckets[0].List(w.ctx, lifecycle.OrdersPrefix) {
				w.no(err)
				data, err := w.buckets[0].Read(w.ctx, info.Name, 0, -1)
				w.no(err)
				w.no(old.Create(w.ctx, info.Name, bytes.NewReader(data), int64(len(data))))
			}
			got := w.rebuiltFrom(old, k)
			if want := `4 bob {"text":"bobs"}; `; got != want {
				t.Errorf("a rebuild from the objects of before makes %s, want %s", got, want)
			}
		})
	}
}

// A key that is the user's goes whole from warm, with what an earlier owner had
// there; the earlier owner's records in cold are not the order's.
func TestAUsersKeyThatWasAnothersBefore(t *testing.T) {
	t.Parallel()
	w := newWard(t, wardOptions{})
	k := in("notes", "shared")
	w.write(k, owned("bob", `{"text":"bobs"}`))
	w.write(k, row(tiering.OpDelete))
	w.write(k, owned(canary, `{"text":"`+canary+`"}`))
	w.flush()
	if r := w.erase(tiering.EraseRequest{User: canary}); r.State != "done" || r.Keys != 1 || r.Versions != 3 {
		t.Fatalf("%+v", r)
	}
	w.gone()
	cur, err := w.store.Load(w.ctx, k)
	w.no(err)
	if cur.Head.Version != 0 {
		t.Errorf("the head is %+v", cur.Head)
	}
	for _, b := range w.buckets {
		if got, want := w.inCold(b, k), `1 put bob {"text":"bobs"}; 2 delete bob ; `; got != want {
			t.Errorf("cold holds %s, want %s", got, want)
		}
		if got, want := w.rebuiltFrom(w.contents(b), k), "2 bob ; "; got != want {
			t.Errorf("a rebuild makes %s of it, want bob's deletion: %s", got, want)
		}
	}
}

// An earlier owner's document expired, and nobody recorded it before the user put
// his over it: the key goes whole, and no object that a rebuild reads may bring
// the other's back, neither one that a merge replaced nor one that the catalog
// does not know.
func TestWhatAnotherHadComesBackFromNoObject(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		stranger bool
	}{{"that waits for its grace period", false}, {"that the catalog does not know", true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newNotes(t)
			s.engine = lifecycle.New(lifecycle.Config{Warm: s.warm, Archive: s.archive, SegmentAge: time.Nanosecond, MergeCount: 2})
			s.flush()
			known := s.segments()
			s.owned("k", "bob", `"bobs"`)
			s.flush()
			alone := s.segments()[len(known)] // holds his version without its end
			data, err := s.backup.Read(s.ctx, alone, 0, -1)
			s.no(err)
			s.commit(note("k"), warm.Row{Op: tiering.OpTouch, Expiry: ttlOf(time.Minute), Exact: true})
			s.clock.advance(2 * time.Minute)
			s.owned("k", "ann", `"anns"`)
			s.flush()
			s.no(s.engine.ConfirmClock(s.ctx))
			_, err = s.engine.MergeOnce(s.ctx)
			s.no(err)
			if slices.Contains(s.segments(), alone) {
				t.Fatal("nothing was merged")
			}
			if c.stranger {
				s.clock.advance(2 * time.Hour)
				s.collect()
				s.no(s.backup.Create(s.ctx, alone, bytes.NewReader(data), int64(len(data))))
			}
			if got := s.holds(s.backup); !slices.Contains(got, `put1 "bobs"`) || !slices.Contains(s.objects(s.backup, cold.SegmentPrefix), alone) {
				t.Fatalf("the backup holds %q", got)
			}

			s.erase(tiering.EraseRequest{User: "ann"})
			s.bothHold()
			s.rebuild(lifecycle.RebuildOptions{From: tiering.Backup})
			cur, err := s.warm.Head(s.ctx, note("k"))
			s.no(err)
			if cur.Head.Version != 0 {
				t.Errorf("a rebuild makes %+v of it", cur.Head)
			}
		})
	}
}
