package warmtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

var errLost = errors.New("the answer was lost")

func testFaults(t *testing.T, h Harness) {
	k := key("k")
	// lost commits a batch whose answer is lost.
	lost := func(f *fixture, b *warm.Batch) {
		f.Helper()
		f.lose = func() error { return errLost }
		_, err := f.store.Commit(f.ctx, b)
		f.lose = nil
		if !errors.Is(err, warm.ErrOutcomeUnknown) {
			f.Fatalf("error %v, want %v", err, warm.ErrOutcomeUnknown)
		}
	}
	t.Run("a lost answer is found again", func(t *testing.T) {
		f := setup(t, h)
		b := batch(change(k, put(`1`)))
		lost(f, b)
		f.body(k, `1`)
		for range 2 {
			results, committed, err := f.store.Resolve(f.ctx, b)
			f.no(err)
			equal(f, "committed", committed, true)
			f.status(results[0][0], warm.Done)
			equal(f, "the head", results[0][0].Head, f.load(k).Head)
			equal(f, "created", results[0][0].Created, true)
		}
		equal(f, "entries of the feed", len(f.feed()), 1)
	})
	t.Run("all results of a batch are found again", func(t *testing.T) {
		// The same history twice: once with the answer, once without.
		run := func(t *testing.T, commit func(f *fixture, b *warm.Batch) [][]warm.Result) [][]warm.Result {
			f := setup(t, h)
			f.must(key("stands"), put(`1`))
			f.must(key("dies"), put(`1`))
			f.must(key("same"), put(`1`))
			f.must(key("slides"), put(`1`))
			known := put(`1`)
			known.Idempotency = once("known", "x")
			f.must(key("known"), known)
			f.clock.advance(time.Minute)
			conflict := change(key("stands"), put(`2`))
			conflict.If = tiering.IfAbsent()
			requested, touch := put(`3`), op(tiering.OpTouch)
			requested.User, requested.Idempotency = "ann", once("r", "x")
			touch.Expiry = ttl(time.Hour)
			return commit(f, batch(conflict, change(key("dies"), op(tiering.OpDelete)), change(key("same"), op(tiering.OpUnpin)),
				change(key("slides"), touch), change(key("known"), known), change(key("new"), requested),
				change(key("folded"), put(`4`), put(`5`)), change(tiering.Key{Tenant: tenant, Namespace: "nowhere", ID: "k"}, put(`6`))))
		}
		var want, got [][]warm.Result
		t.Run("with the answer", func(t *testing.T) {
			want = run(t, func(f *fixture, b *warm.Batch) [][]warm.Result {
				results, err := f.store.Commit(f.ctx, b)
				f.no(err)
				return results
			})
		})
		t.Run("without", func(t *testing.T) {
			got = run(t, func(f *fixture, b *warm.Batch) [][]warm.Result {
				lost(f, b)
				f.reopen()
				results, committed, err := f.store.Resolve(f.ctx, b)
				f.no(err)
				equal(f, "committed", committed, true)
				return results
			})
		})
		if shown(got) != shown(want) {
			t.Fatalf("the results found again are\n%s\nwant\n%s", shown(got), shown(want))
		}
	})
	t.Run("what never came never will", func(t *testing.T) {
		f := setup(t, h)
		b := batch(change(k, put(`1`)))
		for range 2 {
			_, committed, err := f.store.Resolve(f.ctx, b)
			f.no(err)
			equal(f, "committed", committed, false)
		}
		if _, err := f.store.Commit(f.ctx, b); err == nil {
			t.Fatal("it committed after all")
		}
		f.body(k, "")
	})
	t.Run("an atomic transaction settles a lost answer itself", func(t *testing.T) {
		f := setup(t, h)
		f.lose = func() error { return errLost }
		results, committed, err := f.store.Atomic(f.ctx, uuid.New(), []tiering.Key{k}, once("r", "x"), func([]warm.Current) ([]warm.Change, error) {
			return []warm.Change{change(k, put(`1`))}, nil
		})
		f.no(err)
		equal(f, "committed", committed, true)
		f.status(results[0][0], warm.Done)
		equal(f, "the head", results[0][0].Head, f.load(k).Head)
		equal(f, "entries of the feed", len(f.feed()), 1)
	})
	t.Run("a caller who leaves during the commit does not undo it", func(t *testing.T) {
		f := setup(t, h)
		ctx, cancel := context.WithCancel(f.ctx)
		f.lose = func() error { cancel(); return nil }
		_, err := f.store.Commit(ctx, batch(change(k, put(`1`))))
		if err != nil && !errors.Is(err, warm.ErrOutcomeUnknown) {
			t.Fatalf("error %v although it was committed", err)
		}
		f.body(k, `1`)
	})
	t.Run("a retry after a lost answer happens once", func(t *testing.T) {
		f := setup(t, h)
		row := put(`1`)
		row.Idempotency = once("r", "x")
		c := change(k, row)
		c.If = tiering.IfAbsent()
		lost(f, batch(c))
		r := f.commit(c)[0][0]
		f.status(r, warm.Replayed)
		equal(f, "version", r.Head.Version, 1)
		equal(f, "version that stands", f.load(k).Head.Version, 1)
	})
}
