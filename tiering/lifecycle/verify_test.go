package lifecycle_test

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // damages rows behind the store's back

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/coldtest"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/vector"
	"github.com/tierd/tierd/warm"
)

func (s *site) verify(depth lifecycle.Depth, repair bool) *lifecycle.VerifyReport {
	s.Helper()
	r, err := s.engine.Verify(s.ctx, lifecycle.VerifyOptions{Depth: depth, Repair: repair})
	s.no(err)
	return r
}

// faults tells a report's faults as text.
func faults(r *lifecycle.VerifyReport) string {
	var out []string
	for _, f := range r.Faults {
		out = append(out, strings.TrimSpace(f.What+" "+f.Copy))
	}
	return strings.Join(out, ", ")
}

// rot runs a statement on the warm store's file behind its back.
func (s *site) rot(statement string) {
	s.Helper()
	db, err := sql.Open("sqlite", "file:"+s.path+"?_pragma=busy_timeout(5000)")
	s.no(err)
	defer db.Close()
	_, err = db.Exec(statement)
	s.no(err)
}

// edit changes an object behind the bucket's back.
func (s *site) edit(b *coldtest.Memory, name string, change func([]byte) []byte) {
	s.Helper()
	data, err := b.Read(s.ctx, name, 0, -1)
	s.no(err)
	b.Replace(name, change(data))
}

func flip(data []byte) []byte {
	data[len(data)/3] ^= 1
	return data
}

func TestVerifyFindsAndRepairs(t *testing.T) {
	t.Parallel()
	cut := func(data []byte) []byte { return data[:len(data)-1] }
	for _, c := range []struct {
		name   string
		harm   func(s *site, segment string)
		from   int // the first depth that sees it
		fault  string
		mended bool
	}{
		{"nothing is wrong", func(*site, string) {}, 9, "", true},
		{"the primary copy is gone", func(s *site, n string) { s.no(s.primary.Delete(s.ctx, n)) }, 0, "missing primary", true},
		{"the backup copy is gone", func(s *site, n string) { s.no(s.backup.Delete(s.ctx, n)) }, 0, "missing backup", true},
		{"a copy is cut", func(s *site, n string) { s.edit(s.backup, n, cut) }, 0, "bad backup", true},
		{"a bit of a copy flipped", func(s *site, n string) { s.edit(s.primary, n, flip) }, 1, "bad primary", true},
		{"both copies are damaged", func(s *site, n string) { s.edit(s.primary, n, flip); s.edit(s.backup, n, flip) }, 1, "bad primary, bad backup", false},
		{"a location names a version that is not there", func(s *site, _ string) {
			s.rot(`UPDATE location SET max_version = 7 WHERE id = CAST('plain' AS BLOB) AND tenant = 'acme'`)
		}, 2, "location", false},
		{"a location names a block that is not there", func(s *site, _ string) {
			s.rot(`UPDATE location SET blocks = json_array(json_object('v', min_version, 'o', 1000000, 'n', 100)) WHERE id = CAST('plain' AS BLOB) AND tenant = 'acme'`)
		}, 2, "location", false},
		{"bytes in warm rotted", func(s *site, _ string) {
			s.rot(`UPDATE version SET body = CAST('{"a":2.10}' AS BLOB) WHERE CAST(body AS TEXT) = '{"a":1.10}'`)
		}, 2, "document", true},
		{"a document is nowhere", func(s *site, _ string) {
			s.rot(`DELETE FROM version WHERE CAST(body AS TEXT) = '{"a":1.10}'`)
			s.rot(`UPDATE head SET flags = flags & ~2 WHERE id = CAST('plain' AS BLOB)`)
			s.rot(`DELETE FROM location WHERE id = CAST('plain' AS BLOB)`)
		}, 2, "document", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for depth, d := range []lifecycle.Depth{lifecycle.DepthList, lifecycle.DepthHash, lifecycle.DepthRestore} {
				if depth < c.from-1 || depth > c.from && c.from > 0 {
					continue // like its neighbour
				}
				s := newSite(t)
				s.namespace(siteTenant, "notes", tiering.Policy{})
				s.put(note("plain"), `{"a":1.10}`)
				s.flush()
				s.put(note("other"), `"x"`)
				s.flush()
				want := s.snapshot()
				c.harm(s, s.segments()[0])
				seen := s.verify(d, false)
				if depth < c.from {
					if len(seen.Faults) > 0 {
						t.Errorf("%s sees %s", d, faults(seen))
					}
					continue
				}
				if !strings.HasPrefix(faults(seen), c.fault) || seen.Sound() {
					t.Errorf("%s sees %q, want %q: %+v", d, faults(seen), c.fault, seen.Faults)
				}
				repaired := s.verify(d, true)
				if repaired.Sound() != c.mended {
					t.Errorf("%s with repair: %+v", d, repaired.Faults)
				}
				again := s.verify(lifecycle.DepthRestore, false)
				if again.Sound() != c.mended {
					t.Errorf("after the repair by %s: %+v", d, again.Faults)
				}
				if c.mended {
					s.same(s.snapshot(), want)
				}
			}
		})
	}
}

