package warmtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

func testList(t *testing.T, h Harness) {
	list := func(f *fixture, l warm.List) []warm.Current {
		f.Helper()
		l.Tenant, l.Namespace = tenant, space
		if l.Limit == 0 {
			l.Limit = 100
		}
		page, err := f.store.List(f.ctx, l)
		f.no(err)
		return page
	}
	fill := func(f *fixture, ids ...string) {
		f.Helper()
		for _, id := range ids {
			row := put(fmt.Sprintf("%q", id))
			if strings.HasPrefix(id, "ann") {
				row.User = "ann"
			}
			f.must(key(id), row)
		}
	}
	t.Run("prefixes are bytes", func(t *testing.T) {
		f := setup(t, h)
		fill(f, "a", "a_b", "axb", "a%b", "a/b", "A_b", "b", "é", "éa", "z", "ê", "\uFFFD", "\U0010ffff", "\U0010ffffz")
		for _, c := range []struct {
			prefix   string
			prefixes []string
			want     string
		}{
			{"", nil, "A_b a a%b a/b a_b axb b z é éa ê \uFFFD \U0010ffff \U0010ffffz"},
			{"a_", nil, "a_b"},
			{"a%", nil, "a%b"},
			{"a", nil, "a a%b a/b a_b axb"},
			{"A", nil, "A_b"},
			{"é", nil, "é éa"},
			{"\U0010ffff", nil, "\U0010ffff \U0010ffffz"},
			{"\uFFFD", nil, "\uFFFD"},
			{"none", nil, ""},
			{"", []string{"b", "a_", "a/", "b"}, "a/b a_b b"},
			{"a", []string{"a_", "b"}, "a_b"},
			{"a_b", []string{"a", "a_"}, "a_b"},
			{"", []string{"a", "a_b"}, "a a%b a/b a_b axb"},
			{"b", []string{"a"}, ""},
			{"", []string{"", "a"}, "A_b a a%b a/b a_b axb b z é éa ê \uFFFD \U0010ffff \U0010ffffz"},
		} {
			equal(f, fmt.Sprintf("prefix %q of %q", c.prefix, c.prefixes), ids(list(f, warm.List{Prefix: c.prefix, Prefixes: c.prefixes})), c.want)
		}
	})
	t.Run("pages", func(t *testing.T) {
		f := setup(t, h)
		fill(f, "a1", "a2", "a3", "b1", "b2", "c1")
		var got []string
		after := ""
		for {
			page := list(f, warm.List{Prefixes: []string{"b", "a"}, After: after, Limit: 2})
			if len(page) == 0 {
				break
			}
			for _, cur := range page {
				after = cur.Head.Key.ID
				got = append(got, after)
			}
		}
		equal(f, "ids", strings.Join(got, " "), "a1 a2 a3 b1 b2")
	})
	t.Run("of a user", func(t *testing.T) {
		f := setup(t, h)
		fill(f, "ann-1", "bob-1", "ann-2")
		equal(f, "ids", ids(list(f, warm.List{User: "ann"})), "ann-1 ann-2")
		equal(f, "ids behind one", ids(list(f, warm.List{User: "ann", After: "ann-1"})), "ann-2")
		equal(f, "ids under a prefix", ids(list(f, warm.List{User: "ann", Prefix: "bob"})), "")
		equal(f, "ids of a stranger", ids(list(f, warm.List{User: "eve"})), "")
	})
	t.Run("bodies only when asked for", func(t *testing.T) {
		f := setup(t, h)
		fill(f, "a")
		equal(f, "body", string(list(f, warm.List{})[0].Body), "")
		cur := list(f, warm.List{Bodies: true})[0]
		equal(f, "body", string(cur.Body), `"a"`)
		equal(f, "the head", cur.Head, f.load(key("a")).Head)
	})
	t.Run("what is deleted is not listed", func(t *testing.T) {
		f := setup(t, h)
		fill(f, "a", "b", "c")
		f.must(key("b"), op(tiering.OpDelete))
		equal(f, "ids", ids(list(f, warm.List{Limit: 2})), "a c")
	})
}
