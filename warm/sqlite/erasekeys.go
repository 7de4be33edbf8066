package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"maps"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/mention"
)

// sweep is how far an order has come in looking for mentions of its subject.
// It is kept in memory alone: after a restart the look begins anew.
//
// The feed and the results know keys only inside their blobs, so each is read
// once from its start, a window a transaction; what comes in meanwhile is read
// by the transaction that takes keys. Then nothing in warm mentions a key that
// is taken, at no time is a change without its version, and no transaction
// reads a day's feed.
//
// Of a user only what is his is taken on the way: whether a key goes with what
// others had there is known when its head is looked at, in the transaction that
// takes it. A key may have come to another owner by then.
type sweep struct {
	subject                    *mention.Subject
	feed, idempotency, settled int64 // read up to here

	// look is of a user alone, nil of others. It holds too much when a transaction is
	// rolled back, which costs a look in vain. The keys that it watches count as met.
	look *mention.Look
}

// sweepWindow is how many rows of each kind one transaction reads.
const sweepWindow = 10_000

// errUnknownPast says that a sweep has to begin with the past owners of keys.
var errUnknownPast = errors.New("past owners are not read yet")

// EraseKeys implements warm.Eraser. A call may take no key and say that there
// are more: it has looked for mentions then.
func (s *Store) EraseKeys(ctx context.Context, id string, limit int) (e warm.Erasure, more bool, err error) {
	var begin *sweep
	for {
		err = s.write(ctx, func(t *txn) error {
			o, err := t.order(id)
			if err != nil {
				return err
			}
			if e = o.Erasure; e.Pos > 0 {
				more = false
				return errRollback
			}
			w := t.sweeps[id]
			if w == nil {
				w = begin
			}
			if w == nil {
				return errUnknownPast
			}
			p := w.step()
			if more, err = t.erase(&o, p, max(limit, 1)); err != nil {
				return err
			}
			o, err = t.order(id)
			e = o.Erasure
			published := t.committed
			t.committed = func() {
				p.commit()
				t.sweeps[id] = w
				if published != nil {
					published()
				}
			}
			return err
		})
		if !errors.Is(err, errUnknownPast) {
			break
		}
		if begin, err = s.beginSweep(ctx, e.Selector); err != nil {
			break
		}
	}
	if err != nil {
		return warm.Erasure{}, false, err
	}
	return e, more, nil
}

// beginSweep finds the keys of a user beforehand, without keeping the writer:
// no index says who owned a key in the past.
func (s *Store) beginSweep(ctx context.Context, sel warm.Selector) (*sweep, error) {
	w := &sweep{subject: mention.New(sel)}
	if sel.User == "" {
		return w, nil
	}
	w.look = mention.NewLook(sel)
	err := s.reader(ctx, func(c *conn) error { return c.ownedBy(ctx, sel, w.look.Watched) })
	w.look.Met = maps.Clone(w.look.Watched.Keys)
	return w, err
}

// step is what one transaction does of a sweep. The sweep itself moves only
// when the transaction is committed.
type step struct {
	*sweep
	feed, idempotency, settled int64
	keys                       []tiering.Key // to take
}

func (w *sweep) step() *step {
	return &step{sweep: w, feed: w.feed, idempotency: w.idempotency, settled: w.settled}
}

// commit moves the sweep on.
func (p *step) commit() {
	w := p.sweep
	w.feed, w.idempotency, w.settled = p.feed, p.idempotency, p.settled
	if w.look == nil {
		return
	}
	for _, k := range p.keys {
		delete(w.look.Met, k)
	}
}

// erase looks for mentions, and takes keys when there is none left to find.
func (t *txn) erase(o *order, p *step, limit int) (more bool, err error) {
	cleaned, atEnd, err := t.advance(p)
	if err != nil {
		return false, err
	}
	if atEnd {
		if err := t.erasable(p, limit); err != nil {
			return false, err
		}
		prints := make([]footprint, len(p.keys))
		for i, k := range p.keys {
			if prints[i], err = t.footprint(p.subject.Selector, k); err != nil {
				return false, err
			}
		}
		if err := t.cleanWhole(p, prints); err != nil {
			return false, err
		}
		for i, k := range p.keys {
			if err := t.take(o, k, prints[i]); err != nil {
				return false, err
			}
		}
		if err := t.comeBack(p); err != nil {
			return false, err
		}
	}
	if cleaned || len(p.keys) > 0 {
		if err := t.fence(o.seq); err != nil {
			return false, err
		}
	}
	more = !atEnd || len(p.keys) >= limit
	if !more {
		if err := t.erased(o); err != nil {
			return false, err
		}
	}
	_, err = t.exec(`UPDATE erasure SET pos = ?, keys = ?, versions = ?, bytes = ? WHERE seq = ?`, o.Pos, o.Keys, o.Versions, o.Bytes, o.seq)
	return more, err
}