// TestVerifyMarksTheCatalog: a copy that is not sound is not counted on from
// then on, and the replicator replaces it.
func TestVerifyMarksTheCatalog(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	populate(s)
	names := s.segments()
	s.edit(s.backup, names[0], flip)
	s.no(s.primary.Delete(s.ctx, names[1]))
	s.verify(lifecycle.DepthHash, false)
	for name, want := range map[string][2]tiering.CopyState{
		names[0]: {tiering.CopyVerified, tiering.CopyBad},
		names[1]: {tiering.CopyMissing, tiering.CopyVerified},
		names[2]: {tiering.CopyVerified, tiering.CopyVerified},
	} {
		if info, ok, err := s.warm.Segment(s.ctx, name); err != nil || !ok || info.Copies != want {
			t.Errorf("%s has copies %v, want %v: %v", name, info.Copies, want, err)
		}
	}
	s.no(s.engine.Replicate(s.ctx))
	if r := s.verify(lifecycle.DepthRestore, false); !r.Sound() || r.Segments != int64(len(names))+1 || r.Records == 0 || r.Locations == 0 || r.Documents == 0 {
		t.Errorf("after the replicator: %+v", r)
	}
}

// TestAnUnreachableBucketIsNoDamage: what cannot be asked is not marked, and
// the other bucket is looked at.
func TestAnUnreachableBucketIsNoDamage(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	populate(s)
	s.edit(s.backup, s.segments()[0], flip)
	s.no(s.primary.Close())
	r := s.verify(lifecycle.DepthHash, true)
	if got := faults(r); got != "unreachable primary, bad backup" || r.Repaired != 0 {
		t.Errorf("faults %s, %d repaired", got, r.Repaired)
	}
	s.primary.Reopen()
	all, err := s.warm.Segments(s.ctx, "", "", "", 100)
	s.no(err)
	for _, info := range all {
		if info.Copies[tiering.Primary] != tiering.CopyVerified {
			t.Errorf("%s: primary is %s", info.Name, info.Copies[tiering.Primary])
		}
	}
	if r := s.verify(lifecycle.DepthHash, true); !r.Sound() || r.Repaired != 1 {
		t.Errorf("when it is back: %+v", r)
	}
}

func TestVerifyTellsStrangers(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	populate(s)
	s.backup.Replace("seg/01left-1.tseg", []byte("left by a crash"))
	s.no(s.archive.Occupy(s.ctx, tiering.Primary, "seg/01taken-1.tseg"))
	r := s.verify(lifecycle.DepthList, true)
	if len(r.Strangers) != 1 || r.Strangers[0] != (lifecycle.Stranger{Object: "seg/01left-1.tseg", Copy: "backup", Size: 15}) || !r.Sound() {
		t.Errorf("strangers %+v, faults %+v", r.Strangers, r.Faults)
	}
}

// TestVerifyKeepsMarkersAndOrdersInBothBuckets: each bucket has to be enough.
func TestVerifyKeepsMarkersAndOrdersInBothBuckets(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	populate(s)
	s.rebuild(lifecycle.RebuildOptions{From: tiering.Primary})
	order := lifecycle.NewOrder("01order", warm.Selector{Tenant: siteTenant, User: "ann"}, "e", 1, s.clock.Now())
	s.no(s.archive.Write(s.ctx, tiering.Backup, order.Name(), order.Encode()))
	marker := s.objects(s.primary, "epoch/")[0]
	s.edit(s.primary, marker, func([]byte) []byte { return []byte(`{"format":1`) })
	if r := s.verify(lifecycle.DepthList, false); r.Sound() || len(r.Faults) != 2 {
		t.Errorf("faults %+v", r.Faults)
	}
	if r := s.verify(lifecycle.DepthList, true); !r.Sound() || r.Repaired != 2 {
		t.Errorf("faults %+v", r.Faults)
	}
	for _, name := range []string{marker, order.Name()} {
		p, err := s.primary.Read(s.ctx, name, 0, -1)
		s.no(err)
		b, err := s.backup.Read(s.ctx, name, 0, -1)
		s.no(err)
		if string(p) != string(b) || len(p) < 20 {
			t.Errorf("%s: primary %q, backup %q", name, p, b)
		}
	}
}

