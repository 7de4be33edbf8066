package warmtest

import (
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

func testFolds(t *testing.T, h Harness) {
	t.Run("rows become consecutive versions", func(t *testing.T) {
		f := setup(t, h)
		k := key("k")
		f.must(k, put(`0`))
		results := f.commit(change(k, put(`1`), put(`2`), put(`3`)))[0]
		var last warm.Head
		for i, r := range results {
			f.status(r, warm.Done)
			equal(f, "version", r.Head.Version, int64(i+2))
			equal(f, "prev", r.Prev, int64(i+1))
			equal(f, "created", r.Created, false)
			if i > 0 && !r.Head.UpdatedAt.After(last.UpdatedAt) {
				t.Fatalf("row %d at %s is not after %s", i, r.Head.UpdatedAt, last.UpdatedAt)
			}
			last = r.Head
			v, ok, err := f.store.Version(f.ctx, k, r.Head.Version)
			f.no(err)
			equal(f, "a version row", ok, true)
			equal(f, "its body", string(v.Body), string(rune('1'+i)))
		}
		f.body(k, `3`)
	})
	t.Run("a fold is one entry of the feed with a change a row", func(t *testing.T) {
		f := setup(t, h)
		f.commit(change(key("k"), put(`1`), put(`2`)))
		feed := f.feed()
		equal(f, "entries", len(feed), 1)
		equal(f, "changes", len(feed[0].Changes), 2)
		for i, c := range feed[0].Changes {
			equal(f, "version", c.Version, int64(i+1))
			equal(f, "prev", c.Prev, int64(i))
		}
	})
	t.Run("only the first row of a fold creates", func(t *testing.T) {
		f := setup(t, h)
		results := f.commit(change(key("k"), put(`1`), put(`2`)))[0]
		equal(f, "created of the first", results[0].Created, true)
		equal(f, "created of the second", results[1].Created, false)
		equal(f, "created_at", results[1].Head.CreatedAt, results[0].Head.CreatedAt)
	})
	t.Run("a condition holds before the first row, or the whole fold fails", func(t *testing.T) {
		f := setup(t, h)
		k := key("k")
		f.must(k, put(`0`))
		c := change(k, put(`1`), put(`2`))
		c.If = tiering.IfVersion(1)
		for _, r := range f.commit(c)[0] {
			f.status(r, warm.Done)
		}
		for _, r := range f.commit(c)[0] {
			f.status(r, warm.Conflict)
			equal(f, "the version that stands", r.Head.Version, 3)
		}
		f.body(k, `2`)
	})
	t.Run("each row has its expiry", func(t *testing.T) {
		f := setup(t, h)
		first, second := put(`1`), put(`2`)
		first.Expiry = ttl(time.Hour)
		results := f.commit(change(key("k"), first, second))[0]
		at := f.clock.Now().Add(time.Hour)
		equal(f, "expiry of the first", results[0].Head.ExpiresAt, at)
		equal(f, "expiry of the second, which keeps it", results[1].Head.ExpiresAt, at)
	})
	t.Run("a row under another user stops the fold", func(t *testing.T) {
		f := setup(t, h)
		first, second := put(`1`), put(`2`)
		first.User, second.User = "ann", "bob"
		results := f.commit(change(key("k"), first, second))[0]
		f.status(results[1], warm.UserFixed)
		f.body(key("k"), "")
	})
}
