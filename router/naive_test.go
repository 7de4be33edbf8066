package router

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// The naive tiers leave out one thing each. hot/hottest has more of them.

// plainHot stores values as a plain SET does: without an end.
type plainHot struct{ hot.Store }

const forever = 10 * 365 * 24 * time.Hour

func (h plainHot) Set(ctx context.Context, s hot.Set) (bool, error) {
	s.TTL, s.Entry.Meta.ExpiresAt = forever, time.Time{}
	return h.Store.Set(ctx, s)
}

func (h plainHot) Fill(ctx context.Context, key tiering.Key, lease hot.Token, e hot.Entry, _ time.Duration) (bool, error) {
	e.Meta.ExpiresAt = time.Time{}
	return h.Store.Fill(ctx, key, lease, e, forever)
}

// reshaped commits what shape makes of every row of a caller's.
type reshaped struct {
	warm.Store
	shape func(*warm.Change)
}

func (w reshaped) Commit(ctx context.Context, b *warm.Batch) ([][]warm.Result, error) {
	c := &warm.Batch{ID: b.ID}
	for _, change := range b.Changes {
		change.Rows = append([]warm.Row(nil), change.Rows...)
		if !change.Key.Reserved() {
			w.shape(&change)
		}
		c.Changes = append(c.Changes, change)
	}
	return w.Store.Commit(ctx, c)
}

// blind writes whatever stands.
func blind(s warm.Store) warm.Store {
	return reshaped{s, func(c *warm.Change) { c.If = tiering.Condition{} }}
}

// forgetful knows no idempotency keys.
func forgetful(s warm.Store) warm.Store {
	return reshaped{s, func(c *warm.Change) {
		for i := range c.Rows {
			c.Rows[i].Idempotency = nil
		}
	}}
}

// restarting numbers the versions of a key from 1 again when it is made again:
// it looks at nothing but a live head.
type restarting struct {
	warm.Store
	mu     sync.Mutex
	before map[tiering.Key]int64 // versions of earlier lives
}

func restart(s warm.Store) warm.Store {
	return &restarting{Store: s, before: map[tiering.Key]int64{}}
}

func (w *restarting) renumber(h warm.Head) warm.Head {
	w.mu.Lock()
	defer w.mu.Unlock()
	h.Version -= w.before[h.Key]
	return h
}

func (w *restarting) Commit(ctx context.Context, b *warm.Batch) ([][]warm.Result, error) {
	c := &warm.Batch{ID: b.ID, Changes: append([]warm.Change(nil), b.Changes...)}
	for i := range c.Changes {
		if v, ok := c.Changes[i].If.Version(); ok {
			w.mu.Lock()
			c.Changes[i].If = tiering.IfVersion(v + w.before[c.Changes[i].Key])
			w.mu.Unlock()
		}
	}
	results, err := w.Store.Commit(ctx, c)
	for i := range results {
		for j := range results[i] {
			r := &results[i][j]
			if r.Created && !r.Head.Key.Reserved() {
				w.mu.Lock()
				w.before[r.Head.Key] = r.Head.Version - 1
				w.mu.Unlock()
			}
			r.Head = w.renumber(r.Head)
		}
	}
	return results, err
}

func (w *restarting) Load(ctx context.Context, key tiering.Key) (warm.Current, error) {
	cur, err := w.Store.Load(ctx, key)
	cur.Head = w.renumber(cur.Head)
	return cur, err
}

// misdated tells the local clock in place of warm's.
type misdated struct {
	warm.Store
	local func() time.Time
}

func (w misdated) Load(ctx context.Context, key tiering.Key) (warm.Current, error) {
	cur, err := w.Store.Load(ctx, key)
	cur.Now = w.local()
	return cur, err
}

func (w misdated) Now(context.Context) (time.Time, error) { return w.local(), nil }

// piecemeal commits an atomic batch change by change, on what it read before.
type piecemeal struct{ warm.Store }

func (w piecemeal) Atomic(ctx context.Context, _ uuid.UUID, keys []tiering.Key, _ *warm.Idempotency,
	decide func([]warm.Current) ([]warm.Change, error)) (results [][]warm.Result, committed bool, err error) {
	var read []warm.Current
	for _, k := range keys {
		cur, err := w.Load(ctx, k)
		if err != nil {
			return nil, false, err
		}
		read = append(read, cur)
	}
	changes, err := decide(read)
	if err != nil {
		return nil, false, err
	}
	for _, c := range changes {
		r, err := w.Commit(ctx, &warm.Batch{ID: uuid.New(), Changes: []warm.Change{c}})
		if err != nil {
			return nil, false, err
		}
		results = append(results, r[0])
	}
	return results, true, nil
}
