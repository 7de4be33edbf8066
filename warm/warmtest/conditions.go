package warmtest

import (
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// states are the ways in which a key can stand; each leaves version as the
// last one made.
var states = []struct {
	name    string
	make    func(f *fixture, k tiering.Key)
	live    bool
	version int64
}{
	{"never was", func(*fixture, tiering.Key) {}, false, 0},
	{"live", func(f *fixture, k tiering.Key) { f.must(k, put(`1`)); f.must(k, put(`2`)) }, true, 2},
	{"deleted", func(f *fixture, k tiering.Key) { f.must(k, put(`1`)); f.must(k, op(tiering.OpDelete)) }, false, 2},
	{"expired", func(f *fixture, k tiering.Key) {
		row := put(`1`)
		row.Expiry = ttl(time.Minute)
		f.must(k, put(`0`))
		f.must(k, row)
		f.clock.advance(time.Minute)
	}, false, 2},
	{"pinned past its expiry", func(f *fixture, k tiering.Key) {
		row := put(`1`)
		row.Expiry = ttl(time.Minute)
		f.must(k, put(`0`))
		f.must(k, row)
		f.must(k, op(tiering.OpPin))
		f.clock.advance(time.Minute)
	}, true, 2},
}

func testConditions(t *testing.T, h Harness) {
	conditions := []struct {
		name  string
		cond  tiering.Condition
		holds func(live bool, version int64) bool
	}{
		{"none", tiering.Condition{}, func(bool, int64) bool { return true }},
		{"absent", tiering.IfAbsent(), func(live bool, _ int64) bool { return !live }},
		{"exists", tiering.IfExists(), func(live bool, _ int64) bool { return live }},
		{"version 2", tiering.IfVersion(2), func(live bool, v int64) bool { return live && v == 2 }},
		{"version 1", tiering.IfVersion(1), func(bool, int64) bool { return false }},
	}
	for _, state := range states {
		for _, c := range conditions {
			t.Run(state.name+", if "+c.name, func(t *testing.T) {
				f := setup(t, h)
				k := key("k")
				state.make(f, k)
				r := f.one(k, put(`3`), c.cond)
				if !c.holds(state.live, state.version) {
					f.status(r, warm.Conflict)
					equal(f, "the version that stands", r.Head.Version, state.version)
					equal(f, "the version after", f.load(k).Head.Version, state.version)
					return
				}
				f.status(r, warm.Done)
				equal(f, "created", r.Created, !state.live)
				equal(f, "version", r.Head.Version, state.version+1)
				f.body(k, `3`)
			})
		}
	}
	t.Run("an old conditional write after delete and re-create is refused", func(t *testing.T) {
		f := setup(t, h)
		k := key("k")
		old := f.must(k, put(`1`)).Head.Version
		f.must(k, op(tiering.OpDelete))
		f.must(k, put(`2`), tiering.IfAbsent())
		f.status(f.one(k, put(`3`), tiering.IfVersion(old)), warm.Conflict)
		f.body(k, `2`)
	})
	t.Run("a delete under a condition", func(t *testing.T) {
		f := setup(t, h)
		k := key("k")
		f.status(f.one(k, op(tiering.OpDelete), tiering.IfExists()), warm.Conflict)
		f.status(f.one(k, op(tiering.OpDelete), tiering.IfAbsent()), warm.NoChange)
		f.must(k, put(`1`))
		f.status(f.one(k, op(tiering.OpDelete), tiering.IfVersion(7)), warm.Conflict)
		f.must(k, op(tiering.OpDelete), tiering.IfVersion(1))
	})
}
