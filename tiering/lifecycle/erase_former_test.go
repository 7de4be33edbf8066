package lifecycle_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm"
)

// slid is a session that bob had and that ended by itself, so that nothing in cold
// says that it did; ann has had the key since. A rebuild that found bob's alone
// would move its expiry forward, and so bring it back.
func slid(t testing.TB, together bool) (*site, tiering.Key) {
	t.Helper()
	s := newSite(t)
	s.namespace(siteTenant, "chats", tiering.Policy{Class: tiering.ClassSession})
	k := tiering.Key{Tenant: siteTenant, Namespace: "chats", ID: "k"}
	put := func(id, user, body string) {
		r := putOf(body)
		r.User, r.Expiry = user, ttlOf(time.Minute)
		s.commit(tiering.Key{Tenant: siteTenant, Namespace: "chats", ID: id}, r)
	}
	put("k", "bob", `"bobs"`)
	put("other", "bob", `"stays"`)
	if !together {
		s.flush()
	}
	s.clock.advance(time.Hour)
	put("k", "ann", `"anns"`)
	s.flush()
	return s, k
}

// absent fails the test where a rebuild brings anything of the key back.
func (s *site) absent(k tiering.Key, when string) {
	s.Helper()
	cur, err := s.warm.Head(s.ctx, k)
	s.no(err)
	if cur.Head.Version != 0 {
		s.Errorf("%s there is %s%d of %q, until %s", when, cur.Head.Op, cur.Head.Version, cur.Head.User, cur.Head.ExpiresAt)
	}
}

func (s *site) present(id string) {
	s.Helper()
	if got := s.body(tiering.Key{Tenant: siteTenant, Namespace: "chats", ID: id}); got != `"stays"` {
		s.Errorf("%s is %q", id, got)
	}
}

// An erase died with its warm store, and the order alone finishes it: what it
// takes is all that hid what another had under the key before, so that goes first.
func TestAnOrderBringsNoFormerOwnerBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		together bool // both owners' versions lie in one segment
		since    bool // the key is somebody's again before the order is finished
		finish   func(*site)
	}{
		{"in segments of their own", false, false, func(s *site) { s.no(s.engine.FinishOrders(s.ctx)) }},
		{"in one segment", true, false, func(s *site) { s.no(s.engine.FinishOrders(s.ctx)) }},
		{"under a key that was taken since", false, true, func(s *site) { s.no(s.engine.FinishOrders(s.ctx)) }},
		{"by another erase", false, false, func(s *site) { s.erase(tiering.EraseRequest{User: "carl"}) }},
		{"by the same one", true, false, func(s *site) { s.erase(tiering.EraseRequest{User: "ann"}) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, k := slid(t, c.together)
			s.order(warm.Selector{Tenant: siteTenant, User: "ann"}, s.primary, s.backup)
			s.rebuild(lifecycle.RebuildOptions{From: tiering.Primary})
			s.absent(k, "after the first rebuild")
			s.no(s.engine.Replicate(s.ctx))
			if c.since {
				s.commit(k, owned("dora", `"doras"`)) // and never archived
			}
			c.finish(s)
			s.rebuild(lifecycle.RebuildOptions{From: tiering.Backup})
			s.absent(k, "once the order is finished")
			s.present("other")
		})
	}
}

// Segments whose names are occupied move before the orders are looked at.
func TestAMoveBringsNoFormerOwnerBack(t *testing.T) {
	t.Parallel()
	s, k := slid(t, false)
	segments := s.segments()
	anns := segments[len(segments)-1]
	s.order(warm.Selector{Tenant: siteTenant, User: "ann"}, s.primary, s.backup)
	s.no(s.archive.Occupy(s.ctx, tiering.Primary, anns))
	s.rebuild(lifecycle.RebuildOptions{From: tiering.Backup})
	s.no(s.engine.Replicate(s.ctx))
	if slices.Contains(s.segments(), anns) {
		t.Fatal("nothing moved")
	}
	s.rebuild(lifecycle.RebuildOptions{From: tiering.Backup})
	s.absent(k, "after the move")
	s.present("other")
}

// Whatever change of a user's erase is the last before warm is lost, no rebuild
// brings back what another had before.
func TestNoFormerOwnerComesBackWhereverWarmIsLost(t *testing.T) {
	t.Parallel()
	const plenty = 1000
	no := false
	request := tiering.EraseRequest{User: "ann", DryRun: &no}
	erase := func(s *site, l *life) {
		archive := cold.NewArchive(mortalBucket{s.primary, l}, mortalBucket{s.backup, l}, nil)
		e := lifecycle.New(lifecycle.Config{Warm: mortalStore{s.warm, l}, Archive: archive})
		_, _ = e.Erase(s.ctx, siteTenant, request)
	}
	for _, together := range []bool{false, true} {
		whole := &life{left: plenty}
		s, _ := slid(t, together)
		erase(s, whole)
		for step := range plenty - whole.left {
			t.Run(strconv.FormatBool(together)+" "+strconv.Itoa(step), func(t *testing.T) {
				t.Parallel()
				s, k := slid(t, together)
				erase(s, &life{left: step, after: true})
				s.rebuild(lifecycle.RebuildOptions{From: tiering.Primary})
				if len(s.objects(s.primary, lifecycle.OrdersPrefix)) == 0 {
					return // it was never ordered
				}
				s.absent(k, "at first")
				s.no(s.engine.Replicate(s.ctx))
				s.no(s.engine.FinishOrders(s.ctx))
				s.rebuild(lifecycle.RebuildOptions{From: tiering.Primary})
				s.absent(k, "in the end")
				s.present("other")
			})
		}
	}
}
