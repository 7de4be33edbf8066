package warmtest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

func (f *fixture) ofID(id string) warm.Selector {
	return warm.Selector{Tenant: tenant, Namespace: space, ID: id}
}

func (f *fixture) ofPrefix(p string) warm.Selector {
	return warm.Selector{Tenant: tenant, Namespace: space, Prefix: p}
}

func ofUser(u string) warm.Selector { return warm.Selector{Tenant: tenant, User: u} }

// begin records an erase order.
func (f *fixture) begin(id string, s warm.Selector) {
	f.Helper()
	f.no(f.store.StartErase(f.ctx, warm.Erasure{ID: id, Selector: s, Started: f.clock.Now()}))
}

// eraseAll takes keys, limit a call, until there are no more.
func (f *fixture) eraseAll(id string, limit int) warm.Erasure {
	f.Helper()
	for range 1000 {
		e, more, err := f.store.EraseKeys(f.ctx, id, limit)
		f.no(err)
		if !more {
			return e
		}
	}
	f.Fatal("an erase does not come to its end")
	return warm.Erasure{}
}

// erase is an order from its start to the end of what is done in warm.
func (f *fixture) erase(id string, s warm.Selector) warm.Erasure {
	f.Helper()
	f.begin(id, s)
	return f.eraseAll(id, 2)
}

// owned is a put of a user's.
func owned(user, body string) warm.Row {
	row := put(body)
	row.User = user
	return row
}

// standing names the keys that have a head, of all tenants.
func (f *fixture) standing() string {
	f.Helper()
	heads, err := f.store.Walk(f.ctx, tiering.Key{}, 1000)
	f.no(err)
	var out []string
	for _, cur := range heads {
		out = append(out, cur.Head.Key.Tenant+":"+cur.Head.Key.String())
	}
	return strings.Join(out, " ")
}

