package warmtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

func testHotEpochs(t *testing.T, h Harness) {
	t.Run("names the store's life and counts", func(t *testing.T) {
		f := setup(t, h)
		life, err := f.store.Epoch(f.ctx)
		f.no(err)
		equal(f, "the first epoch", f.hotEpoch(), tiering.HotEpoch{Life: life})
		equal(f, "the next", f.bump(f.hotEpoch()), tiering.HotEpoch{Life: life, Count: 1})
		equal(f, "what stands then", f.hotEpoch(), tiering.HotEpoch{Life: life, Count: 1})
	})
	t.Run("is bumped by who knows it", func(t *testing.T) {
		f := setup(t, h)
		first := f.hotEpoch()
		second := f.bump(first)
		equal(f, "a bump of the one before", f.bump(first), second)
		equal(f, "a bump of another life", f.bump(tiering.HotEpoch{Life: "01J0000000000000000000000A", Count: second.Count}), second)
		equal(f, "a bump of one to come", f.bump(tiering.HotEpoch{Life: second.Life, Count: 7}), second)
		equal(f, "a bump of none", f.bump(tiering.HotEpoch{}), second)
	})
	t.Run("is bumped once however many know it", func(t *testing.T) {
		f := setup(t, h)
		first := f.hotEpoch()
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if e, err := f.store.BumpHotEpoch(f.ctx, first); err != nil || e.Count != 1 {
					t.Errorf("a bump answers %v, %v", e, err)
				}
			})
		}
		wg.Wait()
	})
	t.Run("comes with every commit", func(t *testing.T) {
		f := setup(t, h)
		k, other := key("k"), key("other")
		f.must(other, put(`1`))
		for range 2 {
			stands := f.bump(f.hotEpoch())
			equal(f, "that of a put", f.must(k, put(`1`)).HotEpoch, stands)
			equal(f, "that of a touch", f.must(k, op(tiering.OpTouch)).HotEpoch, stands)
			equal(f, "that of a fold", f.commit(change(k, put(`2`), put(`3`)))[0][1].HotEpoch, stands)
			both := f.commit(change(other, put(`2`)), change(k, op(tiering.OpDelete)))
			equal(f, "that of a put beside a delete", both[1][0].HotEpoch, stands)
			results, committed, err := f.store.Atomic(f.ctx, uuid.New(), []tiering.Key{k}, nil, func([]warm.Current) ([]warm.Change, error) {
				return []warm.Change{change(k, put(`4`))}, nil
			})
			f.no(err)
			equal(f, "committed", committed, true)
			equal(f, "that of an atomic batch", results[0][0].HotEpoch, stands)
		}
	})
	t.Run("comes with an outcome that was unknown", func(t *testing.T) {
		f := setup(t, h)
		f.lose = func() error { return errors.New("the answer is lost") }
		b := batch(change(key("k"), put(`1`)))
		if _, err := f.store.Commit(f.ctx, b); !errors.Is(err, warm.ErrOutcomeUnknown) {
			t.Fatalf("the commit answers %v", err)
		}
		f.lose = nil
		stands := f.bump(f.hotEpoch())
		results, committed, err := f.store.Resolve(f.ctx, b)
		f.no(err)
		equal(f, "committed", committed, true)
		equal(f, "the epoch", results[0][0].HotEpoch, stands)
	})
	t.Run("outlives the process", func(t *testing.T) {
		f := setup(t, h)
		stands := f.bump(f.hotEpoch())
		f.reopen()
		equal(f, "the epoch", f.hotEpoch(), stands)
		equal(f, "that of a commit", f.must(key("k"), put(`1`)).HotEpoch, stands)
	})
	t.Run("is another after a rebuild", func(t *testing.T) {
		f := bare(t, h)
		before := f.bump(f.hotEpoch())
		f.no(f.store.BeginRestore(f.ctx, "01J0000000000000000000000A", 1<<40))
		f.no(f.store.EndRestore(f.ctx))
		f.reopen()
		now := f.hotEpoch()
		equal(f, "the life", now.Life, "01J0000000000000000000000A")
		equal(f, "supersedes that of the life before", now.Supersedes(before), true)
	})
	t.Run("ends behind every commit that does not know", func(t *testing.T) { hotEpochsRacing(t, h) })
}

// hotEpochsRacing bumps beside committers. What was read behind a bump is at
// most one version old: a newer one was committed under the new epoch.
func hotEpochsRacing(t *testing.T, h Harness) {
	f := setup(t, h)
	k := key("k")
	f.must(k, put(`0`))
	type committed struct {
		version int64
		count   int64
	}
	var mu sync.Mutex
	var all []committed
	ctx, stop := context.WithCancel(f.ctx)
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				b := batch(change(k, put(fmt.Sprint(w, i))), change(key(fmt.Sprint("beside ", w)), put(`1`)))
				if i%3 == 0 { // not puts alone
					b = batch(change(k, put(fmt.Sprint(w, i))), change(key(fmt.Sprint("beside ", w)), op(tiering.OpTouch)))
				}
				results, err := f.store.Commit(f.ctx, b)
				if err != nil {
					t.Error(err)
					return
				}
				for c := range b.Changes {
					if r := results[c][0]; b.Changes[c].Key == k {
						mu.Lock()
						all = append(all, committed{r.Head.Version, r.HotEpoch.Count})
						mu.Unlock()
					}
				}
			}
		})
	}
	type seen struct{ version, count int64 }
	var reads []seen
	for range 20 {
		e, err := f.store.BumpHotEpoch(f.ctx, f.hotEpoch())
		if err != nil {
			t.Error(err)
			break
		}
		reads = append(reads, seen{f.load(k).Head.Version, e.Count})
	}
	stop()
	wg.Wait()
	for _, r := range reads {
		for _, c := range all {
			if c.version > r.version && c.count < r.count {
				t.Fatalf("a read behind the bump to %d saw version %d, and version %d was committed under %d", r.count, r.version, c.version, c.count)
			}
		}
	}
}

func (f *fixture) hotEpoch() tiering.HotEpoch {
	f.Helper()
	e, err := f.store.HotEpoch(f.ctx)
	f.no(err)
	return e
}

func (f *fixture) bump(from tiering.HotEpoch) tiering.HotEpoch {
	f.Helper()
	e, err := f.store.BumpHotEpoch(f.ctx, from)
	f.no(err)
	return e
}
