package lifecycle_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm"
)

// An erase died with its store, and took of a key only what was its user's:
// another has it by now. The rebuild hides what the user had, and once that is
// gone the history of the owners around him is there as before, whether it lies
// beside his, or in segments of its own.
func TestAnOrderLeavesTheOwnersAroundItsUser(t *testing.T) {
	t.Parallel()
	finish := func(s *site) { s.no(s.engine.FinishOrders(s.ctx)) }
	resume := func(s *site) { s.erase(tiering.EraseRequest{User: "bob"}) }
	for _, c := range []struct {
		name     string
		segments bool // each owner's versions lie in one of their own
		expires  bool // and end by themselves, so that no deletion stands between owners
		finish   func(*site)
	}{
		{"in one segment, by the order", false, false, finish},
		{"in one segment, by another erase", false, false, resume},
		{"in segments, by the order", true, false, finish},
		{"in segments, by another erase", true, false, resume},
		{"without deletions, by another erase", false, true, resume},
		{"without deletions, in segments, by another erase", true, true, resume},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newNotes(t)
			k := note("k")
			versions := map[string]int64{}
			for _, user := range []string{"ann", "bob", ""} {
				r := putOf(`"` + user + `s"`)
				r.User = user
				if c.expires && user != "" {
					r.Expiry = ttlOf(time.Minute)
				}
				versions[user] = s.commit(k, r).Version
				switch {
				case user == "":
				case c.expires:
					s.clock.advance(time.Hour)
				default:
					s.do(k, tiering.OpDelete)
				}
				if c.segments {
					s.flush()
				}
			}
			s.flush()
			want := s.snapshot()
			s.order(warm.Selector{Tenant: siteTenant, User: "bob"}, s.primary, s.backup)
			s.rebuild(lifecycle.RebuildOptions{From: tiering.Primary})
			if got, err := s.history(k, versions["bob"]); !errors.Is(err, tiering.ErrNotFound) {
				t.Errorf("before it is finished bob's is %q, %v", got, err)
			}
			s.no(s.engine.Replicate(s.ctx))
			c.finish(s)
			for user, want := range map[string]string{"ann": `"anns"`, "": `"s"`} {
				if got, err := s.history(k, versions[user]); got != want || err != nil {
					t.Errorf("the version of %q is %q, %v", user, got, err)
				}
			}
			if got, err := s.history(k, versions["bob"]); !errors.Is(err, tiering.ErrNotFound) {
				t.Errorf("in the end bob's is %q, %v", got, err)
			}
			for _, b := range []cold.Bucket{s.primary, s.backup} {
				if got := strings.Join(s.holds(b), "; "); strings.Contains(got, "bobs") || !strings.Contains(got, "anns") {
					t.Errorf("a bucket holds %s", got)
				}
			}
			s.same(s.snapshot(), want)
		})
	}
}

// What lies beyond the cut of a rebuild as of an earlier time is not listed when
// the segment is written anew, nor what others had under a key that went whole.
func TestAnOrderListsNoMoreThanCounts(t *testing.T) {
	t.Parallel()
	s := newNotes(t)
	for _, id := range []string{"stands", "whole"} {
		s.owned(id, "ann", `"anns"`)
		s.do(note(id), tiering.OpDelete)
		s.owned(id, "bob", `"bobs"`)
	}
	s.do(note("stands"), tiering.OpDelete)
	h := s.owned("stands", "carl", `"carls"`)
	at := s.clock.Now()
	s.put(note("stands"), `"later"`)
	s.flush()
	s.order(warm.Selector{Tenant: siteTenant, User: "bob"}, s.primary, s.backup)
	s.rebuild(lifecycle.RebuildOptions{From: tiering.Primary, AsOf: at})
	s.no(s.engine.Replicate(s.ctx))
	s.no(s.engine.FinishOrders(s.ctx))
	for id, want := range map[string][2]int64{"stands": {1, h.Version}, "whole": {}} {
		locs, err := s.warm.Locations(s.ctx, note(id))
		s.no(err)
		if len(locs) != 1 || [2]int64{locs[0].MinVersion, locs[0].MaxVersion} != want {
			t.Errorf("%s lies at %+v, want versions %v", id, locs, want)
		}
	}
}
