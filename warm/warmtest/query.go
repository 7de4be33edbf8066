package warmtest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

func testQuery(t *testing.T, h Harness) {
	fill := func(f *fixture) {
		f.Helper()
		for id, body := range map[string]string{
			"a": `{"n":10,"s":"open","tags":["x","y"]}`,
			"b": `{"n":9,"s":"open"}`,
			"c": `{"n":9007199254740993,"s":"done"}`,
			"d": `{"s":"\u0000"}`,
			"e": `{"n":9007199254740992}`,
		} {
			row := put(body)
			if id < "c" {
				row.User = "ann"
			}
			f.must(key(id), row)
		}
	}
	query := func(f *fixture, filter string, q warm.Query) ([]warm.Current, string) {
		f.Helper()
		var err error
		q.Filter, err = warm.ParseFilter([]byte(filter))
		f.no(err)
		q.Tenant, q.Namespace = tenant, space
		if q.Limit == 0 {
			q.Limit = 100
		}
		items, next, err := f.store.Query(f.ctx, q)
		f.no(err)
		return items, next
	}
	t.Run("filters", func(t *testing.T) {
		f := setup(t, h)
		fill(f)
		for _, c := range []struct{ filter, want string }{
			{``, "a b c d e"},
			{`{"s":"open"}`, "a b"},
			{`{"n":{"$gte":10}}`, "a c e"},
			{`{"n":9007199254740993}`, "c"},
			{`{"n":{"$exists":false}}`, "d"},
			{`{"tags":{"$contains":"x"}}`, "a"},
			{`{"s":{"$not":{"$in":["open","done"]}},"n":{"$exists":true}}`, "e"},
		} {
			items, next := query(f, c.filter, warm.Query{})
			equal(f, "matches of "+c.filter, ids(items), c.want)
			equal(f, "next", next, "")
		}
		items, _ := query(f, `{"s":"open"}`, warm.Query{})
		equal(f, "body", string(items[0].Body), `{"n":10,"s":"open","tags":["x","y"]}`)
		items, _ = query(f, ``, warm.Query{User: "ann"})
		equal(f, "of a user", ids(items), "a b")
		items, _ = query(f, ``, warm.Query{Prefixes: []string{"c", "b"}})
		equal(f, "within prefixes", ids(items), "b c")
		items, _ = query(f, ``, warm.Query{Prefix: "_"})
		equal(f, "under a prefix", ids(items), "")
	})
	t.Run("pages in every order", func(t *testing.T) {
		f := setup(t, h)
		fill(f)
		for _, c := range []struct {
			by   string
			desc bool
			want string
		}{
			{"", false, "a b c d e"}, {"", true, "e d c b a"},
			{"/n", false, "d b a e c"}, {"/n", true, "c e a b d"},
		} {
			for limit := 1; limit <= 6; limit++ {
				var got []string
				q := warm.Query{OrderBy: c.by, Descending: c.desc, Limit: limit}
				for pages := 0; ; pages++ {
					items, next := query(f, ``, q)
					if len(items) > limit || pages > 5 {
						t.Fatalf("page %d has %d items, limit %d", pages, len(items), limit)
					}
					got = append(got, strings.Fields(ids(items))...)
					if next == "" {
						break
					}
					q.Cursor = next
				}
				equal(f, fmt.Sprintf("order by %q, descending %v, %d a page", c.by, c.desc, limit), strings.Join(got, " "), c.want)
			}
		}
	})
	t.Run("a cursor belongs to its query", func(t *testing.T) {
		f := setup(t, h)
		fill(f)
		_, next := query(f, ``, warm.Query{Limit: 2})
		for _, q := range []warm.Query{
			{Tenant: tenant, Namespace: space, Limit: 2, Cursor: next, Descending: true},
			{Tenant: tenant, Namespace: space, Limit: 2, Cursor: next, User: "ann"},
			{Tenant: tenant, Namespace: "other", Limit: 2, Cursor: next},
			{Tenant: tenant, Namespace: space, Limit: 2, Cursor: "nonsense"},
		} {
			if _, _, err := f.store.Query(f.ctx, q); !errors.Is(err, tiering.ErrInvalid) {
				t.Fatalf("%+v: error %v, want invalid", q, err)
			}
		}
	})
	t.Run("an update moves what a query finds", func(t *testing.T) {
		f := setup(t, h)
		fill(f)
		f.must(key("a"), put(`{"s":"done"}`))
		f.must(key("b"), op(tiering.OpDelete))
		items, _ := query(f, `{"s":"open"}`, warm.Query{})
		equal(f, "open", ids(items), "")
		items, _ = query(f, `{"s":"done"}`, warm.Query{})
		equal(f, "done", ids(items), "a c")
	})
	t.Run("a demoted document is found while its row asked for that", func(t *testing.T) {
		f := setup(t, h)
		plain := put(`{"s":"open"}`)
		plain.Query = false
		f.must(key("kept"), put(`{"s":"open"}`))
		f.must(key("plain"), plain)
		for _, id := range []string{"kept", "plain"} {
			f.archived("seg-"+id, tiering.CopyVerified, tiering.CopyVerified, key(id), 1, 1)
			moved, err := f.store.Demote(f.ctx, key(id), 1, f.clock.Now())
			f.no(err)
			equal(f, "demoted", moved, true)
		}
		items, _ := query(f, `{"s":"open"}`, warm.Query{})
		equal(f, "found", ids(items), "kept")
		equal(f, "its bytes", len(items[0].Body), 0)
		equal(f, "in warm", items[0].Head.InWarm, false)
		f.must(key("kept"), put(`{"s":"done"}`))
		items, _ = query(f, `{"s":"open"}`, warm.Query{})
		equal(f, "found after the next put", ids(items), "")
	})
}
