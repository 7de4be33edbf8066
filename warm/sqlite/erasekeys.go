package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// sweep is how far an order has come in looking for mentions of its subject.
// It is kept in memory alone: after a restart the look begins anew.
//
// The feed and the results know keys only inside their blobs, so each is read
// once from its start, a window a transaction; what comes in meanwhile is read
// by the transaction that takes keys. Then nothing in warm mentions a key that
// is taken, at no time is a change without its version, and no transaction
// reads a day's feed.
type sweep struct {
	subject                    *subject
	feed, idempotency, settled int64 // read up to here
	// late are keys that turned out to be the subject's while mentions were
	// read: theirs before that are still to be looked for.
	late map[tiering.Key]struct{}
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
	w := &sweep{subject: newSubject(sel), late: map[tiering.Key]struct{}{}}
	if sel.User == "" {
		return w, nil
	}
	return w, s.reader(ctx, func(c *conn) error { return c.ownedBy(ctx, sel, w.subject) })
}

// step is what one transaction does of a sweep. The sweep itself moves only
// when the transaction is committed.
type step struct {
	*sweep
	feed, idempotency, settled int64
	met                        map[tiering.Key]struct{} // new ones of late
	keys                       []tiering.Key            // to take
}

func (w *sweep) step() *step {
	return &step{sweep: w, feed: w.feed, idempotency: w.idempotency, settled: w.settled, met: map[tiering.Key]struct{}{}}
}

// commit moves the sweep on.
func (p *step) commit() {
	w := p.sweep
	w.feed, w.idempotency, w.settled = p.feed, p.idempotency, p.settled
	for k := range p.met {
		w.late[k] = struct{}{}
	}
	for _, k := range p.keys {
		delete(w.subject.keys, k)
		delete(w.late, k)
	}
}

// mention notes a key that was found in the feed.
func (p *step) mention(k tiering.Key) {
	if _, known := p.subject.keys[k]; !known && p.subject.selector.User != "" {
		p.met[k] = struct{}{}
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
		if err := t.cleanLate(p); err != nil {
			return false, err
		}
		for _, k := range p.keys {
			if err := t.take(o, k); err != nil {
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
		{&p.feed, `SELECT (SELECT min(pos) FROM feed), (SELECT max(pos) FROM feed)`, func(after, to int64) (bool, error) { return t.cleanFeed(p.subject, after, to, p.mention) }},
		{&p.settled, `SELECT (SELECT min(seq) FROM settled), (SELECT max(seq) FROM settled)`, func(after, to int64) (bool, error) { return t.cleanSettled(p.subject, after, to) }},
		{&p.idempotency, `SELECT (SELECT min(seq) FROM idempotency), (SELECT max(seq) FROM idempotency)`, func(after, to int64) (bool, error) { return t.cleanIdempotency(p.subject, after, to) }},
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

// erasable finds up to limit keys that are to be taken.
func (t *txn) erasable(p *step, limit int) (err error) {
	sel := p.subject.selector
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
	for _, set := range []map[tiering.Key]struct{}{p.subject.keys, p.late, p.met} {
		for k := range set {
			if len(p.keys) >= limit {
				return err
			}
			add(k)
		}
	}
	return err
}

// cleanLate looks for the earlier mentions of those keys that were not known
// to be the user's when the sweep began.
func (t *txn) cleanLate(p *step) error {
	if p.subject.selector.User == "" {
		return nil
	}
	late := newSubject(warm.Selector{Tenant: p.subject.selector.Tenant})
	for _, k := range p.keys {
		if _, known := p.subject.keys[k]; !known {
			late.add(k)
		}
	}
	if len(late.keys) == 0 {
		return nil
	}
	const end = 1<<63 - 1
	if _, err := t.cleanFeed(late, 0, end, nil); err != nil {
		return err
	}
	if _, err := t.cleanSettled(late, 0, end); err != nil {
		return err
	}
	_, err := t.cleanIdempotency(late, 0, end)
	return err
}
