package warmtest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// walkVersions walks over all version rows that do not stand, limit a page,
// and returns them by key and version.
func (f *fixture) walkVersions(limit int) []warm.Superseded {
	f.Helper()
	var out []warm.Superseded
	for cursor := ""; ; {
		rows, next, err := f.store.WalkVersions(f.ctx, cursor, limit)
		f.no(err)
		if len(rows) > limit {
			f.Fatalf("a page of %d rows, the limit is %d", len(rows), limit)
		}
		out = append(out, rows...)
		if next == "" {
			break
		}
		cursor = next
	}
	slices.SortFunc(out, func(a, b warm.Superseded) int {
		if c := a.Key.Compare(b.Key); c != 0 {
			return c
		}
		return int(a.Version.Version - b.Version.Version)
	})
	return out
}

// names returns the rows of a walk as tenant:key@version.
func names(rows []warm.Superseded) string {
	var out []string
	for _, r := range rows {
		out = append(out, fmt.Sprintf("%s:%s@%d", r.Key.Tenant, r.Key, r.Version.Version))
	}
	return strings.Join(out, " ")
}

func testWalk(t *testing.T, h Harness) {
	k := key("k")
	t.Run("versions that do not stand, of all tenants, each once", func(t *testing.T) {
		f := setup(t, h)
		f.ensure("globex", space)
		other := tiering.Key{Tenant: "globex", Namespace: space, ID: "k"}
		policy := tiering.Key{Tenant: tenant, Namespace: tiering.PolicyNamespace, ID: "p"}
		equal(f, "a walk over nothing", names(f.walkVersions(10)), "")
		for _, k := range []tiering.Key{k, other, policy, key("gone"), key("one"), k, policy, k} {
			f.must(k, put(`1`))
		}
		f.must(key("gone"), op(tiering.OpDelete))
		f.must(other, op(tiering.OpDelete))
		f.must(other, put(`1`))
		want := "acme:_policy/p@1 acme:notes/gone@1 acme:notes/gone@2 acme:notes/k@1 acme:notes/k@2 globex:notes/k@1 globex:notes/k@2"
		for limit := 1; limit <= 8; limit++ {
			equal(f, fmt.Sprintf("the walk, %d a page", limit), names(f.walkVersions(limit)), want)
		}
	})
	t.Run("what a row says", func(t *testing.T) {
		f := setup(t, h)
		var made []time.Time
		for range 3 {
			made = append(made, f.clock.Now())
			row := put(`"body"`)
			row.User = "ada"
			f.must(k, row)
			f.clock.advance(time.Hour)
		}
		rows := f.walkVersions(10)
		equal(f, "the walk", names(rows), "acme:notes/k@1 acme:notes/k@2")
		for i, r := range rows {
			v, ok, err := f.store.Version(f.ctx, k, int64(i+1))
			f.no(err)
			equal(f, "the row there", ok, true)
			v.Body = nil
			if fmt.Sprint(r.Version) != fmt.Sprint(v) {
				t.Fatalf("the walk shows %+v, the row is %+v", r.Version, v)
			}
			equal(f, "superseded at", r.SupersededAt, made[i+1])
			equal(f, "current", r.Current, false)
			equal(f, "key deleted", r.KeyDeleted, false)
			equal(f, "pinned", r.Pinned, false)
			equal(f, "copies", r.Copies, 0)
		}
		f.must(k, op(tiering.OpPin))
		for _, r := range f.walkVersions(10) {
			equal(f, "pinned", r.Pinned, true)
		}
		f.must(k, op(tiering.OpUnpin))
		deleted := f.must(k, op(tiering.OpDelete)).Head
		rows = f.walkVersions(10)
		equal(f, "the walk after a delete", names(rows), "acme:notes/k@1 acme:notes/k@2 acme:notes/k@3 acme:notes/k@4")
		for i, r := range rows {
			equal(f, "key deleted", r.KeyDeleted, true)
			equal(f, "current", r.Current, i == 3)
		}
		equal(f, "the last document was superseded at", rows[2].SupersededAt, deleted.UpdatedAt)
		equal(f, "the deletion's op", rows[3].Op, tiering.OpDelete)
		equal(f, "the deletion was superseded at", rows[3].SupersededAt, time.Time{})
	})
	t.Run("copies of the best finished segment that holds the version", func(t *testing.T) {
		f := setup(t, h)
		for range 5 {
			f.must(k, put(`1`))
		}
		f.archived("a", tiering.CopyVerified, tiering.CopyMissing, k, 1, 2)
		f.archived("b", tiering.CopyVerified, tiering.CopyVerified, k, 2, 2)
		f.archived("c", tiering.CopyBad, tiering.CopyMissing, k, 3, 3)
		f.archived("d", tiering.CopyVerified, tiering.CopyVerified, key("other"), 1, 9)
		f.no(f.store.StartSegment(f.ctx, tiering.SegmentInfo{Name: "e", Tenant: tenant, Token: 1}))
		var got []int
		for _, r := range f.walkVersions(10) {
			got = append(got, r.Copies)
		}
		equal(f, "copies of versions 1 to 4", fmt.Sprint(got), "[1 2 0 0]")
	})
	t.Run("a neighbour that left warm makes nothing older than it is", func(t *testing.T) {
		f := setup(t, h)
		var made []time.Time
		for range 4 {
			made = append(made, f.must(k, put(`1`)).Head.UpdatedAt)
			f.clock.advance(time.Hour)
		}
		f.archived("s", tiering.CopyVerified, tiering.CopyVerified, k, 2, 4)
		n, err := f.store.Retire(f.ctx, k, []int64{2})
		f.no(err)
		equal(f, "retired", n, 1)
		moved, err := f.store.Demote(f.ctx, k, 4, f.clock.Now())
		f.no(err)
		equal(f, "demoted", moved, true)
		rows := f.walkVersions(10)
		equal(f, "the walk", names(rows), "acme:notes/k@1 acme:notes/k@3")
		if at := rows[0].SupersededAt; at.Before(made[1]) {
			t.Fatalf("version 1 counts as superseded at %v, version 2 was made at %v", at, made[1])
		}
		equal(f, "version 3 was superseded at", rows[1].SupersededAt, made[3])
	})
	t.Run("the deletion that stands retires, and then its tombstone goes", func(t *testing.T) {
		f := setup(t, h)
		f.must(k, put(`1`))
		f.must(k, op(tiering.OpDelete))
		f.archived("s", tiering.CopyVerified, tiering.CopyVerified, k, 1, 2)
		f.clock.advance(time.Hour)
		for _, r := range f.walkVersions(10) {
			n, err := f.store.Retire(f.ctx, r.Key, []int64{r.Version.Version})
			f.no(err)
			equal(f, "retired", n, 1)
		}
		equal(f, "the walk", names(f.walkVersions(10)), "")
		equal(f, "the head", f.load(k).Head.Op, tiering.OpDelete)
		n, err := f.store.PurgeTombstones(f.ctx, tenant, space, f.clock.Now(), 10)
		f.no(err)
		equal(f, "purged while cold holds it", n, 0)
		f.must(k, put(`1`))
		f.must(k, op(tiering.OpDelete))
		equal(f, "made and deleted again", f.load(k).Head.Version, 4)
	})
	t.Run("rows that stay are met once while others come and go", func(t *testing.T) {
		f := setup(t, h)
		const keys = 40
		for i := range keys {
			f.must(key(fmt.Sprint("stays-", i)), put(`1`))
			f.must(key(fmt.Sprint("stays-", i)), put(`2`))
		}
		done := make(chan struct{})
		var writing sync.WaitGroup
		writing.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				b := batch(change(key(fmt.Sprint("new-", i%7)), put(`1`)), change(key(fmt.Sprint("stays-", i%keys)), put(`3`)))
				if _, err := f.store.Commit(f.ctx, b); err != nil {
					f.Error(err)
					return
				}
			}
		})
		for range 5 {
			seen := map[string]int{}
			for _, r := range f.walkVersions(3) {
				seen[fmt.Sprintf("%s@%d", r.Key, r.Version.Version)]++
			}
			for row, n := range seen {
				if n != 1 {
					t.Errorf("%s was met %d times", row, n)
				}
			}
			for i := range keys {
				if row := fmt.Sprintf("%s/stays-%d@1", space, i); seen[row] != 1 {
					t.Errorf("%s was met %d times", row, seen[row])
				}
			}
		}
		close(done)
		writing.Wait()
	})
}
