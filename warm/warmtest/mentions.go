package warmtest

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// shown is all of a value, to compare results, which may hold errors.
// shown prints results, without the hot epoch, which no record of theirs keeps.
func shown(v any) string {
	switch results := v.(type) {
	case warm.Result:
		results.HotEpoch = tiering.HotEpoch{}
		return fmt.Sprintf("%+v", results)
	case []warm.Result:
		return fmt.Sprint(each(results, shown))
	case [][]warm.Result:
		return fmt.Sprint(each(results, shown))
	}
	return fmt.Sprintf("%+v", v)
}

func each[T any](from []T, show func(any) string) (out []string) {
	for _, v := range from {
		out = append(out, show(v))
	}
	return out
}

// testMentions holds what is told of keys, rather than by them, to an erase.
func testMentions(t *testing.T, h Harness) {
	k, other := key("k"), key("other")
	request := func(name, answer string) *warm.Idempotency {
		return &warm.Idempotency{Tenant: tenant, Key: name, Hash: tiering.DigestOf([]byte(name)), Answer: []byte(answer)}
	}
	selectors := map[string]warm.Selector{
		"by id":     {Tenant: tenant, Namespace: space, ID: "k"},
		"by prefix": {Tenant: tenant, Namespace: space, Prefix: "k"},
		"by user":   {Tenant: tenant, User: "ada"},
	}
	for name, sel := range selectors {
		t.Run("results of batches "+name, func(t *testing.T) {
			f := setup(t, h)
			mixed := batch(change(k, owned("ada", `1`), owned("ada", `2`)), change(other, owned("bob", `1`)))
			first, err := f.store.Commit(f.ctx, mixed)
			f.no(err)
			conflict := change(k, put(`3`))
			conflict.If = tiering.IfVersion(77)
			failed := batch(conflict, change(other, put(`2`)))
			second, err := f.store.Commit(f.ctx, failed)
			f.no(err)
			alone := batch(change(k, put(`3`)))
			_, err = f.store.Commit(f.ctx, alone)
			f.no(err)
			f.erase("r", sel)
			for _, c := range []struct {
				b    *warm.Batch
				want [][]warm.Result
			}{{mixed, first}, {failed, second}} {
				results, committed, err := f.store.Resolve(f.ctx, c.b)
				f.no(err)
				equal(f, "committed", committed, true)
				equal(f, "changes", len(results), 2)
				for i, r := range results[0] {
					want := warm.Result{Status: c.want[0][i].Status, Created: c.want[0][i].Created}
					if shown(r) != shown(want) {
						t.Errorf("the result of the erased key is %+v, want %+v", r, want)
					}
				}
				if shown(results[1]) != shown(c.want[1]) {
					t.Errorf("the result of the other key is %+v, want %+v", results[1], c.want[1])
				}
			}
			results, committed, err := f.store.Resolve(f.ctx, alone)
			f.no(err)
			equal(f, "the batch of the erased key alone committed", committed, true)
			equal(f, "its result", shown(results), shown([][]warm.Result{{{Status: warm.Done}}}))
		})
		t.Run("results of requests "+name, func(t *testing.T) {
			f := setup(t, h)
			mine, others := owned("ada", `1`), owned("bob", `1`)
			mine.Idempotency, others.Idempotency = request("mine", `[]`), request("others", `[]`)
			f.must(k, mine)
			kept := f.must(other, others)
			gone := op(tiering.OpDelete)
			gone.Idempotency = request("gone", `[]`)
			f.must(k, gone)
			f.status(f.one(k, gone), warm.Replayed)
			both := func([]warm.Current) ([]warm.Change, error) {
				return []warm.Change{change(k, owned("ada", `2`)), change(other, put(`2`))}, nil
			}
			_, committed, err := f.store.Atomic(f.ctx, uuid.New(), []tiering.Key{k, other}, request("both", `[]`), both)
			f.no(err)
			equal(f, "committed", committed, true)
			f.erase("r", sel)
			f.status(f.one(key("new"), others), warm.Replayed)
			r := f.one(other, others)
			f.status(r, warm.Replayed)
			equal(f, "the result of the other key", r.Head, kept.Head)
			f.status(f.one(k, gone), warm.NoChange)
			f.status(f.one(k, mine), warm.Done)
			_, committed, err = f.store.Atomic(f.ctx, uuid.New(), []tiering.Key{other}, request("both", `[]`), func([]warm.Current) ([]warm.Change, error) {
				return []warm.Change{change(other, put(`4`))}, nil
			})
			f.no(err)
			equal(f, "the transaction that held the key, sent again, committed", committed, true)
			f.body(other, `4`)
		})
		t.Run("answers that tell of the subject "+name, func(t *testing.T) {
			f := setup(t, h)
			f.must(k, owned("ada", `1`))
			for i, answer := range []string{`[{"id":"k","user":"ada","data":1}]`, `[{"id":"other","user":"bob","data":"kk"}]`} {
				row := put(`1`)
				row.Idempotency = request(fmt.Sprint("r", i), answer)
				f.must(other, row)
			}
			f.erase("r", sel)
			row := put(`2`)
			row.Idempotency = request("r0", "")
			f.status(f.one(other, row), warm.Done)
			if sel.Prefix == "" {
				row.Idempotency = request("r1", "")
				f.status(f.one(other, row), warm.Replayed)
			}
		})
	}
	t.Run("a batch that changed nothing", func(t *testing.T) {
		f := setup(t, h)
		row := owned("ada", `1`)
		row.Idempotency = request("r", `[]`)
		f.must(k, row)
		nothing := op(tiering.OpDelete)
		nothing.Idempotency = request("nothing", `[]`)
		b := batch(change(k, row), change(other, nothing))
		_, err := f.store.Commit(f.ctx, b)
		f.no(err)
		f.erase("e", f.ofID("k"))
		results, committed, err := f.store.Resolve(f.ctx, b)
		f.no(err)
		equal(f, "committed", committed, true)
		equal(f, "the result of the erased key", shown(results[0][0]), shown(warm.Result{Status: warm.Replayed, Created: true}))
		equal(f, "the result of the other", results[1][0].Status, warm.NoChange)
	})
	t.Run("another tenant's mentions of keys of the same name", func(t *testing.T) {
		for name, sel := range selectors {
			f := setup(t, h)
			f.ensure("globex", space)
			foreign := tiering.Key{Tenant: "globex", Namespace: space, ID: "k"}
			row := owned("ada", `1`)
			row.Idempotency = request("r", `["k","ada"]`)
			row.Idempotency.Tenant = "globex"
			b := batch(change(foreign, row))
			first, err := f.store.Commit(f.ctx, b)
			f.no(err)
			before := f.feed()
			e := f.erase("e", sel)
			equal(f, "keys taken "+name, e.Keys, 0)
			f.status(f.one(foreign, row), warm.Replayed)
			results, _, err := f.store.Resolve(f.ctx, b)
			f.no(err)
			if shown(results) != shown(first) || !reflect.DeepEqual(f.feed()[:1], before) {
				t.Fatalf("%s: the other tenant's batch answers %+v, want %+v", name, results, first)
			}
		}
	})
	for name, sel := range selectors {
		t.Run("writers go on meanwhile "+name, func(t *testing.T) {
			f := setup(t, h)
			for i := range 20 {
				f.must(key(fmt.Sprint("k", i)), owned("ada", `1`))
			}
			var wg sync.WaitGroup
			var last atomic.Int64
			begun := make(chan struct{})
			for w := range 4 {
				wg.Go(func() {
					for i := range 25 {
						k := key(fmt.Sprint("k", (w*7+i)%30))
						results, err := f.store.Commit(f.ctx, batch(change(k, owned("ada", `2`)), change(key(fmt.Sprint("bobs-", w)), owned("bob", `1`))))
						if err != nil {
							t.Error(err)
							return
						}
						for _, rows := range results {
							if r := rows[0]; strings.HasPrefix(r.Head.Key.ID, "k") {
								last.Store(max(last.Load(), r.Head.Version))
							}
						}
						if i == 2 && w == 0 {
							close(begun)
						}
					}
				})
			}
			<-begun
			if sel.ID != "" {
				sel.ID = "k1"
			}
			f.begin("r", sel)
			for more := true; more; {
				var err error
				if _, more, err = f.store.EraseKeys(f.ctx, "r", 3); err != nil {
					t.Fatal(err)
				}
			}
			e, _, err := f.store.Erasure(f.ctx, "r")
			f.no(err)
			wg.Wait()
			taken := sel.Takes
			for _, entry := range f.feed() {
				for _, c := range entry.Changes {
					if entry.Pos <= e.Pos && taken(c.Key, c.User) {
						t.Errorf("the feed mentions %s at %d, it is gone up to %d", c.Key, entry.Pos, e.Pos)
					}
				}
			}
			heads, err := f.store.Walk(f.ctx, tiering.Key{}, 1000)
			f.no(err)
			for _, cur := range heads {
				if !taken(cur.Head.Key, cur.Head.User) {
					continue
				}
				entries, err := f.store.ReadFeed(f.ctx, e.Pos, 1000)
				f.no(err)
				made := false
				for _, entry := range entries {
					for _, c := range entry.Changes {
						made = made || c.Key == cur.Head.Key
					}
				}
				if !made {
					t.Errorf("%s stands and was not written since", cur.Head.Key)
				}
			}
		})
	}
}
