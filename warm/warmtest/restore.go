package warmtest

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

const (
	restoredEpoch = "01JRESTORED0000000000000000"
	restoredFloor = int64(1) << 40
)

// restored is a document as a rebuild found it.
func (f *fixture) restored(k tiering.Key, version int64, body string) warm.Restored {
	at := f.clock.Now().Add(-time.Hour)
	return warm.Restored{Query: true, Body: []byte(body), Head: warm.Head{
		Key: k, Op: tiering.OpPut, Version: version, Revision: 2, CreatedAt: at.Add(-time.Hour), UpdatedAt: at, AccessedAt: at.Add(time.Minute),
		ExpiresAt: at.Add(48 * time.Hour), TTL: 48 * time.Hour, User: "ada", Size: int64(len(body)), Digest: tiering.DigestOf([]byte(body)), InWarm: true,
	}}
}

// buried is a tombstone as a rebuild found it.
func (f *fixture) buried(k tiering.Key, version int64) warm.Restored {
	at := f.clock.Now().Add(-time.Hour)
	return warm.Restored{Head: warm.Head{Key: k, Op: tiering.OpDelete, Version: version, CreatedAt: at, UpdatedAt: at, AccessedAt: at, User: "ada"}}
}

func (f *fixture) beginRestore() {
	f.Helper()
	f.no(f.store.BeginRestore(f.ctx, restoredEpoch, restoredFloor))
}

func (f *fixture) restore(keys ...warm.Restored) {
	f.Helper()
	f.no(f.store.RestoreNamespace(f.ctx, warm.Namespace{Tenant: tenant, Name: space, Kind: tiering.KindState, Class: tiering.ClassPersistent}))
	f.no(f.store.RestoreKeys(f.ctx, keys))
}

