package lifecycle_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
)

// away takes objects out of both buckets, as a folder that is not mounted or an address
// that is wrong does; back brings them back.
func (s *site) away(names ...string) (back func()) {
	s.Helper()
	type object struct {
		in   cold.Bucket
		name string
		data []byte
	}
	var all []object
	for _, b := range []cold.Bucket{s.primary, s.backup} {
		for _, name := range names {
			data, err := b.Read(s.ctx, name, 0, -1)
			s.no(err)
			s.no(b.Delete(s.ctx, name))
			all = append(all, object{b, name, data})
		}
	}
	return func() {
		s.Helper()
		for _, o := range all {
			s.no(o.in.Create(s.ctx, o.name, bytes.NewReader(o.data), int64(len(o.data))))
		}
	}
}

// verified counts the sound copies of each segment, as the catalog knows them.
func (s *site) verified(names []string) (out []int) {
	s.Helper()
	for _, name := range names {
		info, _, err := s.warm.Segment(s.ctx, name)
		s.no(err)
		out = append(out, info.Verified())
	}
	return out
}

// Both buckets answer for a while without their objects, and the catalog counts on no
// copy any more. Once the objects are there again it does: else nothing of those
// segments would ever be demoted, merged or collected.
func TestCopiesThatWereAwayCountAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	populate(s)
	s.engine = lifecycle.New(lifecycle.Config{Warm: s.warm, Archive: s.archive, VerifyEvery: time.Nanosecond})
	names := s.segments()
	until := func(want int) {
		t.Helper()
		for range 1000 {
			all := true
			for _, n := range s.verified(names) {
				all = all && n == want
			}
			if all {
				return
			}
			s.no(s.engine.VerifyStep(s.ctx))
		}
		t.Fatalf("the segments have %v verified copies, want %d each", s.verified(names), want)
	}
	back := s.away(names...)
	until(0)
	if parked := s.engine.Parked(s.ctx); len(parked) != len(names) || parked[0].Move != "verify" {
		t.Errorf("parked while nothing is there: %+v", parked)
	}
	back()
	until(2)
	if parked := s.engine.Parked(s.ctx); len(parked) > 0 {
		t.Errorf("parked when all is there again: %+v", parked)
	}
}

// A segment of which no copy is left keeps neither other suspects nor the samples
// waiting.
func TestALostSegmentHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	populate(s)
	s.engine = lifecycle.New(lifecycle.Config{Warm: s.warm, Archive: s.archive, VerifyEvery: time.Hour, LeaseTTL: 30 * time.Millisecond})
	s.no(s.engine.VerifyStep(s.ctx)) // the first sample
	names := s.segments()
	s.away(names[0])
	s.edit(s.backup, names[1], flip)
	for _, name := range names[:2] {
		s.engine.Suspect(name, tiering.Backup)
	}
	s.no(s.engine.VerifyStep(s.ctx))
	if got := s.verified(names[:1]); got[0] != 0 {
		t.Errorf("%d verified copies of the lost segment", got[0])
	}
	for _, info := range s.segments() {
		if got := s.verified([]string{info}); info == names[1] || info != names[0] && got[0] != 2 {
			t.Errorf("%s, damaged %t, has %d verified copies", info, info == names[1], got[0])
		}
	}
	if parked := s.engine.Parked(s.ctx); len(parked) != 1 || parked[0].Subject != names[0] {
		t.Errorf("parked: %+v", parked)
	}
}
