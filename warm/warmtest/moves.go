package warmtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

func testMoves(t *testing.T, h Harness) {
	k := key("k")
	t.Run("what lets a document be demoted", func(t *testing.T) {
		for _, c := range []struct {
			name    string
			prepare func(f *fixture)
			version int64
			want    bool
		}{
			{"two verified copies", func(f *fixture) { f.archived("s", tiering.CopyVerified, tiering.CopyVerified, k, 1, 2) }, 2, true},
			{"no copy", func(*fixture) {}, 2, false},
			{"one copy", func(f *fixture) { f.archived("s", tiering.CopyVerified, tiering.CopyMissing, k, 1, 2) }, 2, false},
			{"a bad copy", func(f *fixture) { f.archived("s", tiering.CopyBad, tiering.CopyVerified, k, 1, 2) }, 2, false},
			{"another version archived", func(f *fixture) { f.archived("s", tiering.CopyVerified, tiering.CopyVerified, k, 1, 1) }, 2, false},
			{"another tenant's archived", func(f *fixture) {
				f.archived("s", tiering.CopyVerified, tiering.CopyVerified, tiering.Key{Tenant: "globex", Namespace: space, ID: "k"}, 1, 2)
			}, 2, false},
			{"an older version named", func(f *fixture) { f.archived("s", tiering.CopyVerified, tiering.CopyVerified, k, 1, 2) }, 1, false},
			{"written since", func(f *fixture) {
				f.archived("s", tiering.CopyVerified, tiering.CopyVerified, k, 1, 3)
				f.clock.advance(time.Hour)
				f.must(k, put(`3`))
			}, 2, false},
			{"not idle", func(f *fixture) {
				f.archived("s", tiering.CopyVerified, tiering.CopyVerified, k, 1, 3)
				f.clock.advance(time.Hour)
				f.must(k, put(`3`))
			}, 3, false},
			{"read since", func(f *fixture) {
				f.archived("s", tiering.CopyVerified, tiering.CopyVerified, k, 1, 2)
				f.no(f.store.NoteAccess(f.ctx, []warm.Access{{Key: k, At: f.clock.Now().Add(time.Hour)}}))
			}, 2, false},
			{"pinned", func(f *fixture) {
				f.archived("s", tiering.CopyVerified, tiering.CopyVerified, k, 1, 2)
				f.must(k, op(tiering.OpPin))
			}, 2, false},
			{"deleted", func(f *fixture) {
				f.archived("s", tiering.CopyVerified, tiering.CopyVerified, k, 1, 3)
				f.must(k, op(tiering.OpDelete))
			}, 2, false},
		} {
			t.Run(c.name, func(t *testing.T) {
				f := setup(t, h)
				f.must(k, put(`1`))
				f.must(k, put(`2`))
				idle := f.clock.Now().Add(time.Minute)
				c.prepare(f)
				before := f.load(k)
				moved, err := f.store.Demote(f.ctx, k, c.version, idle)
				f.no(err)
				equal(f, "demoted", moved, c.want)
				after := f.load(k)
				equal(f, "in warm", after.Head.InWarm, before.Head.InWarm && !c.want)
				if !c.want {
					equal(f, "the bytes", string(after.Body), string(before.Body))
					return
				}
				equal(f, "bytes in warm", len(after.Body), 0)
				after.Head.InWarm = true
				equal(f, "the rest of the head", after.Head, before.Head)
				_, ok, err := f.store.Version(f.ctx, k, 2)
				f.no(err)
				equal(f, "the version row there", ok, false)
				_, ok, err = f.store.Version(f.ctx, k, 1)
				f.no(err)
				equal(f, "the row of the version before there", ok, true)
			})
		}
	})
	t.Run("several are demoted in one transaction, each judged alone", func(t *testing.T) {
		f := setup(t, h)
		idle, written, lone, gone := key("idle"), key("written"), key("lone"), key("gone")
		other := tiering.Key{Tenant: "globex", Namespace: space, ID: "idle"}
		_, err := f.store.EnsureNamespace(f.ctx, warm.Namespace{Tenant: other.Tenant, Name: space, Kind: tiering.KindState, Class: tiering.ClassPersistent})
		f.no(err)
		for _, k := range []tiering.Key{idle, written, lone, other} {
			f.must(k, put(`1`))
		}
		f.archived("s", tiering.CopyVerified, tiering.CopyVerified, idle, 1, 1)
		f.archived("t", tiering.CopyVerified, tiering.CopyVerified, written, 1, 1)
		f.archived("u", tiering.CopyVerified, tiering.CopyMissing, lone, 1, 1)
		f.archived("v", tiering.CopyVerified, tiering.CopyVerified, other, 1, 1)
		since := f.clock.Now()
		f.clock.advance(time.Hour)
		f.must(written, put(`2`))
		var of []warm.Demotion
		for _, k := range []tiering.Key{written, gone, idle, other, lone} { // not in their order
			of = append(of, warm.Demotion{Key: k, Version: 1, Idle: since})
		}
		done, err := f.store.DemoteAll(f.ctx, of)
		f.no(err)
		equal(f, "demoted", fmt.Sprint(done), "[false false true true false]")
		for _, k := range []tiering.Key{written, idle, other, lone} {
			equal(f, k.String()+" in warm", f.load(k).Head.InWarm, k == written || k == lone)
		}
		f.body(written, `2`)
		f.body(lone, `1`)
		done, err = f.store.DemoteAll(f.ctx, nil)
		f.no(err)
		equal(f, "of none", len(done), 0)
		at, err := f.store.LocationsOf(f.ctx, []tiering.Key{written, gone, idle})
		f.no(err)
		equal(f, "keys with locations", len(at), 2)
		equal(f, "where they are", at[written][0].Segment+at[idle][0].Segment, "ts")
	})
	demoted := func(t *testing.T) *fixture {
		f := setup(t, h)
		f.must(k, put(`1`))
		f.archived("s", tiering.CopyVerified, tiering.CopyVerified, k, 1, 1)
		moved, err := f.store.Demote(f.ctx, k, 1, f.clock.Now())
		f.no(err)
		equal(f, "demoted", moved, true)
		return f
	}
	t.Run("promotion brings the version row back", func(t *testing.T) {
		f := demoted(t)
		for _, c := range []struct {
			version int64
			body    string
			want    bool
		}{{2, `1`, false}, {1, `2`, false}, {1, `1`, true}} {
			moved, err := f.store.Promote(f.ctx, k, c.version, []byte(c.body))
			f.no(err)
			equal(f, fmt.Sprintf("promoted %+v", c), moved, c.want)
		}
		f.body(k, `1`)
		head := f.load(k).Head
		equal(f, "in warm", head.InWarm, true)
		v, ok, err := f.store.Version(f.ctx, k, 1)
		f.no(err)
		if !ok || !v.At.Equal(head.UpdatedAt) || v.Digest != head.Digest || v.Size != 1 {
			t.Fatalf("the version row is %+v, %v", v, ok)
		}
		equal(f, "entries of the feed: moves are not changes", len(f.feed()), 1)
		items, _, err := f.store.Query(f.ctx, warm.Query{Tenant: tenant, Namespace: space, Limit: 10})
		f.no(err)
		equal(f, "found once", ids(items), "k")
		moved, err := f.store.Demote(f.ctx, k, 1, f.clock.Now())
		f.no(err)
		equal(f, "demoted again", moved, true)
	})
	t.Run("a demoted document is written, deleted and touched as any other", func(t *testing.T) {
		f := demoted(t)
		touch := op(tiering.OpTouch)
		touch.Expiry = ttl(time.Hour)
		r := f.must(k, touch)
		equal(f, "in warm after a touch", r.Head.InWarm, false)
		r = f.must(k, put(`2`), tiering.IfVersion(1))
		equal(f, "in warm after a put", r.Head.InWarm, true)
		f.body(k, `2`)
		moved, err := f.store.Promote(f.ctx, k, 1, []byte(`1`))
		f.no(err)
		equal(f, "promoted after a put", moved, false)
		f.body(k, `2`)
		f = demoted(t)
		f.must(k, op(tiering.OpDelete))
		moved, err = f.store.Promote(f.ctx, k, 1, []byte(`1`))
		f.no(err)
		equal(f, "promoted after a delete", moved, false)
		equal(f, "live", f.live(k), false)
	})
	t.Run("a document demoted again is found by its new content", func(t *testing.T) {
		f := demoted(t)
		f.must(k, op(tiering.OpDelete))
		f.must(k, put(`{"s":"new"}`))
		f.archived("s2", tiering.CopyVerified, tiering.CopyVerified, k, 3, 3)
		moved, err := f.store.Demote(f.ctx, k, 3, f.clock.Now().Add(time.Minute))
		f.no(err)
		equal(f, "demoted", moved, true)
		filter, err := warm.ParseFilter([]byte(`{"s":"new"}`))
		f.no(err)
		items, _, err := f.store.Query(f.ctx, warm.Query{Tenant: tenant, Namespace: space, Filter: filter, Limit: 10})
		f.no(err)
		equal(f, "found", ids(items), "k")
	})
	t.Run("retiring superseded versions", func(t *testing.T) {
		f := setup(t, h)
		for range 4 {
			f.must(k, put(`1`))
		}
		f.archived("one", tiering.CopyVerified, tiering.CopyVerified, k, 1, 2)
		f.archived("two", tiering.CopyVerified, tiering.CopyMissing, k, 3, 4)
		n, err := f.store.Retire(f.ctx, k, []int64{1, 2, 3, 4, 9})
		f.no(err)
		equal(f, "retired with two copies", n, 2)
		f.no(f.store.SetCopy(f.ctx, "two", tiering.Backup, tiering.CopyVerified))
		n, err = f.store.Retire(f.ctx, k, []int64{1, 2, 3, 4, 9})
		f.no(err)
		equal(f, "retired: never the current one", n, 1)
		vs, err := f.store.Versions(f.ctx, k, 0, 10)
		f.no(err)
		equal(f, "version rows left", len(vs), 1)
		f.body(k, `1`)
	})
	t.Run("reads are noted outside the feed", func(t *testing.T) {
		f := setup(t, h)
		f.must(k, put(`1`))
		at := f.clock.Now().Add(time.Hour)
		for _, d := range []time.Duration{0, time.Minute, -time.Minute} {
			f.no(f.store.NoteAccess(f.ctx, []warm.Access{{Key: k, At: at.Add(d)}, {Key: key("never"), At: at}}))
		}
		head := f.load(k).Head
		equal(f, "accessed", head.AccessedAt, at.Add(time.Minute))
		equal(f, "revision", head.Revision, 0)
		equal(f, "entries of the feed", len(f.feed()), 1)
	})
	t.Run("the walk passes every head once, in key order", func(t *testing.T) {
		f := setup(t, h)
		for _, ns := range [][2]string{{"globex", space}, {tenant, "empty"}, {tenant, "zoo"}, {"a", "z"}} {
			f.ensure(ns[0], ns[1])
		}
		want := []tiering.Key{
			{Tenant: "a", Namespace: "z", ID: "k"}, {Tenant: tenant, Namespace: "_policy", ID: "p"}, key("a"), key("a/b"), key("gone"), key("old"),
			{Tenant: tenant, Namespace: "zoo", ID: "k"}, {Tenant: "globex", Namespace: space, ID: "k"},
		}
		for _, k := range want {
			f.must(k, put(`1`))
		}
		f.must(key("gone"), op(tiering.OpDelete))
		row := put(`1`)
		row.Expiry = ttl(time.Second)
		f.must(key("old"), row)
		f.clock.advance(time.Minute)
		for limit := 1; limit <= len(want)+1; limit++ {
			var at tiering.Key
			var got []tiering.Key
			for {
				page, err := f.store.Walk(f.ctx, at, limit)
				f.no(err)
				if len(page) == 0 {
					break
				}
				for _, cur := range page {
					at = cur.Head.Key
					got = append(got, at)
					equal(f, "bytes", len(cur.Body), 0)
					equal(f, "now", cur.Now, f.clock.Now())
				}
			}
			equal(f, fmt.Sprintf("the walk, %d a page", limit), fmt.Sprint(got), fmt.Sprint(want))
		}
	})
}
