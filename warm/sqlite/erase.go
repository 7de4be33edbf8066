package sqlite

import (
	"context"
	"database/sql/driver"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
	"github.com/tierd/tierd/warm/internal/rules"
)

// StartErase implements warm.Eraser. Of e it keeps the id, the selector and
// the time; a receipt that is known fails.
func (s *Store) StartErase(ctx context.Context, e warm.Erasure) error {
	if err := e.Selector.Check(); err != nil {
		return err
	}
	return s.write(ctx, func(t *txn) error {
		started := e.Started
		if started.IsZero() {
			started = t.now
		}
		sel := e.Selector
		seq, err := t.insert(`INSERT INTO erasure (receipt, tenant, namespace, id, prefix, user, started, pos, keys, versions, bytes, done, fence)
			VALUES (?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 0, 0, 0)`, e.ID, sel.Tenant, sel.Namespace, []byte(sel.ID), []byte(sel.Prefix), sel.User, column.Micros(started))
		if resultCode(err) == codeConstraint {
			return tiering.Errorf(tiering.CodeVersionConflict, "the erase order %s was begun before", e.ID)
		}
		if err != nil {
			return err
		}
		return t.fence(seq)
	})
}

// fence keeps every segment of the order's tenant that is started now from
// ever being finished.
func (t *txn) fence(seq int64) error {
	if _, err := t.exec(`INSERT INTO meta (name, value) VALUES ('erase_fence', 1) ON CONFLICT (name) DO UPDATE SET value = value + 1`); err != nil {
		return err
	}
	_, err := t.exec(`UPDATE erasure SET fence = (SELECT value FROM meta WHERE name = 'erase_fence') WHERE seq = ?`, seq)
	return err
}

// order is an erasure with its row's number.
type order struct {
	seq int64
	warm.Erasure
}

const orderColumns = `seq, receipt, tenant, namespace, id, prefix, user, started, pos, keys, versions, bytes, done`

// orders returns the orders that where selects, oldest first.
func (c *conn) orders(ctx context.Context, where string, args ...any) (out []order, err error) {
	err = c.each(ctx, `SELECT `+orderColumns+` FROM erasure WHERE `+where+` ORDER BY seq`, args, func(v []driver.Value) error {
		o := order{seq: num(v[0]), Erasure: warm.Erasure{
			ID:       text(v[1]),
			Selector: warm.Selector{Tenant: text(v[2]), Namespace: text(v[3]), ID: string(blob(v[4])), Prefix: string(blob(v[5])), User: text(v[6])},
			Started:  column.Time(num(v[7])), Pos: num(v[8]), Keys: num(v[9]), Versions: num(v[10]), Bytes: num(v[11]), Done: column.Time(num(v[12])),
		}}
		// The open statement keeps the list in the same snapshot.
		err := c.each(ctx, `SELECT segment FROM erasure_segment WHERE erasure = ? ORDER BY segment`, []any{o.seq}, func(v []driver.Value) error {
			o.Segments = append(o.Segments, text(v[0]))
			return nil
		})
		out = append(out, o)
		return err
	})
	return out, err
}

// order returns the order with that receipt.
func (t *txn) order(id string) (order, error) {
	found, err := t.orders(context.Background(), `receipt = ?`, id)
	if err != nil {
		return order{}, err
	}
	if len(found) == 0 {
		return order{}, tiering.Errorf(tiering.CodeNotFound, "there is no erase order %s", id)
	}
	return found[0], nil
}

// Erasure implements warm.Eraser.
func (s *Store) Erasure(ctx context.Context, id string) (e warm.Erasure, ok bool, err error) {
	err = s.reader(ctx, func(c *conn) error {
		found, err := c.orders(ctx, `receipt = ?`, id)
		if len(found) > 0 {
			e, ok = found[0].Erasure, true
		}
		return err
	})
	return e, ok && err == nil, err
}

// Erasures implements warm.Eraser.
func (s *Store) Erasures(ctx context.Context) (out []warm.Erasure, err error) {
	err = s.reader(ctx, func(c *conn) error {
		found, err := c.orders(ctx, `done = 0`)
		for _, o := range found {
			out = append(out, o.Erasure)
		}
		return err
	})
	return out, err
}

// CleanSegment implements warm.Eraser.
func (s *Store) CleanSegment(ctx context.Context, id, segment string) error {
	return s.write(ctx, func(t *txn) error {
		o, err := t.order(id)
		if err != nil {
			return err
		}
		_, err = t.exec(`DELETE FROM erasure_segment WHERE erasure = ? AND segment = ?`, o.seq, segment)
		return err
	})
}

// FinishErase implements warm.Eraser. The log is written back afterwards: it
// would keep the selector. A second call does that again.
func (s *Store) FinishErase(ctx context.Context, id string) (e warm.Erasure, err error) {
	err = s.write(ctx, func(t *txn) error {
		o, err := t.order(id)
		if err != nil {
			return err
		}
		e = o.Erasure
		if finished, err := rules.FinishErase(&e, t.now); !finished {
			return orRollback(err)
		}
		_, err = t.exec(`UPDATE erasure SET done = ?, namespace = '', id = x'', prefix = x'', user = '' WHERE seq = ?`, column.Micros(e.Done), o.seq)
		t.committed = func() { delete(t.sweeps, id) }
		return err
	})
	if err != nil {
		return warm.Erasure{}, err
	}
	return e, s.truncateLog(ctx)
}