// advance reads a window of each kind. atEnd says that there is nothing behind.
func (t *txn) advance(p *step) (cleaned, atEnd bool, err error) {
	atEnd = true
	for _, kind := range []struct {
		at     *int64
		bounds string
		clean  func(after, to int64) (bool, error)
	}{
		{&p.feed, `SELECT (SELECT min(pos) FROM feed), (SELECT max(pos) FROM feed)`, func(after, to int64) (bool, error) { return t.cleanFeed(p.subject, after, to, p.look) }},
		{&p.settled, `SELECT (SELECT min(seq) FROM settled), (SELECT max(seq) FROM settled)`, func(after, to int64) (bool, error) { return t.cleanSettled(p.subject, after, to, p.look) }},
		{&p.idempotency, `SELECT (SELECT min(seq) FROM idempotency), (SELECT max(seq) FROM idempotency)`, func(after, to int64) (bool, error) { return t.cleanIdempotency(p.subject, after, to, p.look) }},
	} {
		row, _, err := t.one(kind.bounds)
		if err != nil {
			return false, false, err
		}
		first, last := num(row[0]), num(row[1])
		after := max(*kind.at, first-1)
		to := min(after+sweepWindow, last)
		if to > after {
			n, err := kind.clean(after, to)
			if err != nil {
				return false, false, err
			}
			cleaned = cleaned || n
			*kind.at = to
		}
		atEnd = atEnd && *kind.at >= last
	}
	return cleaned, atEnd, nil
}

// comeBack takes the step back to the last rows there are: a row that was the
// last and is gone leaves its number to the next one.
func (t *txn) comeBack(p *step) error {
	for _, kind := range []struct {
		at   *int64
		last string
	}{{&p.settled, `SELECT max(seq) FROM settled`}, {&p.idempotency, `SELECT max(seq) FROM idempotency`}} {
		last, err := t.number(kind.last)
		if err != nil {
			return err
		}
		*kind.at = min(*kind.at, last)
	}
	return nil
}

// erasable finds up to limit keys that are to be taken, whole or in part.
func (t *txn) erasable(p *step, limit int) (err error) {
	sel := p.subject.Selector
	if sel.User == "" {
		p.keys, err = t.selected(context.Background(), sel, "", limit)
		return err
	}
	seen := map[tiering.Key]bool{}
	add := func(k tiering.Key) {
		if !seen[k] && len(p.keys) < limit {
			p.keys, seen[k] = append(p.keys, k), true
		}
	}
	err = t.each(context.Background(), headsOf, []any{sel.Tenant, sel.User, int64(limit)}, func(v []driver.Value) error {
		add(tiering.Key{Tenant: sel.Tenant, Namespace: text(v[0]), ID: string(blob(v[1]))})
		return nil
	})
	for k := range p.look.Met {
		if len(p.keys) >= limit {
			return err
		}
		add(k)
	}
	return err
}

// cleanWhole takes what is left to mention those of a user's keys that go
// whole: what others had there. It reads all there is when there may be any:
// for keys of which the sweep saw some, or that it did not watch.
func (t *txn) cleanWhole(p *step, prints []footprint) error {
	if p.subject.Selector.User == "" {
		return nil
	}
	whole := mention.New(warm.Selector{Tenant: p.subject.Selector.Tenant})
	for i, k := range p.keys {
		_, watched := p.look.Watched.Keys[k]
		_, shared := p.look.Shared[k.ID]
		if prints[i].Whole && (shared || !watched) {
			whole.Add(k)
		}
	}
	if len(whole.Keys) == 0 {
		return nil
	}
	const end = 1<<63 - 1
	if _, err := t.cleanFeed(whole, 0, end, nil); err != nil {
		return err
	}
	if _, err := t.cleanSettled(whole, 0, end, nil); err != nil {
		return err
	}
	_, err := t.cleanIdempotency(whole, 0, end, nil)
	return err
}
