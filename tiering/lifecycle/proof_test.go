package lifecycle_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// Bytes leave warm only behind two copies that can be read back at that moment:
// what the catalog says of buckets that lost their objects, or that cannot be
// reached, is not enough (C7).
func TestNothingLeavesWarmBehindCopiesThatAreGone(t *testing.T) {
	for _, damage := range []struct {
		name string
		do   func(*site)
	}{
		{"one bucket lost its objects", func(s *site) { empty(s, s.backup) }},
		{"both buckets lost their objects", func(s *site) { empty(s, s.primary); empty(s, s.backup) }},
	} {
		t.Run(damage.name, func(t *testing.T) {
			s := newSite(t)
			s.namespace(siteTenant, "notes", tiering.Policy{})
			k := note("a")
			s.put(k, `{"n":1}`)
			current := s.put(k, `{"n":2}`)
			s.flush()
			s.no(s.engine.ConfirmClock(s.ctx))
			s.clock.advance(40 * 24 * time.Hour)
			s.no(s.engine.ConfirmClock(s.ctx))
			damage.do(s)

			s.no(s.engine.Sweep(s.ctx))

			cur, err := s.warm.Load(s.ctx, k)
			s.no(err)
			if !cur.Head.InWarm || string(cur.Body) != `{"n":2}` {
				t.Errorf("the current bytes left warm: %+v", cur.Head)
			}
			if _, ok, err := s.warm.Version(s.ctx, k, current.Version-1); !ok || err != nil {
				t.Errorf("the version before left warm: %v", err)
			}
			if err := s.engine.Proven(s.ctx, k, current.Version, current.Digest); !errors.Is(err, tiering.ErrUnavailable) {
				t.Errorf("Proven: %v, want unavailable", err)
			}
		})
	}
}

// A pass proves many documents by the blocks that they share, and rests between: what
// it read before a rest proves nothing behind it.
func TestAProofGrowsOld(t *testing.T) {
	s := newSite(t)
	s.namespace(siteTenant, "notes", tiering.Policy{})
	v := s.put(note("a"), `{"n":1}`)
	s.flush()
	first, second := s.engine.ProvenTwice(s.ctx, note("a"), v.Version, v.Digest, func() { empty(s, s.backup) })
	s.no(first)
	if !errors.Is(second, tiering.ErrUnavailable) {
		t.Errorf("behind a rest in which a bucket lost its objects: %v", second)
	}
}

// With both copies sound the same sweep lets both go.
func TestSweepLetsProvenBytesGo(t *testing.T) {
	s := newSite(t)
	s.namespace(siteTenant, "notes", tiering.Policy{})
	k := note("a")
	s.put(k, `{"n":1}`)
	current := s.put(k, `{"n":2}`)
	s.flush()
	s.clock.advance(40 * 24 * time.Hour)
	s.no(s.engine.ConfirmClock(s.ctx))
	s.no(s.engine.Sweep(s.ctx))
	cur, err := s.warm.Load(s.ctx, k)
	s.no(err)
	if cur.Head.InWarm {
		t.Error("the idle document stayed in warm")
	}
	if _, ok, err := s.warm.Version(s.ctx, k, current.Version-1); ok || err != nil {
		t.Errorf("the superseded version stayed in warm: %v", err)
	}
}

// fearless is a store that has no memory of its clock.
type fearless struct{ warm.Store }

func (fearless) HighWater(context.Context) (time.Time, error) { return time.Time{}, nil }

// R12: a clock that jumps ten years parks every destructive move until a person
// confirms it.
func TestRaceR12AJumpMovesNothing(t *testing.T) {
	t.Parallel()
	raced(t, func(n *node, naive bool) error {
		if naive {
			n.config.Warm = fearless{n.store}
			n.restart()
		}
		n.policy("notes", tiering.Policy{})
		n.put("a")
		n.flush()
		n.sweep() // notes the time
		n.tick(10 * 365 * day)
		n.sweep()
		inWarm := func() bool {
			cur, err := n.store.Load(n.ctx, key("a"))
			n.no(err)
			return cur.Head.InWarm
		}
		if !inWarm() {
			return errors.New("a document was demoted on a clock that jumped")
		}
		if parked := n.engine.Parked(n.ctx); len(parked) != 1 || parked[0].Move != "clock" {
			n.Errorf("parked: %+v", parked)
		}
		n.no(n.engine.ConfirmClock(n.ctx))
		n.sweep()
		if inWarm() {
			n.Error("nothing moved after the clock was confirmed")
		}
		return nil
	})
}

func empty(s *site, b cold.Bucket) {
	for _, name := range s.objects(b, cold.SegmentPrefix) {
		s.no(b.Delete(s.ctx, name))
	}
}
