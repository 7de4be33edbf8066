package warmtest

import (
	"reflect"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

func testReopen(t *testing.T, h Harness) {
	// history writes something of every kind, then holds what reads answer
	// before and after.
	history := func(f *fixture) (snapshot func() []any) {
		f.Helper()
		row := put(`{"a":1}`)
		row.User, row.Expiry, row.Idempotency = "ann", ttl(time.Hour), once("r", "x")
		f.must(key("a"), row)
		f.must(key("a"), op(tiering.OpPin))
		f.must(key("b"), put(`2`))
		f.must(key("b"), op(tiering.OpDelete))
		f.must(key("c"), put(`3`))
		f.archived("s", tiering.CopyVerified, tiering.CopyVerified, key("c"), 1, 1)
		moved, err := f.store.Demote(f.ctx, key("c"), 1, f.clock.Now())
		f.no(err)
		equal(f, "demoted", moved, true)
		f.no(f.store.RaiseFloor(f.ctx, tenant, space, 10))
		f.no(f.store.SetPosition(f.ctx, "archive", 2))
		return func() []any {
			walk, err := f.store.Walk(f.ctx, tiering.Key{}, 100)
			f.no(err)
			query, _, err := f.store.Query(f.ctx, warm.Query{Tenant: tenant, Namespace: space, Limit: 10})
			f.no(err)
			segments, err := f.store.Segments(f.ctx, "", "", "", 10)
			f.no(err)
			pos, err := f.store.Position(f.ctx, "archive")
			f.no(err)
			versions, err := f.store.Versions(f.ctx, key("b"), 0, 10)
			f.no(err)
			return []any{walk, query, f.feed(), segments, pos, versions, f.load(key("a"))}
		}
	}
	check := func(f *fixture, before []any, snapshot func() []any) {
		f.Helper()
		if after := snapshot(); !reflect.DeepEqual(after, before) {
			f.Fatalf("after opening it again it holds\n%+v\nwant\n%+v", after, before)
		}
		row := put(`{"a":1}`)
		row.Idempotency = once("r", "x")
		f.status(f.one(key("a"), row), warm.Replayed)
		equal(f, "version above the floor", f.must(key("b"), put(`4`)).Head.Version, 11)
		feed := f.feed()
		if last := feed[len(feed)-1]; last.Pos <= feed[len(feed)-2].Pos || last.Changes[0].Key != key("b") {
			f.Fatalf("the feed ends with %+v", last)
		}
	}
	t.Run("after Close", func(t *testing.T) {
		f := setup(t, h)
		snapshot := history(f)
		before := snapshot()
		f.reopen()
		check(f, before, snapshot)
	})
	t.Run("after the process was killed", func(t *testing.T) {
		if h.Crash == nil {
			t.Skip("the driver has no process of its own to kill")
		}
		f := setup(t, h)
		snapshot := history(f)
		before := snapshot()
		left := h.Crash(t, f.place)
		f.no(f.store.Close())
		f.place = left
		f.open()
		check(f, before, snapshot)
	})
	t.Run("two daemons on one store", func(t *testing.T) {
		if !h.Capabilities.Shared {
			t.Skip("the driver serves one daemon")
		}
		f := setup(t, h)
		other := h.Open(t, f.place, Options{Clock: f.clock.Now})
		f.must(key("a"), put(`1`))
		cur, err := other.Load(f.ctx, key("a"))
		f.no(err)
		equal(f, "what the other daemon reads", string(cur.Body), `1`)
		_, ok, err := f.store.Acquire(f.ctx, "archive", "one", time.Minute)
		f.no(err)
		equal(f, "acquired", ok, true)
		_, ok, err = other.Acquire(f.ctx, "archive", "two", time.Minute)
		f.no(err)
		equal(f, "acquired by the other daemon", ok, false)
		f.no(other.Close())
	})
	t.Run("a closed store answers with errors", func(t *testing.T) {
		f := setup(t, h)
		s := f.store
		f.no(s.Close())
		f.store = nil
		if _, err := s.Load(f.ctx, key("a")); err == nil {
			t.Error("Load after Close")
		}
		if _, err := s.Commit(f.ctx, batch(change(key("a"), put(`1`)))); err == nil {
			t.Error("Commit after Close")
		}
		if err := s.WaitFeed(f.ctx, 1000); err == nil {
			t.Error("WaitFeed after Close")
		}
		if err := s.Ping(f.ctx); err == nil {
			t.Error("Ping after Close")
		}
	})
}
