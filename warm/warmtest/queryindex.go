package warmtest

import (
	"fmt"
	"testing"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// indexed are documents of every shape that an index by content sees
// differently from Match.
var indexed = map[string]string{
	"a":           `{"s":"open","n":1,"tags":["x","y"],"in":{"deep":{"er":true}}}`,
	"b":           `{"s":"open","n":1.0,"tags":"x","in":{"deep":null}}`,
	"c":           `{"s":"opened","n":10e-1,"tags":[["x"],{"k":"v"}]}`,
	"d":           `{"s":["open"],"n":"1","tags":[],"0":{"0":"zero"}}`,
	"e":           `{"s":{"open":1},"n":[1],"list":["zero",["one"]]}`,
	"f":           `["open",1,{"s":"open"}]`,
	"g":           `"open"`,
	"h":           `{"s":"o\u0000n","n":9007199254740993,"o":{"a":1,"b":[2]}}`,
	"i":           `{"n":9007199254740992,"o":{},"e":[]}`,
	"j":           `{"n":1e400,"o":{"a":1.00},"\ufffd":true}`,
	"other/k":     `{"s":"open","n":-0.0}`,
	"other/never": `{"s":"done","n":0}`,
}

// The first ones give their places to other queries of {"s":"open"}.
var indexedFilters = []string{
	``, ``, ``, ``, ``,
	``, `{"s":"open"}`, `{"n":1}`, `{"n":1.00}`, `{"n":0}`, `{"n":1e400}`, `{"n":9007199254740993}`, `{"s":"open","n":1}`, `{"s":null}`,
	`{"":"open"}`, `{"":{"$contains":"open"}}`, `{"":{"$contains":1}}`, `{"":["open",1,{"s":"open"}]}`,
	`{"/in/deep/er":true}`, `{"/in/deep":null}`, `{"/0/0":"zero"}`, `{"/list/0":"zero"}`, `{"/list/1/0":"one"}`, `{"/0":{"0":"zero"}}`,
	`{"tags":{"$contains":"x"}}`, `{"tags":{"$contains":["x"]}}`, `{"tags":{"$contains":{"k":"v"}}}`, `{"o":{"$contains":{"a":1}}}`, `{"o":{"$contains":{}}}`,
	`{"tags":[]}`, `{"o":{}}`, `{"tags":["x","y"]}`, `{"tags":["y","x"]}`, `{"s":{"$in":["open","done",["open"]]}}`, `{"n":{"$in":[]}}`, `{"n":{"$in":[1,[]]}}`,
	`{"$or":[{"s":"open"},{"n":0}]}`, `{"$or":[{"s":"open"},{"n":{"$gt":5}}]}`, `{"$and":[{"s":"open"},{"n":{"$lt":1}}]}`, `{"$not":{"s":"open"}}`,
	`{"s":{"$ne":"open"}}`, `{"s":{"$exists":true}}`, `{"s":{"$text":"open"}}`, `{"s":"o\u0000n"}`, `{"\ufffd":true}`,
}

func testQueryIndex(t *testing.T, h Harness) {
	ask := func(f *fixture, filter string, q warm.Query) []warm.Current {
		f.Helper()
		var err error
		q.Filter, err = warm.ParseFilter([]byte(filter))
		f.no(err)
		q.Tenant, q.Namespace, q.Limit = tenant, space, 100
		items, _, err := f.store.Query(f.ctx, q)
		f.no(err)
		return items
	}
	same := func(f *fixture, when string) {
		f.Helper()
		queries := []warm.Query{{User: "ann"}, {Prefix: "other/"}, {Prefixes: []string{"a", "h", "other/k"}}, {OrderBy: "/n"}, {Descending: true}}
		for i, filter := range indexedFilters {
			q := warm.Query{}
			if i < len(queries) {
				filter, q = `{"s":"open"}`, queries[i]
			}
			with := q
			with.Indexed = true
			equal(f, fmt.Sprintf("%s, with the hint, %s %+v", when, filter, q), ids(ask(f, filter, with)), ids(ask(f, filter, q)))
		}
	}
	index := func(f *fixture, on bool) {
		f.Helper()
		store, ok := warm.As[warm.QueryIndexer](f.store)
		if !ok {
			return // the hint is all that there is
		}
		var wanted []tiering.Key
		if on {
			wanted = []tiering.Key{{Tenant: tenant, Namespace: space}}
		}
		f.no(store.IndexQueries(f.ctx, wanted))
		used, err := store.QueryIndexed(f.ctx, tenant, space)
		f.no(err)
		equal(f, "indexed", used, on)
	}
	fill := func(f *fixture) {
		f.Helper()
		for id, body := range indexed {
			row := put(body)
			if id < "d" {
				row.User = "ann"
			}
			f.must(key(id), row)
		}
	}
	t.Run("answers are the same with an index and without", func(t *testing.T) {
		f := setup(t, h)
		f.ensure(tenant, "others")
		same(f, "empty")
		fill(f)
		same(f, "without")
		index(f, true)
		same(f, "built over what was there")
		f.must(key("a"), put(`{"s":"done"}`))
		f.must(key("new"), put(`{"s":"open","n":0}`))
		f.must(key("b"), op(tiering.OpDelete))
		f.must(tiering.Key{Tenant: tenant, Namespace: "others", ID: "a"}, put(`{"s":"open"}`))
		same(f, "after writes")
		equal(f, "open", ids(ask(f, `{"s":"open"}`, warm.Query{Indexed: true})), "new other/k")
		index(f, true)
		same(f, "asked for again")
		f.reopen()
		same(f, "after a restart")
		index(f, false)
		same(f, "dropped")
	})
	t.Run("what left warm is found as before", func(t *testing.T) {
		f := setup(t, h)
		fill(f)
		plain := put(`{"s":"open"}`)
		plain.Query = false
		f.must(key("plain"), plain)
		f.must(key("stays"), plain)
		index(f, true)
		same(f, "in warm")
		equal(f, "one that was not to stay", ids(ask(f, `{"s":"open"}`, warm.Query{Indexed: true, Prefix: "stays"})), "stays")
		for _, id := range []string{"a", "h", "plain"} {
			f.archived("seg-"+id, tiering.CopyVerified, tiering.CopyVerified, key(id), 1, 1)
			moved, err := f.store.Demote(f.ctx, key(id), 1, f.clock.Now())
			f.no(err)
			equal(f, "demoted", moved, true)
		}
		same(f, "in cold")
		equal(f, "open", ids(ask(f, `{"s":"open"}`, warm.Query{Indexed: true})), "a b other/k stays")
	})
	t.Run("a stopped index is not asked", func(t *testing.T) {
		f := setup(t, h)
		fill(f)
		index(f, true)
		if store, ok := warm.As[warm.QueryIndexer](f.store); ok {
			f.no(store.StopQueryIndex(f.ctx, tenant, space))
			used, err := store.QueryIndexed(f.ctx, tenant, space)
			f.no(err)
			equal(f, "indexed", used, false)
		}
		plain := put(`{"s":"open"}`)
		plain.Query = false
		f.must(key("late"), plain)
		f.must(key("a"), plain)
		same(f, "stopped")
		index(f, true)
		same(f, "begun again")
		equal(f, "open", ids(ask(f, `{"s":"open"}`, warm.Query{Indexed: true, Prefix: "late"})), "late")
	})
}
