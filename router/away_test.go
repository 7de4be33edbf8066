package router

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// distant is a warm store that can be away. Told to, it goes away under the
// next commit, which it carries out.
type distant struct {
	warm.Store
	away, goes atomic.Bool
}

func (d *distant) Away() bool { return d.away.Load() }

func (d *distant) Load(ctx context.Context, key tiering.Key) (warm.Current, error) {
	if d.Away() {
		return warm.Current{}, errHotLost
	}
	return d.Store.Load(ctx, key)
}

func (d *distant) Commit(ctx context.Context, b *warm.Batch) ([][]warm.Result, error) {
	if d.goes.Load() {
		d.away.Store(true)
		_, err := d.Store.Commit(ctx, b)
		return nil, errors.Join(warm.ErrOutcomeUnknown, err)
	}
	return d.Store.Commit(ctx, b)
}

func (d *distant) Resolve(ctx context.Context, b *warm.Batch) ([][]warm.Result, bool, error) {
	if d.Away() {
		return nil, false, errHotLost
	}
	return d.Store.Resolve(ctx, b)
}

func openDistant(t *testing.T) (*world, *distant) {
	d := &distant{}
	w := open(t, setup{
		warm:   func(s warm.Store) warm.Store { d.Store = s; return d },
		router: func(r *Router) { r.remote = d },
	})
	return w, d
}

// While warm is away hot's values are served, and said to be possibly old; a
// write is refused before it takes them away, and nothing is said not to be
// there. Once warm is back hot takes what a reader loads.
func TestWarmIsAway(t *testing.T) {
	w, d := openDistant(t)
	w.put("k", `1`)
	w.put("deleted", `1`)
	w.delete("deleted")
	w.put("missed", `1`)
	w.evict("missed")

	d.away.Store(true)
	batch := &tiering.Batch{Atomic: true, Ops: []tiering.BatchOp{{Op: "put", Namespace: space, ID: "k", Data: []byte(`2`)}}}
	for name, write := range map[string]func() error{
		"a put":           func() error { _, err := w.r.Put(w.ctx, space, "k", []byte(`2`), nil); return err },
		"a delete":        func() error { _, err := w.r.Delete(w.ctx, space, "k", nil); return err },
		"an atomic batch": func() error { _, err := w.r.Batch(w.ctx, batch); return err },
	} {
		if err := write(); tiering.CodeOf(err) != tiering.CodeUnavailable {
			t.Errorf("%s answers %v", name, err)
		}
	}
	doc, err := w.r.Get(w.ctx, space, "k", nil)
	if w.no(err); string(doc.Body) != `1` || doc.Tier != tiering.Hot || !doc.Stale {
		t.Errorf("a hit is %+v", doc)
	}
	for _, id := range []string{"missed", "deleted", "never was"} {
		if doc, err := w.r.Get(w.ctx, space, id, nil); tiering.CodeOf(err) != tiering.CodeUnavailable {
			t.Errorf("a get of %s answers %+v, %v", id, doc, err)
		}
	}

	d.away.Store(false)
	if got := w.get("missed"); got != `1` {
		t.Errorf("it is %s", got)
	}
	if l := w.hotState("missed"); l.State != hot.Present {
		t.Errorf("hot did not take what the first reader loaded: state %d", l.State)
	}
	if doc, err = w.r.Get(w.ctx, space, "k", nil); err != nil || doc.Stale {
		t.Errorf("a hit is %+v, %v", doc, err)
	}
}

// A write whose outcome is unknown because warm went away is answered so at
// once. Hot is settled when warm is back and tells.
func TestWarmGoesAwayUnderACommit(t *testing.T) {
	w, d := openDistant(t)
	w.put("k", `1`)
	d.goes.Store(true)
	began := time.Now()
	_, err := w.r.Put(w.ctx, space, "k", []byte(`2`), nil)
	if tiering.CodeOf(err) != tiering.CodeUnavailable || !errors.Is(err, warm.ErrOutcomeUnknown) {
		t.Fatalf("the answer is %v", err)
	}
	if took := time.Since(began); took > w.r.CommitTimeout/2 {
		t.Errorf("it took %v", took)
	}
	d.goes.Store(false)
	d.away.Store(false)
	w.eventually("hot has what was committed", func() bool {
		l := w.hotState("k")
		return l.State == hot.Present && string(l.Entry.Body) == `2`
	})
}
