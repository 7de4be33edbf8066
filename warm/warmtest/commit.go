package warmtest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

func testCommit(t *testing.T, h Harness) {
	t.Run("a put makes the first version", func(t *testing.T) {
		f := setup(t, h)
		row := put(`{"a":1}`)
		row.User = "ann"
		r := f.must(key("a"), row)
		now := f.clock.Now()
		equal(f, "created", r.Created, true)
		equal(f, "prev", r.Prev, 0)
		cur := f.load(key("a"))
		equal(f, "the head in the result", r.Head.Meta(), cur.Head.Meta())
		equal(f, "the head", cur.Head.Meta(), tiering.Meta{
			Namespace: space, ID: "a", Version: 1, Digest: row.Digest, Size: 7, CreatedAt: now, UpdatedAt: now, User: "ann"})
		equal(f, "in warm", cur.Head.InWarm, true)
		equal(f, "op", cur.Head.Op, tiering.OpPut)
		equal(f, "now", cur.Now, now)
		f.body(key("a"), `{"a":1}`)
	})
	t.Run("the next put keeps created_at and user", func(t *testing.T) {
		f := setup(t, h)
		row := put(`1`)
		row.User = "ann"
		first := f.must(key("a"), row)
		f.clock.advance(time.Second)
		r := f.must(key("a"), put(`2`))
		equal(f, "created", r.Created, false)
		equal(f, "prev", r.Prev, first.Head.Version)
		equal(f, "version", r.Head.Version, first.Head.Version+1)
		equal(f, "created_at", r.Head.CreatedAt, first.Head.CreatedAt)
		equal(f, "updated_at", r.Head.UpdatedAt, f.clock.Now())
		equal(f, "user", r.Head.User, "ann")
	})
	t.Run("versions of a clock that stands still have times that grow", func(t *testing.T) {
		f := setup(t, h)
		last := f.must(key("a"), put(`0`)).Head.UpdatedAt
		for range 3 {
			f.clock.advance(-time.Second)
			at := f.must(key("a"), put(`1`)).Head.UpdatedAt
			equal(f, "the time of the next version", at, last.Add(time.Microsecond))
			last = at
		}
	})
	t.Run("a batch commits each change on its own", func(t *testing.T) {
		f := setup(t, h)
		f.must(key("b"), put(`1`))
		bad := change(key("b"), put(`2`))
		bad.If = tiering.IfAbsent()
		results := f.commit(change(key("a"), put(`3`)), bad, change(key("c"), put(`4`)))
		f.status(results[0][0], warm.Done)
		f.status(results[1][0], warm.Conflict)
		f.status(results[2][0], warm.Done)
		f.body(key("a"), `3`)
		f.body(key("b"), `1`)
		f.body(key("c"), `4`)
	})
	t.Run("a delete leaves a tombstone", func(t *testing.T) {
		f := setup(t, h)
		f.must(key("a"), put(`1`))
		r := f.must(key("a"), op(tiering.OpDelete))
		equal(f, "prev", r.Prev, 1)
		equal(f, "version", r.Head.Version, 2)
		equal(f, "op", r.Head.Op, tiering.OpDelete)
		cur := f.load(key("a"))
		equal(f, "live", cur.Head.Live(cur.Now), false)
		equal(f, "in warm", cur.Head.InWarm, false)
		equal(f, "digest", cur.Head.Digest, tiering.Digest{})
		f.body(key("a"), "")
	})
	t.Run("a key made again goes on above its tombstone, with a life of its own", func(t *testing.T) {
		f := setup(t, h)
		row := put(`1`)
		row.User = "ann"
		f.must(key("a"), row)
		f.must(key("a"), op(tiering.OpPin))
		f.must(key("a"), op(tiering.OpDelete))
		f.clock.advance(time.Minute)
		row.User = "bob"
		r := f.must(key("a"), row)
		equal(f, "created", r.Created, true)
		equal(f, "prev", r.Prev, 0)
		equal(f, "version", r.Head.Version, 3)
		equal(f, "user", r.Head.User, "bob")
		equal(f, "pinned", r.Head.Pinned, false)
		equal(f, "created_at", r.Head.CreatedAt, f.clock.Now())
		equal(f, "the stored user", f.load(key("a")).Head.User, "bob")
	})
	t.Run("deleting nothing changes nothing", func(t *testing.T) {
		f := setup(t, h)
		r := f.one(key("never"), op(tiering.OpDelete))
		f.status(r, warm.NoChange)
		equal(f, "the head", r.Head, warm.Head{})
		f.must(key("a"), put(`1`))
		f.must(key("a"), op(tiering.OpDelete))
		r = f.one(key("a"), op(tiering.OpDelete))
		f.status(r, warm.NoChange)
		equal(f, "version", r.Head.Version, 2)
		equal(f, "entries of the feed", len(f.feed()), 2)
	})
	t.Run("the user of a key stands", func(t *testing.T) {
		f := setup(t, h)
		row := put(`1`)
		row.User = "ann"
		f.must(key("a"), row)
		row.User = "bob"
		r := f.one(key("a"), row)
		f.status(r, warm.UserFixed)
		f.must(key("b"), put(`1`))
		f.status(f.one(key("b"), row), warm.UserFixed)
		row.User = "ann"
		f.must(key("a"), row)
	})
	t.Run("pin, unpin and touch are revisions", func(t *testing.T) {
		f := setup(t, h)
		f.must(key("a"), put(`1`))
		for i, step := range []struct {
			op     tiering.Op
			want   warm.Status
			pinned bool
		}{
			{tiering.OpPin, warm.Done, true}, {tiering.OpPin, warm.NoChange, true}, {tiering.OpTouch, warm.Done, true},
			{tiering.OpUnpin, warm.Done, false}, {tiering.OpUnpin, warm.NoChange, false},
		} {
			before := f.load(key("a")).Head
			r := f.one(key("a"), op(step.op))
			f.status(r, step.want)
			after := f.load(key("a")).Head
			revision := before.Revision
			if step.want == warm.Done {
				revision++
			}
			if after.Revision != revision || after.Version != 1 || after.Pinned != step.pinned || !after.UpdatedAt.Equal(before.UpdatedAt) {
				t.Fatalf("step %d, %s: %+v", i, step.op, after)
			}
		}
		vs, err := f.store.Versions(f.ctx, key("a"), 0, 10)
		f.no(err)
		equal(f, "version rows", len(vs), 1)
		f.body(key("a"), `1`)
		equal(f, "revision after the next put", f.must(key("a"), put(`2`)).Head.Revision, 0)
	})
	t.Run("touch and pin need something live", func(t *testing.T) {
		f := setup(t, h)
		for _, o := range []tiering.Op{tiering.OpTouch, tiering.OpPin, tiering.OpUnpin} {
			f.status(f.one(key("never"), op(o)), warm.Conflict)
		}
		f.must(key("a"), put(`1`))
		f.must(key("a"), op(tiering.OpDelete))
		r := f.one(key("a"), op(tiering.OpTouch))
		f.status(r, warm.Conflict)
		equal(f, "the version that stands", r.Head.Version, 2)
	})
	t.Run("bytes come back as they went in", func(t *testing.T) {
		f := setup(t, h)
		for i, body := range []string{
			`null`, `""`, `{"b":1,"a":1.10,"n":9007199254740993}`, `"\u0000"`, `{"a":"` + strings.Repeat("x", 5000) + `"}`,
			`"` + strings.Repeat("naïve 語 ", 40000) + `"`,
		} {
			k := key(string(rune('a' + i)))
			f.must(k, put(body))
			f.body(k, body)
		}
	})
	t.Run("ids of 1024 bytes", func(t *testing.T) {
		f := setup(t, h)
		a, b := key(strings.Repeat("é", 511)+"aa"), key(strings.Repeat("é", 511)+"ab")
		f.commit(change(a, put(`1`)), change(b, put(`2`)))
		f.body(a, `1`)
		f.body(b, `2`)
	})
	t.Run("a context that ended before leaves no effect", func(t *testing.T) {
		f := setup(t, h)
		ctx, cancel := context.WithCancel(f.ctx)
		cancel()
		if _, err := f.store.Commit(ctx, batch(change(key("a"), put(`1`)))); !errors.Is(err, context.Canceled) {
			t.Fatalf("error %v, want %v", err, context.Canceled)
		}
		equal(f, "the head", f.load(key("a")).Head, warm.Head{})
		equal(f, "entries of the feed", len(f.feed()), 0)
	})
	t.Run("a caller who gives up while it waits is told the truth", func(t *testing.T) {
		f := setup(t, h)
		k := key("k")
		ctx, cancel := context.WithCancel(f.ctx)
		held, release := make(chan struct{}), make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			_, _, err := f.store.Atomic(f.ctx, uuid.New(), []tiering.Key{k}, nil, func([]warm.Current) ([]warm.Change, error) {
				close(held)
				<-release
				return []warm.Change{change(k, put(`1`))}, nil
			})
			if err != nil {
				t.Error(err)
			}
		})
		<-held
		b := batch(change(k, put(`2`)))
		answer := make(chan error, 1)
		go func() {
			_, err := f.store.Commit(ctx, b)
			answer <- err
		}()
		cancel()
		var err error
		select { // a driver may also wait for the lock to its end
		case err = <-answer:
			close(release)
		case <-time.After(100 * time.Millisecond):
			close(release)
			err = <-answer
		}
		wg.Wait()
		committed := err == nil
		if errors.Is(err, warm.ErrOutcomeUnknown) {
			_, committed, err = f.store.Resolve(f.ctx, b)
			f.no(err)
		}
		want := `1`
		if committed {
			want = `2`
		}
		f.body(k, want)
	})
	t.Run("a batch id commits once", func(t *testing.T) {
		f := setup(t, h)
		b := batch(change(key("a"), put(`1`)))
		_, err := f.store.Commit(f.ctx, b)
		f.no(err)
		if _, err := f.store.Commit(f.ctx, b); err == nil {
			t.Fatal("the same batch was committed twice")
		}
		equal(f, "version", f.load(key("a")).Head.Version, 1)
		void := &warm.Batch{ID: uuid.New(), Changes: b.Changes}
		if _, committed, err := f.store.Resolve(f.ctx, void); err != nil || committed {
			t.Fatalf("Resolve of a batch that never came: committed %v, %v", committed, err)
		}
		if _, err := f.store.Commit(f.ctx, void); err == nil || errors.Is(err, warm.ErrOutcomeUnknown) {
			t.Fatalf("a batch was committed after it was resolved as never: %v", err)
		}
		equal(f, "version", f.load(key("a")).Head.Version, 1)
	})
}
