package warmtest

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

func testRacing(t *testing.T, h Harness) {
	t.Run("64 writers increment one counter under compare-and-set", func(t *testing.T) {
		const writers, each = 64, 3
		f := setup(t, h)
		k := key("counter")
		f.must(k, put(`0`))
		var wg sync.WaitGroup
		for range writers {
			wg.Go(func() {
				cur, err := f.store.Load(f.ctx, k)
				if err != nil {
					t.Error(err)
					return
				}
				for done := 0; done < each; {
					n, err := strconv.Atoi(string(cur.Body))
					if err != nil {
						t.Error(err)
						return
					}
					c := change(k, put(strconv.Itoa(n+1)))
					c.If = tiering.IfVersion(cur.Head.Version)
					results, err := f.store.Commit(f.ctx, batch(c))
					if err != nil {
						t.Error(err)
						return
					}
					if results[0][0].Status == warm.Done {
						done++
					}
					if cur, err = f.store.Load(f.ctx, k); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		f.body(k, strconv.Itoa(writers*each))
		versions, err := f.store.Versions(f.ctx, k, 0, 1000)
		f.no(err)
		equal(f, "version rows", len(versions), writers*each+1)
		for i := 1; i < len(versions); i++ {
			newer, older := versions[i-1], versions[i]
			if newer.Version != older.Version+1 || !newer.At.After(older.At) {
				t.Fatalf("version %d of %s follows version %d of %s", newer.Version, newer.At, older.Version, older.At)
			}
		}
		prev := int64(0)
		for _, e := range f.feed() {
			equal(f, "prev in the feed", e.Changes[0].Prev, prev)
			prev = e.Changes[0].Version
		}
	})
	t.Run("one of many creates", func(t *testing.T) {
		f := setup(t, h)
		for round := range 5 {
			k := key(fmt.Sprint("k", round))
			var wg sync.WaitGroup
			var won atomic.Int64
			for range 16 {
				wg.Go(func() {
					c := change(k, put(`1`))
					c.If = tiering.IfAbsent()
					results, err := f.store.Commit(f.ctx, batch(c))
					if err != nil {
						t.Error(err)
						return
					}
					if results[0][0].Status == warm.Done {
						won.Add(1)
					}
				})
			}
			wg.Wait()
			equal(f, "winners", won.Load(), 1)
			equal(f, "version", f.load(k).Head.Version, 1)
		}
	})
	t.Run("batches over the same keys neither deadlock nor mix", func(t *testing.T) {
		f := setup(t, h)
		keys := []tiering.Key{key("a"), key("b"), key("c")}
		var wg sync.WaitGroup
		for w := range 8 {
			wg.Go(func() {
				for i := range 5 {
					body := fmt.Sprintf(`"%d-%d"`, w, i)
					var changes []warm.Change
					for _, k := range keys {
						changes = append(changes, change(k, put(body)))
					}
					if _, err := f.store.Commit(f.ctx, batch(changes...)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		for i := int64(1); i <= 40; i++ {
			first, _, err := f.store.Version(f.ctx, keys[0], i)
			f.no(err)
			for _, k := range keys[1:] {
				v, _, err := f.store.Version(f.ctx, k, i)
				f.no(err)
				equal(f, fmt.Sprintf("version %d of %s", i, k), string(v.Body), string(first.Body))
			}
		}
	})
}
