package warmtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

func testEntries(t *testing.T, h Harness) {
	k := key("log")
	t.Run("a range, by number and by time, in both directions", func(t *testing.T) {
		f := setup(t, h)
		start := f.clock.Now()
		for i := range 6 {
			f.must(k, put(fmt.Sprint(i+1)))
			f.clock.advance(time.Minute)
		}
		at := func(n int) time.Time { return start.Add(time.Duration(n-1) * time.Minute) }
		for _, c := range []struct {
			name string
			r    warm.EntryRange
			want string
		}{
			{"all", warm.EntryRange{}, "1 2 3 4 5 6"},
			{"the first", warm.EntryRange{Limit: 2}, "1 2"},
			{"the newest", warm.EntryRange{Limit: 2, Descending: true}, "6 5"},
			{"after", warm.EntryRange{After: 4}, "5 6"},
			{"before", warm.EntryRange{Before: 3}, "1 2"},
			{"before, from above", warm.EntryRange{Before: 5, Descending: true, Limit: 2}, "4 3"},
			{"between", warm.EntryRange{After: 1, Before: 5, Limit: 2}, "2 3"},
			{"nothing between", warm.EntryRange{After: 3, Before: 4}, ""},
			{"since, inclusive", warm.EntryRange{Since: at(5)}, "5 6"},
			{"since, between two", warm.EntryRange{Since: at(5).Add(time.Nanosecond)}, "6"},
			{"until, exclusive", warm.EntryRange{Until: at(3)}, "1 2"},
			{"since and until, from above", warm.EntryRange{Since: at(2), Until: at(5), Descending: true}, "4 3 2"},
		} {
			r := c.r
			r.Key, r.MaxBytes = k, 1<<20
			if r.Limit == 0 {
				r.Limit = 100
			}
			equal(f, c.name, f.entries(r), c.want)
		}
	})
	t.Run("a fold is a run of entries with times that grow", func(t *testing.T) {
		f := setup(t, h)
		f.commit(change(k, put(`1`), put(`2`), put(`3`)))
		rows, err := f.store.Entries(f.ctx, warm.EntryRange{Key: k, Limit: 10, MaxBytes: 1 << 20})
		f.no(err)
		equal(f, "entries", len(rows), 3)
		for i, v := range rows {
			equal(f, "its key", v.Key, k)
			equal(f, "its digest", v.Digest, tiering.DigestOf(v.Body))
			if i > 0 && !v.At.After(rows[i-1].At) {
				t.Fatalf("entry %d of %s is not after the one before", v.Version, v.At)
			}
		}
	})
	t.Run("a page ends with its bytes, behind one entry at least", func(t *testing.T) {
		f := setup(t, h)
		big := `"` + strings.Repeat("x", 9000) + `"`
		f.commit(change(k, put(big), put(`2`), put(big), put(`4`)))
		for _, c := range []struct {
			most int64
			want int
		}{{0, 1}, {1, 1}, {9002, 1}, {9003, 2}, {9004, 3}, {1 << 20, 4}} {
			rows, err := f.store.Entries(f.ctx, warm.EntryRange{Key: k, Limit: 10, MaxBytes: c.most})
			f.no(err)
			equal(f, fmt.Sprintf("entries up to %d bytes", c.most), len(rows), c.want)
		}
		rows, err := f.store.Entries(f.ctx, warm.EntryRange{Key: k, Limit: 10, MaxBytes: 5, Descending: true})
		f.no(err)
		equal(f, "entries from above", len(rows), 2)
	})
	t.Run("deletions are no entries, entries of the life before are", func(t *testing.T) {
		f := setup(t, h)
		f.must(k, put(`1`))
		f.must(k, op(tiering.OpDelete))
		f.clock.advance(time.Minute)
		f.must(k, put(`3`))
		equal(f, "entries", f.entries(warm.EntryRange{Key: k, Limit: 10, MaxBytes: 1 << 20}), "1 3")
	})
	t.Run("entries are the tenant's own", func(t *testing.T) {
		f := setup(t, h)
		f.must(k, put(`1`))
		other := k
		other.Tenant = "globex"
		f.ensure(other.Tenant, space)
		equal(f, "entries", f.entries(warm.EntryRange{Key: other, Limit: 10, MaxBytes: 1 << 20}), "")
	})
	t.Run("heads of many keys", func(t *testing.T) {
		f := setup(t, h)
		f.must(k, put(`1`))
		f.must(key("gone"), put(`1`))
		f.must(key("gone"), op(tiering.OpDelete))
		keys := []tiering.Key{key("gone"), key("never"), k, {Tenant: "nobody", Namespace: "nowhere", ID: "k"}, k}
		heads, err := f.store.Heads(f.ctx, keys)
		f.no(err)
		equal(f, "heads", len(heads), len(keys))
		for i, cur := range heads {
			alone, err := f.store.Head(f.ctx, keys[i])
			f.no(err)
			equal(f, keys[i].String(), cur.Head, alone.Head)
			equal(f, "now", cur.Now, f.clock.Now())
		}
	})
}

// entries are the bodies of a range, which are numbers.
func (f *fixture) entries(r warm.EntryRange) string {
	f.Helper()
	rows, err := f.store.Entries(f.ctx, r)
	f.no(err)
	var out []string
	for _, v := range rows {
		out = append(out, string(v.Body))
	}
	return strings.Join(out, " ")
}
