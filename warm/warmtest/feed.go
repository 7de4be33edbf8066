package warmtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

func testFeed(t *testing.T, h Harness) {
	k := key("k")
	t.Run("an entry is a transaction and tells everything but the bytes", func(t *testing.T) {
		f := setup(t, h)
		row := put(`{"a":1}`)
		row.User, row.Expiry, row.Query = "ann", ttl(time.Hour), true
		start := f.clock.Now()
		f.commit(change(k, row), change(key("l"), put(`2`)))
		f.clock.advance(time.Minute)
		f.must(k, op(tiering.OpPin))
		f.must(k, op(tiering.OpDelete))
		feed := f.feed()
		equal(f, "entries", len(feed), 3)
		equal(f, "changes of the first", len(feed[0].Changes), 2)
		want := warm.FeedChange{Key: k, Op: tiering.OpPut, Version: 1, At: start, CreatedAt: start, ExpiresAt: start.Add(time.Hour),
			TTL: time.Hour, User: "ann", Query: true, Size: 7, Digest: row.Digest}
		equal(f, "the put", feed[0].Changes[0], want)
		want.Op, want.Revision, want.Prev, want.Pinned, want.At = tiering.OpPin, 1, 1, true, f.clock.Now()
		equal(f, "the pin", feed[1].Changes[0], want)
		del := feed[2].Changes[0]
		if del.Op != tiering.OpDelete || del.Version != 2 || del.Prev != 1 || del.Size != 0 || del.Digest != (tiering.Digest{}) || del.User != "ann" {
			t.Fatalf("the delete is %+v", del)
		}
	})
	t.Run("positions grow, and pages follow each other", func(t *testing.T) {
		f := setup(t, h)
		first, last, err := f.store.FeedBounds(f.ctx)
		f.no(err)
		if first <= last {
			t.Fatalf("an empty feed has bounds %d to %d", first, last)
		}
		for range 5 {
			f.must(k, put(`1`))
		}
		whole := f.feed()
		equal(f, "entries", len(whole), 5)
		at := whole[0].Pos - 1
		for i := range whole {
			entries, err := f.store.ReadFeed(f.ctx, at, 1)
			f.no(err)
			if len(entries) != 1 || entries[0].Pos <= at || entries[0].Changes[0].Version != int64(i+1) {
				t.Fatalf("behind %d: %+v", at, entries)
			}
			at = entries[0].Pos
		}
		entries, err := f.store.ReadFeed(f.ctx, at, 10)
		f.no(err)
		equal(f, "entries behind the last", len(entries), 0)
	})
	t.Run("what changes nothing has no entry", func(t *testing.T) {
		f := setup(t, h)
		f.status(f.one(k, put(`1`), tiering.IfExists()), warm.Conflict)
		f.status(f.one(k, op(tiering.OpDelete)), warm.NoChange)
		equal(f, "entries", len(f.feed()), 0)
	})
	t.Run("waiting ends with the next commit", func(t *testing.T) {
		f := setup(t, h)
		f.must(k, put(`1`))
		last := f.feed()[0].Pos
		f.no(f.store.WaitFeed(f.ctx, last-1))
		woken := make(chan error, 1)
		go func() { woken <- f.store.WaitFeed(f.ctx, last) }()
		f.must(k, put(`2`))
		select {
		case err := <-woken:
			f.no(err)
		case <-time.After(5 * time.Second):
			t.Fatal("a commit did not wake the waiting reader")
		}
		ctx, cancel := context.WithCancel(f.ctx)
		go func() { woken <- f.store.WaitFeed(ctx, last+100) }()
		cancel()
		if err := <-woken; !errors.Is(err, context.Canceled) {
			t.Fatalf("error %v, want %v", err, context.Canceled)
		}
	})
	t.Run("trimming", func(t *testing.T) {
		f := setup(t, h)
		for range 3 {
			f.must(k, put(`1`))
		}
		old := f.feed()
		f.no(f.store.SetPosition(f.ctx, "archive", old[1].Pos))
		f.clock.advance(time.Hour)
		f.must(k, put(`2`))
		f.no(f.store.TrimFeed(f.ctx, f.clock.Now().Add(-2*time.Hour)))
		equal(f, "entries when none is old", len(f.feed()), 4)
		f.no(f.store.TrimFeed(f.ctx, f.clock.Now()))
		feed := f.feed()
		equal(f, "entries after a trim", len(feed), 2)
		equal(f, "the first, which archive has not read", feed[0].Pos, old[2].Pos)
		if _, err := f.store.ReadFeed(f.ctx, old[0].Pos, 10); !errors.Is(err, tiering.ErrGone) {
			t.Fatalf("error %v, want gone", err)
		}
		entries, err := f.store.ReadFeed(f.ctx, old[1].Pos, 10)
		f.no(err)
		equal(f, "entries behind the trimmed ones", len(entries), 2)
		f.no(f.store.SetPosition(f.ctx, "archive", feed[1].Pos))
		f.clock.advance(time.Hour)
		f.no(f.store.TrimFeed(f.ctx, f.clock.Now()))
		first, last, err := f.store.FeedBounds(f.ctx)
		f.no(err)
		if first <= last || last != feed[1].Pos {
			t.Fatalf("bounds of a feed that was trimmed whole: %d to %d", first, last)
		}
		f.must(k, put(`3`))
		if next := f.feed(); len(next) != 1 || next[0].Pos <= last {
			t.Fatalf("the feed after that: %+v, last was %d", next, last)
		}
	})
	t.Run("positions only move forward", func(t *testing.T) {
		f := setup(t, h)
		for _, c := range []struct{ set, want int64 }{{5, 5}, {3, 5}, {9, 9}} {
			f.no(f.store.SetPosition(f.ctx, "index", c.set))
			pos, err := f.store.Position(f.ctx, "index")
			f.no(err)
			equal(f, "position", pos, c.want)
		}
		pos, err := f.store.Position(f.ctx, "archive")
		f.no(err)
		equal(f, "position of a new reader", pos, 0)
	})
	t.Run("the epoch stays", func(t *testing.T) {
		f := setup(t, h)
		a, err := f.store.Epoch(f.ctx)
		f.no(err)
		equal(f, "length of a ULID", len(a), 26)
		f.reopen()
		b, err := f.store.Epoch(f.ctx)
		f.no(err)
		equal(f, "epoch", b, a)
		other := setup(t, h)
		c, err := other.store.Epoch(f.ctx)
		f.no(err)
		if c == a {
			t.Fatal("two stores have the same epoch")
		}
	})
}
