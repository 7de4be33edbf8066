// Package flat is an index of memories in process: every vector is looked at,
// with SIMD, and every posting is in memory. It keeps nothing of its own; what
// it holds is read from the warm store, and looked at again before each search
// as far as it changed.
//
// Where a namespace has many vectors in a space, codes of one bit a dimension
// find candidates and the vectors rank them. The codes are the signs of the
// vector, less the mean of all, after a random rotation.
//
// Nothing is dormant here: deep finds what any search does.
package flat

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/vector"
)

// Options shape an Index. The zero value works.
type Options struct {
	// ExactUpTo is how many vectors of a namespace, after the filters, are
	// compared one by one; 0: 5,000. Of more, codes choose which are.
	ExactUpTo int
	// Candidates is how many they choose for each match that is asked for; 0:
	// 40, and at least 600 in all.
	Candidates int
}

// Index is a vector.Index. It is safe for concurrent use.
type Index struct {
	source vector.Source
	opts   Options
	// refresh is held by whoever brings the index up to date.
	refresh sync.Mutex
	at      int64 // position in the source's changes; -1: nothing was read
	// mu guards what follows. Searches read.
	mu    sync.RWMutex
	rooms map[place]*room
}

var _ vector.Index = (*Index)(nil)

// place names a room.
type place struct{ tenant, namespace string }

// Open reads everything that source has.
func Open(ctx context.Context, source vector.Source, o *Options) (*Index, error) {
	x := &Index{source: source, at: -1, rooms: map[place]*room{}}
	if o != nil {
		x.opts = *o
	}
	if x.opts.ExactUpTo <= 0 {
		x.opts.ExactUpTo = 5000
	}
	if x.opts.Candidates <= 0 {
		x.opts.Candidates = 40
	}
	return x, x.catchUp(ctx)
}

// page is how many memories are read at once.
const page = 1000

// catchUp looks at what changed since the last look.
func (x *Index) catchUp(ctx context.Context) error {
	x.refresh.Lock()
	defer x.refresh.Unlock()
	keys, now, known, err := x.source.Changed(ctx, x.at)
	switch {
	case err != nil:
		return err
	case x.at < 0 || !known:
		if err := x.load(ctx); err != nil {
			return err
		}
	case len(keys) > 0:
		if err := x.look(ctx, keys); err != nil {
			return err
		}
	}
	x.at = now
	return nil
}

// load reads everything anew.
func (x *Index) load(ctx context.Context) error {
	rooms := map[place]*room{}
	for after := (tiering.Key{}); ; {
		items, err := x.source.After(ctx, after, page)
		if err != nil {
			return err
		}
		for i := range items {
			roomOf(rooms, items[i].Key).add(&items[i])
			after = items[i].Key
		}
		if len(items) < page {
			break
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.rooms = rooms
	return nil
}

// look reads keys again. They leave and come back page by page, so that a
// search between two pages sees each memory as it was or as it is.
func (x *Index) look(ctx context.Context, keys []tiering.Key) error {
	slices.SortFunc(keys, tiering.Key.Compare)
	for some := range slices.Chunk(slices.Compact(keys), page) {
		items, err := x.source.Of(ctx, some)
		if err != nil {
			return err
		}
		x.replace(some, items)
	}
	return nil
}

func (x *Index) replace(keys []tiering.Key, items []vector.Item) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, k := range keys {
		p := place{k.Tenant, k.Namespace}
		r := x.rooms[p]
		if r == nil {
			continue
		}
		r.remove(k.ID)
	}
	for i := range items {
		roomOf(x.rooms, items[i].Key).add(&items[i])
	}
	for _, k := range keys {
		if p := (place{k.Tenant, k.Namespace}); x.rooms[p] != nil && len(x.rooms[p].slots) == 0 {
			delete(x.rooms, p)
		}
	}
}

func roomOf(rooms map[place]*room, k tiering.Key) *room {
	p := place{k.Tenant, k.Namespace}
	r := rooms[p]
	if r == nil {
		r = newRoom(p)
		rooms[p] = r
	}
	return r
}

// inScope is a room of a scope with its filter.
type inScope struct {
	*room
	*filter
}

// search brings the index up to date and calls fn with the rooms of a scope.
// Nothing changes meanwhile.
func (x *Index) search(ctx context.Context, s vector.Scope, fn func([]inScope)) error {
	if err := x.catchUp(ctx); err != nil {
		return err
	}
	now, err := x.source.Now(ctx)
	if err != nil {
		return err
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	var rooms []inScope
	for _, r := range x.named(s) {
		if f, some := r.filter(s, now); some {
			rooms = append(rooms, inScope{r, f})
		}
	}
	fn(rooms)
	return ctx.Err()
}

// named returns the rooms of a scope's namespaces, each once.
func (x *Index) named(s vector.Scope) (rooms []*room) {
	names := slices.Clone(s.Namespaces)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if r := x.rooms[place{s.Tenant, name}]; r != nil {
			rooms = append(rooms, r)
		}
	}
	return rooms
}

// Nearest implements vector.Index.
func (x *Index) Nearest(ctx context.Context, s vector.Scope, space string, v []float32, limit int, _ bool) (hits []vector.Hit, err error) {
	q := vector.Normalise(slices.Clone(v))
	if q == nil || limit <= 0 {
		return nil, ctx.Err()
	}
	err = x.search(ctx, s, func(rooms []inScope) {
		best := newTop(limit)
		for _, in := range rooms {
			if a := in.spaces[space]; a != nil && a.dims == len(q) {
				x.nearest(in.room, in.filter, a, q, best)
			}
		}
		hits = best.hits()
	})
	return hits, err
}

// Count implements vector.Index.
func (x *Index) Count(ctx context.Context, s vector.Scope, upTo int) (n int, err error) {
	err = x.search(ctx, s, func(rooms []inScope) {
		for _, in := range rooms {
			in.each(in.room, func(int32) bool {
				n++
				return n < upTo
			})
		}
	})
	return min(n, upTo), err
}

// Maintain implements vector.Index: it looks at what changed, and makes codes
// where a namespace has become large.
func (x *Index) Maintain(ctx context.Context) (more bool, err error) {
	if err := x.catchUp(ctx); err != nil {
		return false, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, r := range x.rooms {
		for _, a := range r.spaces {
			if a.encode(x.opts.ExactUpTo) {
				return true, nil
			}
		}
	}
	return false, nil
}

// Forget implements vector.Index. What a memory that is gone held is cleared
// when it is removed, so that looking at what changed is all there is to do.
func (x *Index) Forget(ctx context.Context) error { return x.catchUp(ctx) }

// Stats implements vector.Index.
func (x *Index) Stats(ctx context.Context) (st vector.Stats, err error) {
	if err := x.catchUp(ctx); err != nil {
		return st, err
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, r := range x.rooms {
		st.Memories += int64(len(r.slots))
		st.Bytes += r.bytes()
		for _, a := range r.spaces {
			st.Vectors += int64(len(a.owner))
		}
	}
	return st, ctx.Err()
}

// Close implements vector.Index.
func (x *Index) Close() error { return nil }

// micros is a time as the index compares it: 0 for none, so that the first
// microsecond of 1970 becomes the second one.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	if n := t.UnixMicro(); n != 0 {
		return n
	}
	return 1
}