func TestVerifyRefusesAnUnknownDepth(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	if _, err := s.engine.Verify(s.ctx, lifecycle.VerifyOptions{Depth: "deep"}); !errors.Is(err, tiering.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

// TestSamplingRepairs: the verify worker meets a damaged copy by chance, and at
// once when a reader met it. The segment has another name then, and both copies.
func TestSamplingRepairs(t *testing.T) {
	t.Parallel()
	harmed := func(t *testing.T, every time.Duration) (*site, string, *checks) {
		s := newSite(t)
		populate(s)
		c := &checks{}
		s.engine = lifecycle.New(lifecycle.Config{Warm: s.warm, Archive: s.archive, VerifyEvery: every, LeaseTTL: 30 * time.Millisecond, Recorder: c})
		s.no(s.engine.VerifyStep(s.ctx)) // the first sample
		name := s.segments()[1]
		s.edit(s.backup, name, flip)
		return s, name, c
	}
	right := func(s *site, name string) bool {
		all := s.segments()
		for _, of := range all {
			p, err := s.primary.Read(s.ctx, of, 0, -1)
			s.no(err)
			b, err := s.backup.Read(s.ctx, of, 0, -1)
			s.no(err)
			info, _, err := s.warm.Segment(s.ctx, of)
			s.no(err)
			if string(p) != string(b) || info.Verified() != 2 {
				return false
			}
		}
		return len(all) == 3 && !slices.Contains(all, name)
	}
	t.Run("by chance", func(t *testing.T) {
		s, name, c := harmed(t, time.Nanosecond)
		for i := 0; i < 1000 && !right(s, name); i++ {
			s.no(s.engine.VerifyStep(s.ctx))
		}
		if !right(s, name) || c.repaired != 1 || c.bad == 0 || c.sound == 0 {
			t.Errorf("repaired %t, checks %+v", right(s, name), c)
		}
	})
	t.Run("when a reader met it", func(t *testing.T) {
		s, name, c := harmed(t, time.Hour)
		for range 3 {
			s.engine.Suspect(name, tiering.Backup)
		}
		s.engine.Suspect("seg/01unknown-1.tseg", tiering.Primary)
		s.no(s.engine.VerifyStep(s.ctx))
		if !right(s, name) || c.repaired != 1 || c.bad != 1 {
			t.Errorf("repaired %t, checks %+v", right(s, name), c)
		}
	})
	t.Run("a suspect that cannot be looked at is not forgotten", func(t *testing.T) {
		s, name, _ := harmed(t, time.Hour)
		s.engine.Suspect(name, tiering.Backup)
		s.no(s.primary.Close())
		if err := s.engine.VerifyStep(s.ctx); err == nil {
			t.Error("no error while a bucket is away")
		}
		s.primary.Reopen()
		s.no(s.engine.VerifyStep(s.ctx))
		if !right(s, name) {
			t.Error("it was not repaired")
		}
	})
}

// checks counts what the engine records.
type checks struct{ sound, bad, repaired int }

func (c *checks) FeedLag(int64)                            {}
func (c *checks) ArchiveLag(int64, time.Duration)          {}
func (c *checks) Indexed(vector.Stats, int64)              {}
func (c *checks) MissingCopies(tiering.Copy, int64)        {}
func (c *checks) Moved(tiering.Move, bool, error)          {}
func (c *checks) Due(tiering.Move, int64)                  {}
func (c *checks) Stored(tiering.Tier, tiering.Copy, int64) {}
func (c *checks) Parked(int)                               {}
func (c *checks) CopyRepaired(_ tiering.Copy, err error)   { c.repaired += count(err == nil) }
func (c *checks) CopyChecked(_ tiering.Copy, err error) {
	c.sound += count(err == nil)
	c.bad += count(err != nil)
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// TestARepairDoesNotBringBackWhatWasCollected: a segment that leaves the catalog
// while a copy of it is made leaves the bucket too.
func TestARepairDoesNotBringBackWhatWasCollected(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	populate(s)
	name := s.segments()[0]
	reached, gate := make(chan struct{}), make(chan struct{})
	faulty := coldtest.NewFaultBucket(s.primary)
	faulty.Inject(coldtest.Fault{Call: coldtest.Create, Name: name, Times: 1, Reached: reached, Gate: gate})
	s.archive = cold.NewArchive(faulty, s.backup, nil)
	s.engine = lifecycle.New(lifecycle.Config{Warm: s.warm, Archive: s.archive})
	s.no(s.primary.Delete(s.ctx, name))
	done := make(chan error)
	go func() {
		_, err := s.engine.Verify(s.ctx, lifecycle.VerifyOptions{Repair: true})
		done <- err
	}()
	<-reached
	s.rot(fmt.Sprintf(`DELETE FROM location WHERE segment = '%s'`, name))
	dropped, err := s.warm.DropSegment(s.ctx, name)
	s.no(err)
	if !dropped {
		t.Fatal("not dropped")
	}
	s.no(s.warm.ForgetSegment(s.ctx, name))
	s.no(s.backup.Delete(s.ctx, name))
	close(gate)
	s.no(<-done)
	if data, err := s.primary.Read(s.ctx, name, 0, -1); err == nil && !cold.Occupied(data) {
		t.Errorf("%d bytes of it are left", len(data))
	}
}
