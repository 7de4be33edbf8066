package warmtest

import (
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

func testNamespaces(t *testing.T, h Harness) {
	k := key("k")
	ensure := func(f *fixture, kind tiering.Kind, class tiering.Class) warm.Namespace {
		f.Helper()
		n, err := f.store.EnsureNamespace(f.ctx, warm.Namespace{Tenant: tenant, Name: space, Kind: kind, Class: class})
		f.no(err)
		return n
	}
	drop := func(f *fixture) bool {
		f.Helper()
		dropped, err := f.store.DropNamespace(f.ctx, tenant, space)
		f.no(err)
		return dropped
	}
	t.Run("a namespace that does not exist takes no write", func(t *testing.T) {
		f := bare(t, h)
		f.status(f.one(k, put(`1`)), warm.NoNamespace)
		f.status(f.one(k, op(tiering.OpDelete)), warm.NoNamespace)
		ensure(f, tiering.KindState, tiering.ClassPersistent)
		f.must(k, put(`1`))
		f.status(f.one(tiering.Key{Tenant: "globex", Namespace: space, ID: "k"}, put(`1`)), warm.NoNamespace)
	})
	t.Run("reserved ones exist without a row", func(t *testing.T) {
		f := bare(t, h)
		f.must(tiering.Key{Tenant: tenant, Namespace: tiering.PolicyNamespace, ID: space}, put(`{}`))
	})
	t.Run("kind and class are fixed by the first key", func(t *testing.T) {
		f := bare(t, h)
		n := ensure(f, tiering.KindState, tiering.ClassPersistent)
		equal(f, "the row", n, warm.Namespace{Tenant: tenant, Name: space, Kind: tiering.KindState, Class: tiering.ClassPersistent})
		n = ensure(f, tiering.KindLog, tiering.ClassSession)
		equal(f, "kind while no key was written", n.Kind, tiering.KindLog)
		equal(f, "class while no key was written", n.Class, tiering.ClassSession)
		f.must(k, put(`1`))
		f.must(k, op(tiering.OpDelete))
		n = ensure(f, tiering.KindState, tiering.ClassPersistent)
		equal(f, "kind", n.Kind, tiering.KindLog)
		equal(f, "class", n.Class, tiering.ClassSession)
	})
	t.Run("the first key is of the kind and class that its writer knew", func(t *testing.T) {
		f := bare(t, h)
		ensure(f, tiering.KindLog, tiering.ClassSession)
		as := func(kind tiering.Kind, class tiering.Class) warm.Result {
			f.Helper()
			return f.commit(warm.Change{Key: k, Rows: []warm.Row{put(`1`)}, Kind: kind, Class: class})[0][0]
		}
		f.status(as(tiering.KindState, tiering.ClassSession), warm.NoNamespace)
		f.status(as(tiering.KindLog, tiering.ClassPersistent), warm.NoNamespace)
		f.status(as(tiering.KindLog, tiering.ClassSession), warm.Done)
	})
	t.Run("keys that warm does not hold fix kind and class too", func(t *testing.T) {
		f := bare(t, h)
		fix := func(class tiering.Class) bool {
			f.Helper()
			fixed, err := f.store.FixNamespace(f.ctx, warm.Namespace{Tenant: tenant, Name: space, Kind: tiering.KindState, Class: class})
			f.no(err)
			return fixed
		}
		equal(f, "fixed where there is none", fix(tiering.ClassEphemeral), false)
		ensure(f, tiering.KindState, tiering.ClassSession)
		equal(f, "fixed as another", fix(tiering.ClassEphemeral), false)
		ensure(f, tiering.KindState, tiering.ClassEphemeral)
		for range 2 {
			equal(f, "fixed", fix(tiering.ClassEphemeral), true)
			equal(f, "class", ensure(f, tiering.KindState, tiering.ClassPersistent).Class, tiering.ClassEphemeral)
		}
		equal(f, "dropped", drop(f), true)
		equal(f, "fixed where it was dropped", fix(tiering.ClassEphemeral), false)
	})
	t.Run("only an empty one is dropped, and it comes back with its floor", func(t *testing.T) {
		f := setup(t, h)
		f.must(k, put(`1`))
		equal(f, "dropped with a live key", drop(f), false)
		f.must(k, op(tiering.OpDelete))
		f.no(f.store.RaiseFloor(f.ctx, tenant, space, 50))
		equal(f, "dropped", drop(f), true)
		f.status(f.one(k, put(`2`)), warm.NoNamespace)
		n := ensure(f, tiering.KindState, tiering.ClassPersistent)
		equal(f, "deleted", n.Deleted, false)
		equal(f, "floor", n.Floor, 50)
		equal(f, "version of a new key", f.must(key("new"), put(`2`)).Head.Version, 51)
		if v := f.must(k, put(`2`)).Head.Version; v <= 2 {
			t.Fatalf("the version after the tombstone's 2 is %d", v)
		}
	})
	t.Run("what expired in a dropped one is still swept", func(t *testing.T) {
		f := setup(t, h)
		row := put(`1`)
		row.Expiry = ttl(time.Minute)
		f.must(k, row)
		f.clock.advance(time.Hour)
		equal(f, "dropped", drop(f), true)
		keys, err := f.store.Expired(f.ctx, 10)
		f.no(err)
		for _, k := range keys {
			f.must(k, op(tiering.OpExpire))
		}
		keys, err = f.store.Expired(f.ctx, 10)
		f.no(err)
		equal(f, "keys after the sweep", len(keys), 0)
	})
	t.Run("the floor only rises, and every version made from then on is above it", func(t *testing.T) {
		f := setup(t, h)
		f.must(k, put(`1`))
		f.no(f.store.RaiseFloor(f.ctx, tenant, space, 100))
		f.no(f.store.RaiseFloor(f.ctx, tenant, space, 7))
		equal(f, "version of a standing key", f.must(k, put(`2`)).Head.Version, 101)
		equal(f, "version of a new key", f.must(key("new"), put(`2`)).Head.Version, 101)
		equal(f, "floor", ensure(f, tiering.KindState, tiering.ClassPersistent).Floor, 100)
	})
	t.Run("purging tombstones", func(t *testing.T) {
		f := setup(t, h)
		purge := func(limit int) int {
			f.Helper()
			n, err := f.store.PurgeTombstones(f.ctx, tenant, space, f.clock.Now().Add(-time.Minute), limit)
			f.no(err)
			return n
		}
		// Version rows leave through Retire, which needs a segment; a tombstone
		// of a key with a location stays.
		f.must(k, put(`1`))
		f.must(k, op(tiering.OpDelete))
		f.must(key("live"), put(`1`))
		f.clock.advance(time.Hour)
		equal(f, "purged with version rows", purge(10), 0)
		f.archived("s", tiering.CopyVerified, tiering.CopyVerified, k, 1, 2)
		n, err := f.store.Retire(f.ctx, k, []int64{1, 2})
		f.no(err)
		equal(f, "retired, the tombstone's own version too", n, 2)
		equal(f, "purged with a location", purge(10), 0)
		equal(f, "the tombstone", f.load(k).Head.Version, 2)
	})
	t.Run("a key made again while its tombstone is purged is above it", func(t *testing.T) {
		f := setup(t, h)
		f.must(k, put(`1`))
		var last int64
		for i := range 20 {
			r := f.one(k, op(tiering.OpDelete))
			f.clock.advance(time.Hour)
			var wg sync.WaitGroup
			wg.Go(func() {
				if _, err := f.store.PurgeTombstones(f.ctx, tenant, space, f.clock.Now(), 10); err != nil {
					t.Error(err)
				}
			})
			wg.Go(func() {
				results, err := f.store.Commit(f.ctx, batch(change(k, put(`2`))))
				if err != nil {
					t.Error(err)
					return
				}
				last = results[0][0].Head.Version
			})
			wg.Wait()
			if last <= r.Head.Version {
				t.Fatalf("round %d: version %d after the tombstone's %d", i, last, r.Head.Version)
			}
		}
	})
}
