package warmtest

import (
	"errors"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// transact runs an atomic transaction that writes changes whatever stands.
func (f *fixture) transact(keys []tiering.Key, idem *warm.Idempotency, changes ...warm.Change) ([][]warm.Result, bool) {
	f.Helper()
	results, committed, err := f.store.Atomic(f.ctx, uuid.New(), keys, idem, func([]warm.Current) ([]warm.Change, error) { return changes, nil })
	f.no(err)
	return results, committed
}

func testAtomic(t *testing.T, h Harness) {
	a, b := key("a"), key("b")
	t.Run("decide sees what stands, and its changes commit as one", func(t *testing.T) {
		f := setup(t, h)
		f.must(a, put(`1`))
		results, committed, err := f.store.Atomic(f.ctx, uuid.New(), []tiering.Key{a, b}, nil, func(cur []warm.Current) ([]warm.Change, error) {
			if len(cur) != 2 || string(cur[0].Body) != `1` || cur[0].Head.Version != 1 || cur[1].Head.Live(cur[1].Now) {
				t.Errorf("decide was handed %+v", cur)
			}
			return []warm.Change{change(a, put(`2`)), change(b, put(`3`))}, nil
		})
		f.no(err)
		equal(f, "committed", committed, true)
		f.status(results[0][0], warm.Done)
		f.status(results[1][0], warm.Done)
		f.body(a, `2`)
		f.body(b, `3`)
		feed := f.feed()
		equal(f, "entries of the feed", len(feed), 2)
		equal(f, "changes of the second", len(feed[1].Changes), 2)
	})
	t.Run("one failed condition writes nothing", func(t *testing.T) {
		f := setup(t, h)
		f.must(b, put(`1`))
		bad := change(b, put(`2`))
		bad.If = tiering.IfAbsent()
		results, committed := f.transact([]tiering.Key{a, b}, once("r", "x"), change(a, put(`3`)), bad)
		equal(f, "committed", committed, false)
		f.status(results[1][0], warm.Conflict)
		f.body(a, "")
		f.body(b, `1`)
		equal(f, "entries of the feed", len(f.feed()), 1)
		_, committed = f.transact([]tiering.Key{a}, once("r", "x"), change(a, put(`4`)))
		equal(f, "committed under the same idempotency key, which was not stored", committed, true)
	})
	t.Run("a missing namespace fails it", func(t *testing.T) {
		f := setup(t, h)
		k := tiering.Key{Tenant: tenant, Namespace: "nowhere", ID: "k"}
		results, committed := f.transact([]tiering.Key{a, k}, nil, change(a, put(`1`)), change(k, put(`2`)))
		equal(f, "committed", committed, false)
		f.status(results[1][0], warm.NoNamespace)
		f.body(a, "")
	})
	t.Run("an error of decide comes back as it is", func(t *testing.T) {
		f := setup(t, h)
		want := errors.New("no")
		_, committed, err := f.store.Atomic(f.ctx, uuid.New(), []tiering.Key{a}, nil, func([]warm.Current) ([]warm.Change, error) { return nil, want })
		if committed || !errors.Is(err, want) {
			t.Fatalf("committed %v, error %v, want %v", committed, err, want)
		}
		f.must(a, put(`1`))
	})
	t.Run("a key that was only looked at stays as it was", func(t *testing.T) {
		f := setup(t, h)
		_, committed := f.transact([]tiering.Key{a, b}, nil, change(a, put(`1`)))
		equal(f, "committed", committed, true)
		equal(f, "live", f.live(b), false)
		f.must(b, put(`1`), tiering.IfAbsent())
	})
	t.Run("idempotency covers the whole", func(t *testing.T) {
		f := setup(t, h)
		idem := once("r", "x")
		first, _ := f.transact([]tiering.Key{a, b}, idem, change(a, put(`1`)), change(b, put(`2`)))
		called := false
		results, _, err := f.store.Atomic(f.ctx, uuid.New(), []tiering.Key{a, b}, idem, func([]warm.Current) ([]warm.Change, error) {
			called = true
			return nil, nil
		})
		f.no(err)
		equal(f, "decide called for a known key", called, false)
		equal(f, "results", len(results), 2)
		for i := range results {
			f.status(results[i][0], warm.Replayed)
			equal(f, "the head", results[i][0].Head, first[i][0].Head)
			equal(f, "created", results[i][0].Created, true)
			equal(f, "answer", string(results[i][0].Answer), string(idem.Answer))
		}
		results, _ = f.transact([]tiering.Key{a}, once("r", "other"), change(a, put(`3`)))
		f.status(results[0][0], warm.Mismatch)
		f.body(a, `1`)
	})
	t.Run("two that check each other's key do not both commit", func(t *testing.T) {
		f := setup(t, h)
		for range 20 {
			f.commit(change(a, op(tiering.OpDelete)), change(b, op(tiering.OpDelete)))
			var wg sync.WaitGroup
			var wins [2]bool
			for i, own := range []tiering.Key{a, b} {
				wg.Go(func() {
					_, committed, err := f.store.Atomic(f.ctx, uuid.New(), []tiering.Key{a, b}, nil, func(cur []warm.Current) ([]warm.Change, error) {
						if cur[1-i].Head.Live(cur[1-i].Now) {
							return nil, errors.ErrUnsupported
						}
						return []warm.Change{change(own, put(`1`))}, nil
					})
					if err != nil && !errors.Is(err, errors.ErrUnsupported) {
						t.Error(err)
					}
					wins[i] = committed
				})
			}
			wg.Wait()
			if wins[0] == wins[1] || f.live(a) == f.live(b) {
				t.Fatalf("write skew: committed %v", wins)
			}
		}
	})
	t.Run("a batch that races it is before or after, never between", func(t *testing.T) {
		f := setup(t, h)
		for range 20 {
			f.commit(change(a, op(tiering.OpDelete)), change(b, op(tiering.OpDelete)))
			var wg sync.WaitGroup
			var committed bool
			wg.Go(func() {
				create := change(b, put(`2`))
				create.If = tiering.IfAbsent()
				if _, err := f.store.Commit(f.ctx, batch(create)); err != nil {
					t.Error(err)
				}
			})
			wg.Go(func() {
				first, second := change(a, put(`1`)), change(b, put(`1`))
				first.If, second.If = tiering.IfAbsent(), tiering.IfAbsent()
				var err error
				if _, committed, err = f.store.Atomic(f.ctx, uuid.New(), []tiering.Key{a, b}, nil, func([]warm.Current) ([]warm.Change, error) {
					return []warm.Change{first, second}, nil
				}); err != nil {
					t.Error(err)
				}
			})
			wg.Wait()
			wantA, wantB := "", `2`
			if committed {
				wantA, wantB = `1`, `1`
			}
			f.body(a, wantA)
			f.body(b, wantB)
		}
	})
}