func testRestore(t *testing.T, h Harness) {
	k := key("k")
	t.Run("a store that holds anything refuses", func(t *testing.T) {
		for _, c := range []struct {
			name string
			hold func(f *fixture)
		}{
			{"a namespace", func(f *fixture) { f.ensure(tenant, space) }},
			{"a key", func(f *fixture) {
				f.must(tiering.Key{Tenant: tenant, Namespace: tiering.PolicyNamespace, ID: "p"}, put(`1`))
			}},
			{"a segment", func(f *fixture) { f.start("s") }},
			{"a location", func(f *fixture) { f.archived("s", tiering.CopyVerified, tiering.CopyVerified, k, 1, 1) }},
			{"an erase order", func(f *fixture) { f.begin("r", f.ofID("k")) }},
			{"an earlier rebuild", func(f *fixture) {
				f.beginRestore()
				f.restore(f.restored(k, 3, `1`))
				f.no(f.store.EndRestore(f.ctx))
			}},
		} {
			t.Run(c.name, func(t *testing.T) {
				f := bare(t, h)
				c.hold(f)
				before, err := f.store.Epoch(f.ctx)
				f.no(err)
				standing := f.standing()
				if err := f.store.BeginRestore(f.ctx, "01JANOTHER00000000000000000", 5); err == nil {
					t.Fatal("it did not refuse")
				}
				after, err := f.store.Epoch(f.ctx)
				f.no(err)
				equal(f, "the epoch", after, before)
				equal(f, "the keys", f.standing(), standing)
			})
		}
	})
	t.Run("nothing is restored before it was begun, or after its end", func(t *testing.T) {
		f := bare(t, h)
		refused := func(when string) {
			t.Helper()
			for what, err := range map[string]error{
				"a namespace": f.store.RestoreNamespace(f.ctx, warm.Namespace{Tenant: tenant, Name: "x", Kind: tiering.KindState, Class: tiering.ClassPersistent}),
				"a key":       f.store.RestoreKeys(f.ctx, []warm.Restored{f.restored(key("x"), 1, `1`)}),
				"a segment":   f.store.RestoreSegment(f.ctx, tiering.SegmentInfo{Name: "x", Tenant: tenant}, nil),
				"the end":     f.store.EndRestore(f.ctx),
			} {
				if err == nil {
					t.Errorf("%s was taken %s", what, when)
				}
			}
			equal(f, "keys", f.standing(), "")
		}
		refused("before the begin")
		f.beginRestore()
		f.no(f.store.EndRestore(f.ctx))
		refused("after the end")
	})
	t.Run("what was restored reads as it was found", func(t *testing.T) {
		f := bare(t, h)
		f.beginRestore()
		big := `{"text":"` + strings.Repeat("tierd ", 5000) + `"}`
		pinned := f.restored(key("pinned"), 9, `{"a":[1.10,"\u0000"]}`)
		pinned.Head.Pinned, pinned.Head.ExpiresAt, pinned.Head.TTL = true, time.Time{}, 0
		keys := []warm.Restored{f.restored(k, 7, big), pinned, f.buried(key("gone"), 12)}
		f.restore(keys...)
		policy := f.restored(tiering.Key{Tenant: tenant, Namespace: tiering.PolicyNamespace, ID: space}, 3, `{}`)
		f.no(f.store.RestoreKeys(f.ctx, []warm.Restored{policy}))
		f.no(f.store.RestoreNamespace(f.ctx, warm.Namespace{Tenant: tenant, Name: "old", Kind: tiering.KindLog, Class: tiering.ClassSession, Deleted: true}))
		s := tiering.SegmentInfo{Name: "s", Tenant: tenant, State: tiering.SegmentFinished, Owner: "archive", Token: 4, Size: 100, RawSize: 400, Count: 2, SHA256: tiering.DigestOf([]byte("x")),
			MinTime: f.clock.Now().Add(-time.Hour), MaxTime: f.clock.Now(), Started: f.clock.Now(), Ranges: []tiering.Range{{From: 1, To: 5}},
			Copies: [2]tiering.CopyState{tiering.CopyVerified, tiering.CopyVerified}}
		loc := location(k, "s", 7)
		f.no(f.store.RestoreSegment(f.ctx, s, []tiering.Location{loc}))
		f.no(f.store.EndRestore(f.ctx))
		check := func() {
			t.Helper()
			epoch, err := f.store.Epoch(f.ctx)
			f.no(err)
			equal(f, "the epoch", epoch, restoredEpoch)
			for _, want := range append(keys, policy) {
				cur := f.load(want.Head.Key)
				equal(f, "the head", cur.Head, want.Head)
				equal(f, "the bytes", string(cur.Body), string(want.Body))
			}
			v, ok, err := f.store.Version(f.ctx, k, 7)
			f.no(err)
			if h := keys[0].Head; !ok || string(v.Body) != big || !v.At.Equal(h.UpdatedAt) || v.Digest != h.Digest || v.User != "ada" || v.Size != h.Size {
				t.Fatalf("the version row is %+v, %v", v, ok)
			}
			got, ok, err := f.store.Segment(f.ctx, "s")
			f.no(err)
			if !ok || !reflect.DeepEqual(got, s) {
				t.Fatalf("the segment is %+v, want %+v", got, s)
			}
			locations, err := f.store.Locations(f.ctx, k)
			f.no(err)
			if !reflect.DeepEqual(locations, []tiering.Location{loc}) {
				t.Fatalf("the locations are %+v", locations)
			}
			list, err := f.store.List(f.ctx, warm.List{Tenant: tenant, Namespace: space, User: "ada", Limit: 10})
			f.no(err)
			equal(f, "the list of the user", ids(list), "k pinned")
			filter, err := warm.ParseFilter([]byte(`{"/a":{"$contains":1.1}}`))
			f.no(err)
			items, _, err := f.store.Query(f.ctx, warm.Query{Tenant: tenant, Namespace: space, Filter: filter, Limit: 10})
			f.no(err)
			equal(f, "found by content", ids(items), "pinned")
			first, last, err := f.store.FeedBounds(f.ctx)
			f.no(err)
			equal(f, "the feed's first position", first, 1)
			equal(f, "the feed's last position", last, 0)
			pos, err := f.store.Position(f.ctx, "archive")
			f.no(err)
			equal(f, "a reader's position", pos, 0)
			f.status(f.one(tiering.Key{Tenant: tenant, Namespace: "old", ID: "k"}, put(`1`)), warm.NoNamespace)
		}
		check()
		f.reopen()
		check()
		moved, err := f.store.Demote(f.ctx, k, 7, f.clock.Now())
		f.no(err)
		equal(f, "demoted, for its segment", moved, true)
		moved, err = f.store.Promote(f.ctx, k, 7, []byte(big))
		f.no(err)
		equal(f, "promoted", moved, true)
	})
	t.Run("every version made from now on is above the floor", func(t *testing.T) {
		f := bare(t, h)
		f.beginRestore()
		f.restore(f.restored(k, 7, `1`), f.restored(key("deleted"), 8, `1`), f.buried(key("gone"), 9))
		f.no(f.store.RestoreNamespace(f.ctx, warm.Namespace{Tenant: tenant, Name: "high", Kind: tiering.KindState, Class: tiering.ClassPersistent, Floor: restoredFloor + 100}))
		f.no(f.store.EndRestore(f.ctx))
		f.reopen()
		f.ensure(tenant, "later")
		f.ensure("globex", space)
		f.status(f.one(k, put(`2`), tiering.IfVersion(6)), warm.Conflict)
		f.must(key("deleted"), op(tiering.OpDelete), tiering.IfVersion(8))
		high := tiering.Key{Tenant: tenant, Namespace: "high", ID: "k"}
		for _, k := range []tiering.Key{
			k, key("deleted"), key("gone"), key("new"), high, {Tenant: tenant, Namespace: "later", ID: "k"}, {Tenant: "globex", Namespace: space, ID: "k"},
			{Tenant: tenant, Namespace: tiering.PolicyNamespace, ID: "k"}, {Tenant: "initech", Namespace: tiering.APIKeyNamespace, ID: "k"},
		} {
			floor := restoredFloor
			if k == high {
				floor += 100
			}
			r := f.must(k, put(`2`))
			if r.Head.Version <= floor {
				t.Errorf("%s:%s has version %d, the floor is %d", k.Tenant, k, r.Head.Version, floor)
			}
			equal(f, "the version after it", f.must(k, put(`3`)).Head.Version, r.Head.Version+1)
		}
		f.status(f.one(k, put(`4`), tiering.IfVersion(7)), warm.Conflict)
		equal(f, "the first entry of the feed", f.feed()[0].Pos, 1)
	})
	t.Run("a rebuild that was cut short is begun again", func(t *testing.T) {
		if h.TryOpen == nil {
			t.Skip("the harness does not tell how an open fails")
		}
		f := bare(t, h)
		f.beginRestore()
		f.restore(f.restored(k, 7, `1`), f.restored(key("only the first time"), 8, `1`))
		f.no(f.store.RestoreSegment(f.ctx, tiering.SegmentInfo{Name: "s", Tenant: tenant}, []tiering.Location{location(k, "s", 7)}))
		f.no(f.store.Close())
		f.store = nil
		o := Options{Clock: f.clock.Now}
		s, err := h.TryOpen(t, f.place, o)
		if err == nil {
			f.store = s
			t.Fatal("half a store opened for use")
		}
		if !strings.Contains(err.Error(), "tierd rebuild") {
			t.Fatalf("half a store refuses with %v: it does not say what to do", err)
		}
		o.Restore = true
		f.store, err = h.TryOpen(t, f.place, o)
		f.no(err)
		f.no(f.store.BeginRestore(f.ctx, "01JSECOND000000000000000000", restoredFloor+1))
		equal(f, "keys after the second begin", f.standing(), "")
		equal(f, "where a key lies", f.where(k), "")
		f.restore(f.restored(k, 17, `2`))
		f.no(f.store.RestoreSegment(f.ctx, tiering.SegmentInfo{Name: "s", Tenant: tenant}, []tiering.Location{location(k, "s", 17)}))
		f.no(f.store.EndRestore(f.ctx))
		f.reopen()
		epoch, err := f.store.Epoch(f.ctx)
		f.no(err)
		equal(f, "the epoch", epoch, "01JSECOND000000000000000000")
		equal(f, "keys", f.standing(), fmt.Sprint(tenant, ":", k))
		f.body(k, `2`)
		equal(f, "where the key lies", f.where(k), "s")
		equal(f, "the next version", f.must(k, put(`3`)).Head.Version, restoredFloor+2)
	})
}
