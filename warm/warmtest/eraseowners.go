package warmtest

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// rowsOf lists the version rows of a key, oldest first, with owner and body.
func (f *fixture) rowsOf(k tiering.Key) string {
	f.Helper()
	index, err := f.store.Versions(f.ctx, k, 0, 100)
	f.no(err)
	out := ""
	for i := len(index) - 1; i >= 0; i-- {
		v, ok, err := f.store.Version(f.ctx, k, index[i].Version)
		f.no(err)
		if !ok {
			f.Fatalf("%s is listed at version %d and can not be read", k, index[i].Version)
		}
		out += fmt.Sprintf("%d %s %s %s; ", v.Version, v.Op, v.User, v.Body)
	}
	return out
}

// told lists what the feed says of a key.
func (f *fixture) told(k tiering.Key) (out []warm.FeedChange) {
	f.Helper()
	for _, entry := range f.feed() {
		for _, c := range entry.Changes {
			if c.Key == k {
				out = append(out, c)
			}
		}
	}
	return out
}

// testEraseOwners holds what an erase of a user takes of keys that had more
// than one owner: exactly what was the user's.
func testEraseOwners(t *testing.T, h Harness) {
	k := key("k")
	request := func(name string) *warm.Idempotency {
		return &warm.Idempotency{Tenant: tenant, Key: name, Hash: tiering.DigestOf([]byte(name))}
	}
	sent := func(user, body, name string) warm.Row {
		row := owned(user, body)
		row.Idempotency = request(name)
		return row
	}
	t.Run("the key of another owner stays his", func(t *testing.T) {
		f := setup(t, h)
		f.must(k, sent("ada", `"a1"`, "a1"))
		f.must(k, owned("ada", `"a2"`))
		f.must(k, op(tiering.OpTouch))
		gone := op(tiering.OpDelete)
		gone.Idempotency = request("gone")
		f.must(k, gone)
		row := sent("bob", `"b4"`, "b4")
		row.Expiry = warm.Expiry{TTL: &tiering.TTL{Life: time.Hour}}
		first := batch(change(key("adas"), owned("ada", `"a"`)), change(k, row))
		made, err := f.store.Commit(f.ctx, first)
		f.no(err)
		f.must(k, owned("bob", `"b5"`))
		f.must(k, op(tiering.OpPin))
		f.must(key("bobs"), owned("bob", `1`))
		f.archived("old", tiering.CopyVerified, tiering.CopyVerified, k, 1, 4)
		f.archived("foreign", tiering.CopyVerified, tiering.CopyVerified, key("bobs"), 1, 1)
		before, where, told := f.load(k), f.where(k), f.told(k)

		planned, err := f.store.CountErase(f.ctx, ofUser("ada"))
		f.no(err)
		e := f.erase("r", ofUser("ada"))
		equal(f, "keys", e.Keys, 1)
		equal(f, "version rows", e.Versions, 4)
		equal(f, "their bytes", e.Bytes, int64(len(`"a1""a2""a"`)))
		equal(f, "segments to clean", fmt.Sprint(e.Segments), "[old]")
		equal(f, "counted beforehand", fmt.Sprint(planned.Keys, planned.Versions, planned.Bytes, planned.Segments), fmt.Sprint(e.Keys, e.Versions, e.Bytes, e.Segments))
		equal(f, "keys left", f.standing(), "acme:notes/bobs acme:notes/k")

		after := f.load(k)
		equal(f, "the head", after.Head, before.Head)
		equal(f, "the bytes", string(after.Body), `"b5"`)
		equal(f, "version rows", f.rowsOf(k), `4 put bob "b4"; 5 put bob "b5"; `)
		equal(f, "where it lies", f.where(k), where)
		if got, want := f.told(k), told[4:]; !reflect.DeepEqual(got, want) {
			t.Errorf("the feed says %+v, want what it said of bob's: %+v", got, want)
		}
		results, committed, err := f.store.Resolve(f.ctx, first)
		f.no(err)
		equal(f, "bob's batch committed", committed, true)
		equal(f, "what it made", shown(results[1]), shown(made[1]))
		equal(f, "what it made of ada's", shown(results[0]), shown([]warm.Result{{Status: warm.Done, Created: true}}))
		f.status(f.one(k, row), warm.Replayed)

		f.status(f.one(k, op(tiering.OpPut), tiering.IfVersion(2)), warm.Conflict)
		equal(f, "the next version", f.must(k, put(`"b6"`)).Head.Version, 6)
		f.status(f.one(key("new"), gone), warm.NoChange) // not replayed: it was ada's
		f.status(f.one(key("new"), sent("cyd", `1`, "a1")), warm.Done)
		equal(f, "keys of bob's", f.erase("r2", ofUser("bob")).Keys, 2)
		equal(f, "rows left", f.rowsOf(k), "")
		equal(f, "changes left", len(f.told(k)), 0)
	})
	t.Run("versions of a user between those of others", func(t *testing.T) {
		f := setup(t, h)
		for i, user := range []string{"bob", "ada", "cyd"} {
			f.must(k, owned(user, fmt.Sprint(i)))
			if user != "cyd" {
				f.must(k, op(tiering.OpDelete))
			}
		}
		e := f.erase("r", ofUser("ada"))
		equal(f, "keys", e.Keys, 0)
		equal(f, "versions", e.Versions, 2)
		equal(f, "version rows", f.rowsOf(k), "1 put bob 0; 2 delete bob ; 5 put cyd 2; ")
		var told []int64
		for _, c := range f.told(k) {
			told = append(told, c.Version)
		}
		equal(f, "versions in the feed", fmt.Sprint(told), "[1 2 5]")
	})
	for _, deleted := range []bool{false, true} {
		t.Run(fmt.Sprintf("the user's own key goes with what others had there, deleted %t", deleted), func(t *testing.T) {
			f := setup(t, h)
			f.must(k, sent("bob", `"b1"`, "b1"))
			f.must(k, op(tiering.OpDelete))
			f.must(k, owned("ada", `"a3"`))
			if deleted {
				f.must(k, op(tiering.OpDelete))
			}
			f.must(key("bobs"), owned("bob", `1`))
			top := f.load(k).Head.Version
			e := f.erase("r", ofUser("ada"))
			equal(f, "keys", e.Keys, 1)
			equal(f, "versions", e.Versions, top)
			equal(f, "keys left", f.standing(), "acme:notes/bobs")
			equal(f, "changes left", len(f.told(k)), 0)
			r := f.one(k, sent("bob", `"b1"`, "b1"))
			f.status(r, warm.Done)
			equal(f, "its version", r.Head.Version, top+1)
		})
	}
	t.Run("a user's versions that only the feed and cold know of", func(t *testing.T) {
		f := setup(t, h)
		f.must(k, owned("ada", `1`))
		f.must(k, op(tiering.OpDelete))
		f.must(k, owned("bob", `2`))
		f.archived("s", tiering.CopyVerified, tiering.CopyVerified, k, 1, 2)
		n, err := f.store.Retire(f.ctx, k, []int64{1, 2})
		f.no(err)
		equal(f, "retired", n, 2)
		e := f.erase("r", ofUser("ada"))
		equal(f, "keys", e.Keys, 0)
		equal(f, "segments to clean", fmt.Sprint(e.Segments), "[s]")
		f.body(k, `2`)
		told := f.told(k)
		if len(told) != 1 || told[0].User != "bob" {
			t.Errorf("the feed says %+v, want bob's put alone", told)
		}
	})
}