func testErase(t *testing.T, h Harness) {
	k := key("k")
	t.Run("what a selector takes", func(t *testing.T) {
		keys := []tiering.Key{
			{Tenant: tenant, Namespace: tiering.PolicyNamespace, ID: "u_1"}, key("U_1/a"), key("u"), key("u%1/a"), key("u_1"), key("u_1/a"), key("u_1/b"),
			key("u_1/gone"), key("u_1é"), key("u_2"), key("ux1/a"), key("u\uFFFD"), key("u\U0001F600"), {Tenant: tenant, Namespace: "zoo", ID: "u_1/a"}, {Tenant: "globex", Namespace: space, ID: "u_1/a"},
		}
		all := make([]string, len(keys))
		for i, k := range keys {
			all[i] = k.Tenant + ":" + k.String()
		}
		for _, c := range []struct {
			name  string
			s     warm.Selector
			taken []int
		}{
			{"an id", warm.Selector{Namespace: space, ID: "u_1"}, []int{4}},
			{"an id that is not there", warm.Selector{Namespace: space, ID: "nobody"}, nil},
			{"a prefix, _ being itself", warm.Selector{Namespace: space, Prefix: "u_1"}, []int{4, 5, 6, 7, 8}},
			{"a prefix, % being itself", warm.Selector{Namespace: space, Prefix: "u%"}, []int{3}},
			{"a prefix with a slash", warm.Selector{Namespace: space, Prefix: "u_1/"}, []int{5, 6, 7}},
			{"a prefix that ends in U+FFFD", warm.Selector{Namespace: space, Prefix: "u\uFFFD"}, []int{11}},
			{"another namespace's", warm.Selector{Namespace: "zoo", Prefix: "u"}, []int{13}},
			{"a namespace that is not there", warm.Selector{Namespace: "never", Prefix: "u"}, nil},
			{"a reserved namespace: never", warm.Selector{Namespace: tiering.PolicyNamespace, ID: "u_1"}, nil},
			{"a user, in every namespace but the reserved ones", warm.Selector{User: "ada"}, []int{1, 3, 5, 7, 9, 11, 13}},
			{"a user that is not there", warm.Selector{User: "nobody"}, nil},
		} {
			t.Run(c.name, func(t *testing.T) {
				f := setup(t, h)
				f.ensure(tenant, "zoo")
				f.ensure("globex", space)
				c.s.Tenant = tenant
				for i, k := range keys {
					f.must(k, owned([]string{"bob", "ada"}[i%2], `1`))
				}
				for _, spared := range []tiering.Key{keys[0], keys[14]} {
					f.must(spared, op(tiering.OpDelete))
					f.must(spared, owned("ada", `2`))
				}
				f.must(keys[7], op(tiering.OpDelete))
				equal(f, "keys before", f.standing(), strings.Join(all, " "))
				planned, err := f.store.CountErase(f.ctx, c.s)
				f.no(err)
				equal(f, "keys after counting", f.standing(), strings.Join(all, " "))
				e := f.erase("r", c.s)
				var left []string
				for i, k := range all {
					if !slices.Contains(c.taken, i) {
						left = append(left, k)
					}
				}
				equal(f, "keys left", f.standing(), strings.Join(left, " "))
				equal(f, "keys counted beforehand", planned.Keys, int64(len(c.taken)))
				equal(f, "keys counted", e.Keys, int64(len(c.taken)))
				equal(f, "versions counted beforehand", planned.Versions, e.Versions)
				equal(f, "bytes counted beforehand", planned.Bytes, e.Bytes)
				for _, entry := range f.feed() {
					for _, change := range entry.Changes {
						if i := slices.Index(keys, change.Key); slices.Contains(c.taken, i) {
							t.Errorf("the feed mentions %s at %d", change.Key, entry.Pos)
						}
					}
				}
			})
		}
	})
	t.Run("an order takes exactly one thing", func(t *testing.T) {
		f := setup(t, h)
		f.must(k, owned("ada", `1`))
		for _, s := range []warm.Selector{
			{}, {Tenant: tenant}, {Tenant: tenant, Namespace: space}, {Namespace: space, ID: "k"}, {Tenant: tenant, ID: "k"}, {Tenant: tenant, Prefix: "k"},
			{Tenant: tenant, Namespace: space, ID: "k", Prefix: "k"}, {Tenant: tenant, Namespace: space, ID: "k", User: "ada"}, {Tenant: tenant, Namespace: space, Prefix: "k", User: "ada"},
		} {
			if err := f.store.StartErase(f.ctx, warm.Erasure{ID: "r", Selector: s}); err == nil {
				t.Errorf("an order to erase %+v was taken", s)
			}
			if _, err := f.store.CountErase(f.ctx, s); err == nil {
				t.Errorf("%+v was counted", s)
			}
		}
		if _, _, err := f.store.EraseKeys(f.ctx, "never", 10); err == nil {
			t.Error("an order that was never begun took keys")
		}
		f.body(k, `1`)
	})
	t.Run("nothing of a key is left", func(t *testing.T) {
		f := setup(t, h)
		rows := []warm.Row{owned("ada", `{"a":1}`), owned("ada", `{"a":2}`)}
		for _, row := range rows {
			f.must(k, row)
		}
		f.archived("s1", tiering.CopyVerified, tiering.CopyVerified, k, 1, 1)
		f.archived("s2", tiering.CopyVerified, tiering.CopyVerified, k, 2, 2)
		f.archived("s3", tiering.CopyVerified, tiering.CopyVerified, key("other"), 1, 1)
		moved, err := f.store.Demote(f.ctx, k, 2, f.clock.Now().Add(time.Minute))
		f.no(err)
		equal(f, "demoted", moved, true)
		e := f.erase("r", f.ofID("k"))
		equal(f, "keys", e.Keys, 1)
		equal(f, "version rows", e.Versions, 1)
		equal(f, "their bytes", e.Bytes, int64(len(`{"a":1}`)))
		equal(f, "segments to clean", fmt.Sprint(e.Segments), "[s1 s2]")
		cur := f.load(k)
		equal(f, "the head", cur.Head, warm.Head{})
		equal(f, "where it lies", f.where(k), "")
		versions, err := f.store.Versions(f.ctx, k, 0, 10)
		f.no(err)
		equal(f, "version rows left", len(versions), 0)
		equal(f, "the walk over versions", names(f.walkVersions(10)), "")
		items, _, err := f.store.Query(f.ctx, warm.Query{Tenant: tenant, Namespace: space, Limit: 10})
		f.no(err)
		equal(f, "found by a query", len(items), 0)
		list, err := f.store.List(f.ctx, warm.List{Tenant: tenant, Namespace: space, User: "ada", Limit: 10})
		f.no(err)
		equal(f, "listed", len(list), 0)
		st, err := f.store.Stats(f.ctx)
		f.no(err)
		equal(f, "heads and versions", st.Heads+st.Versions, 0)
		moved, err = f.store.Promote(f.ctx, k, 2, []byte(`{"a":2}`))
		f.no(err)
		equal(f, "promoted by one who read the bytes before", moved, false)
		equal(f, "live", f.live(k), false)
	})
	t.Run("versions go on above what was erased", func(t *testing.T) {
		f := setup(t, h)
		for range 5 {
			f.must(k, put(`1`))
		}
		f.must(key("low"), put(`1`))
		f.erase("r", f.ofID("k"))
		f.status(f.one(k, put(`2`), tiering.IfVersion(5)), warm.Conflict)
		equal(f, "live after a conditional write with the old version", f.live(k), false)
		r := f.must(k, put(`2`), tiering.IfAbsent())
		equal(f, "version", r.Head.Version, 6)
		equal(f, "prev", r.Prev, 0)
		for v := int64(1); v <= 5; v++ {
			f.status(f.one(k, put(`3`), tiering.IfVersion(v)), warm.Conflict)
		}
		equal(f, "version of another key", f.must(key("low"), put(`2`)).Head.Version, 6)
		f.reopen()
		equal(f, "version of a new key after a restart", f.must(key("new"), put(`1`)).Head.Version, 6)
	})
	t.Run("a key that only cold knows of", func(t *testing.T) {
		f := setup(t, h)
		f.archived("s", tiering.CopyVerified, tiering.CopyVerified, key("p/1"), 3, 9)
		planned, err := f.store.CountErase(f.ctx, f.ofPrefix("p/"))
		f.no(err)
		equal(f, "segments counted", fmt.Sprint(planned.Segments), "[s]")
		e := f.erase("r", f.ofPrefix("p/"))
		equal(f, "segments to clean", fmt.Sprint(e.Segments), "[s]")
		equal(f, "where it lies", f.where(key("p/1")), "")
		equal(f, "version of the key made again", f.must(key("p/1"), put(`1`)).Head.Version, 10)
	})
	t.Run("the feed keeps its positions", func(t *testing.T) {
		f := setup(t, h)
		f.must(k, put(`1`))
		f.commit(change(key("a"), put(`1`)), change(k, put(`2`)), change(key("z"), put(`1`)))
		f.must(key("a"), put(`2`))
		before := f.feed()
		e := f.erase("r", f.ofID("k"))
		after := f.feed()
		equal(f, "entries", len(after), 3)
		equal(f, "the position that it is gone up to", e.Pos, before[2].Pos)
		for i := range after {
			var want []warm.FeedChange
			for _, c := range before[i].Changes {
				if c.Key != k {
					want = append(want, c)
				}
			}
			equal(f, "position", after[i].Pos, before[i].Pos)
			if len(after[i].Changes) != len(want) || len(want) > 0 && !reflect.DeepEqual(after[i].Changes, want) {
				t.Errorf("the entry at %d holds %+v, want %+v", after[i].Pos, after[i].Changes, want)
			}
		}
		f.no(f.store.WaitFeed(f.ctx, before[1].Pos))
		f.must(key("a"), put(`3`))
		equal(f, "the next position", len(f.feed()), 4)
	})
	t.Run("orders", func(t *testing.T) {
		f := setup(t, h)
		f.must(k, owned("ada", `1`))
		f.archived("s", tiering.CopyVerified, tiering.CopyVerified, k, 1, 1)
		at := f.clock.Now()
		f.begin("r1", f.ofID("k"))
		f.begin("r2", ofUser("ada"))
		f.begin("r3", f.ofPrefix("k"))
		if err := f.store.StartErase(f.ctx, warm.Erasure{ID: "r1", Selector: ofUser("bob")}); err == nil {
			t.Fatal("a receipt was given twice")
		}
		under := func() (ids []string) {
			all, err := f.store.Erasures(f.ctx)
			f.no(err)
			for _, e := range all {
				ids = append(ids, e.ID)
			}
			return ids
		}
		equal(f, "under way", fmt.Sprint(under()), "[r1 r2 r3]")
		e, ok, err := f.store.Erasure(f.ctx, "r1")
		f.no(err)
		if want := (warm.Erasure{ID: "r1", Selector: f.ofID("k"), Started: at}); !ok || !reflect.DeepEqual(e, want) {
			t.Fatalf("the order is %+v, %v, want %+v", e, ok, want)
		}
		if _, err := f.store.FinishErase(f.ctx, "r1"); err == nil {
			t.Fatal("an order was finished before its keys were taken")
		}
		f.reopen()
		e = f.eraseAll("r1", 1)
		equal(f, "segments", fmt.Sprint(e.Segments), "[s]")
		again, more, err := f.store.EraseKeys(f.ctx, "r1", 1)
		f.no(err)
		if more || !reflect.DeepEqual(again, e) {
			t.Fatalf("taking keys once more answers %+v, %v, want %+v", again, more, e)
		}
		if _, err := f.store.FinishErase(f.ctx, "r1"); err == nil {
			t.Fatal("an order was finished that has segments to clean")
		}
		f.no(f.store.CleanSegment(f.ctx, "r1", "never"))
		f.no(f.store.CleanSegment(f.ctx, "r1", "s"))
		f.no(f.store.Scrub(f.ctx))
		f.clock.advance(time.Minute)
		done, err := f.store.FinishErase(f.ctx, "r1")
		f.no(err)
		if want := (warm.Erasure{ID: "r1", Selector: warm.Selector{Tenant: tenant}, Started: at, Pos: e.Pos, Keys: 1, Versions: 1, Bytes: 1, Done: f.clock.Now()}); !reflect.DeepEqual(done, want) {
			t.Fatalf("the order that is done is %+v, want %+v", done, want)
		}
		f.reopen()
		got, ok, err := f.store.Erasure(f.ctx, "r1")
		f.no(err)
		if !ok || !reflect.DeepEqual(got, done) {
			t.Fatalf("the order that is done reads %+v, %v, want %+v", got, ok, done)
		}
		again, err = f.store.FinishErase(f.ctx, "r1")
		f.no(err)
		if !reflect.DeepEqual(again, done) {
			t.Fatalf("finished once more it is %+v, want %+v", again, done)
		}
		equal(f, "under way", fmt.Sprint(under()), "[r2 r3]")
		_, ok, err = f.store.Erasure(f.ctx, "never")
		f.no(err)
		equal(f, "an order that never was", ok, false)
		for _, id := range []string{"r2", "r3"} {
			e := f.eraseAll(id, 5)
			equal(f, "keys of an order that came too late", e.Keys, 0)
		}
	})
	t.Run("segments that may hold the subject though nothing says so", func(t *testing.T) {
		f := setup(t, h)
		f.must(k, put(`1`))
		f.archived("old", tiering.CopyVerified, tiering.CopyVerified, k, 1, 1)
		f.no(f.store.ReplaceSegments(f.ctx, f.start("merged"), []tiering.Location{location(k, "merged", 1)}, []string{"old"}))
		f.start("started")
		foreign := tiering.SegmentInfo{Name: "foreign", Tenant: "globex", Token: 3}
		f.no(f.store.StartSegment(f.ctx, foreign))
		e := f.erase("r", f.ofID("k"))
		equal(f, "segments to clean", fmt.Sprint(e.Segments), "[merged old started]")
	})
	t.Run("an empty store has a position too", func(t *testing.T) {
		f := setup(t, h)
		e := f.erase("r", f.ofID("k"))
		if e.Pos == 0 {
			t.Fatal("the order has finished in warm and its position is 0")
		}
		equal(f, "changes in the feed", func() (n int) {
			for _, entry := range f.feed() {
				n += len(entry.Changes)
			}
			return n
		}(), 0)
		f.must(k, put(`1`))
		feed := f.feed()
		if last := feed[len(feed)-1]; last.Pos <= e.Pos || last.Changes[0].Key != k {
			t.Fatalf("a write afterwards is %+v, the position of the order %d", last, e.Pos)
		}
	})
}
