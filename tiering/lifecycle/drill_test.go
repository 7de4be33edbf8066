package lifecycle_test

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/sqlite"
)

func (s *site) drill(from tiering.Copy) *lifecycle.DrillReport {
	s.Helper()
	s.clock.advance(time.Second)
	r, err := s.engine.Drill(s.ctx, lifecycle.DrillOptions{From: from, Open: func(ctx context.Context) (warm.Store, error) {
		return sqlite.Open(ctx, filepath.Join(s.TempDir(), "scratch.db"), &sqlite.Options{Restore: true, Clock: s.clock.Now})
	}})
	s.no(err)
	return r
}

func TestDrill(t *testing.T) {
	t.Parallel()
	const documents = 7 // of populate, with three policies, less what is deleted
	for _, c := range []struct {
		name        string
		harm        func(s *site)
		differences int
		waiting     int64
		sound       bool
	}{
		{"everything comes back", func(*site) {}, 0, 0, true},
		{"what is not archived yet waits", func(s *site) {
			s.put(note("often"), `4`)
			s.put(note("new"), `1`)
			s.do(note("plain"), tiering.OpDelete)
		}, 0, 3, true},
		{"a segment is gone", func(s *site) { s.no(s.backup.Delete(s.ctx, s.segments()[0])) }, 8, 0, false},
		{"a document came back with other bytes", func(s *site) {
			name := s.segments()[1]
			old, err := s.archive.OpenObject(s.ctx, tiering.Backup, name)
			s.no(err)
			var records []cold.Record
			for r, err := range old.Records() {
				s.no(err)
				if r.Key == note("owned") {
					r.Body = bytes.ToUpper(r.Body)
					r.Digest = tiering.DigestOf(r.Body)
				}
				records = append(records, r)
			}
			forged, err := cold.Encode(old.Tenant(), old.Ranges(), records, &cold.EncodeOptions{Epoch: old.Epoch()})
			s.no(err)
			s.backup.Replace(name, forged.Data)
		}, 1, 0, false},
		{"a deletion was lost", func(s *site) {
			s.do(note("plain"), tiering.OpDelete)
			s.flush()
			s.put(note("other"), `1`)
			s.flush()
			s.no(s.backup.Delete(s.ctx, s.segments()[3]))
		}, 2, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t)
			populate(s)
			c.harm(s)
			before, beside := s.snapshot(), s.objects(s.backup, "")
			r := s.drill(tiering.Backup)
			if len(r.Differences) != c.differences || r.Waiting != c.waiting || r.Sound() != c.sound {
				t.Errorf("%d differences, %d waiting, sound %t: %+v", len(r.Differences), r.Waiting, r.Sound(), r)
			}
			if r.Documents < documents || r.Rebuild.Segments == 0 {
				t.Errorf("it compared %d documents", r.Documents)
			}
			s.same(s.snapshot(), before)
			if after := s.objects(s.backup, ""); len(after) != len(beside) {
				t.Errorf("it left %v", after)
			}
		})
	}
}

// TestDrillAfterARebuild: a store in its second life passes, from either bucket.
func TestDrillAfterARebuild(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	populate(s)
	s.rebuild(lifecycle.RebuildOptions{From: tiering.Primary})
	s.put(note("often"), `4`)
	s.flush()
	for _, from := range []tiering.Copy{tiering.Primary, tiering.Backup} {
		if r := s.drill(from); !r.Sound() || r.Waiting != 0 {
			t.Errorf("from %s: %+v", from, r)
		}
	}
}
