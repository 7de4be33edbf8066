package warmtest

import (
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

func (f *fixture) aliases(keys ...tiering.Key) []warm.Alias {
	f.Helper()
	out, err := f.store.AliasesOf(f.ctx, keys)
	f.no(err)
	equal(f, "the number of aliases", len(out), len(keys))
	return out
}

// leads fails the test unless the aliases lead to want.
func (f *fixture) leads(aliases []warm.Alias, want ...tiering.Key) {
	f.Helper()
	got, err := f.store.Aliased(f.ctx, tenant, aliases)
	f.no(err)
	equal(f, "the number of keys", len(got), len(want))
	for i, k := range got {
		if k != want[i] {
			f.Fatalf("alias %d leads to %+v, want %+v", i, k, want[i])
		}
	}
}

func testAliases(t *testing.T, h Harness) {
	k, other, none := key("k"), key("other"), tiering.Key{}
	theirs := tiering.Key{Tenant: "globex", Namespace: space, ID: "k"}
	t.Run("lead to their keys while these live", func(t *testing.T) {
		f := setup(t, h)
		f.ensure(theirs.Tenant, space)
		for _, k := range []tiering.Key{k, other, theirs} {
			f.must(k, put(`1`))
		}
		a := f.aliases(k, key("absent"), other, k, tiering.Key{Tenant: "nobody", Namespace: "nowhere", ID: "k"})
		equal(f, "what lives nowhere", a[1]+a[4], "")
		equal(f, "the same key", a[3], a[0])
		f.leads(a, k, none, other, k, none)
		f.must(k, put(`2`))
		f.must(k, warm.Row{Op: tiering.OpTouch, Expiry: ttl(time.Hour)})
		f.clock.advance(time.Minute)
		f.leads(a, k, none, other, k, none)
		equal(f, "a later alias", f.aliases(k)[0], a[0])
		f.reopen()
		f.leads(a, k, none, other, k, none)
		f.leads(nil)
		f.leads([]warm.Alias{f.aliases(theirs)[0], a[0], "", "k", a[0] + "A", a[0][:8], "AAAAAAAAAAAAAAAAAAAAAA", "_____________________w"},
			none, k, none, none, none, none, none, none) // of another tenant, and what is none
	})
	t.Run("end with the life of their key", func(t *testing.T) {
		f := setup(t, h)
		f.must(other, put(`1`))
		for _, c := range []struct {
			name string
			end  func(k tiering.Key)
		}{
			{"a delete", func(k tiering.Key) { f.must(k, op(tiering.OpDelete)) }},
			{"an expiry", func(tiering.Key) { f.clock.advance(2 * time.Hour) }},
			{"an erase by id", func(k tiering.Key) { f.erase("by id", f.ofID(k.ID)) }},
			{"an erase by prefix", func(k tiering.Key) { f.erase("by prefix", f.ofPrefix(k.ID)) }},
			{"an erase of its user", func(tiering.Key) { f.erase("of the user", ofUser("ann")) }},
		} {
			k := key(c.name)
			row := owned("ann", `1`)
			row.Expiry = ttl(time.Hour)
			f.must(k, row) // the last row: its number is free for the next one
			a := f.aliases(k, other)
			f.clock.advance(time.Minute)
			c.end(k)
			f.leads(a, none, other)
			equal(f, "an alias of what is gone", f.aliases(k)[0], "")
			f.must(key("after "+c.name), put(`1`))
			f.leads(a, none, other)
			f.must(k, put(`2`))
			f.leads(a, none, other)
			f.leads(f.aliases(k), k)
			f.must(k, op(tiering.OpDelete))
		}
	})
	t.Run("of another store lead nowhere", func(t *testing.T) {
		f, g := setup(t, h), setup(t, h)
		f.must(k, put(`1`))
		g.must(other, put(`1`)) // in the same place, at the same time
		g.leads(f.aliases(k), none)
		g.leads(g.aliases(other), other)
	})
}
