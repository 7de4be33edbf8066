package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

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
		phase := phaseClean
		if sel.User != "" {
			phase = phaseOwned
		}
		seq, err := t.number(`INSERT INTO erasure (receipt, tenant, namespace, id, prefix, owner, started, phase) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING seq`,
			e.ID, sel.Tenant, sel.Namespace, []byte(sel.ID), []byte(sel.Prefix), sel.User, column.Micros(started), phase)
		if violates(err, "erasure_receipt_key") {
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
	if err := t.lockFence(true); err != nil {
		return err
	}
	_, err := t.exec(`WITH f AS (INSERT INTO meta AS m (name, number) VALUES ('erase_fence', 1) ON CONFLICT (name) DO UPDATE SET number = m.number + 1 RETURNING number)
		UPDATE erasure SET fence = f.number FROM f WHERE seq = $1`, seq)
	return err
}

// order is an erasure with its row's number, and how far it has come in
// looking for mentions of its subject.
type order struct {
	seq int64
	warm.Erasure
	phase             int16
	batches, requests int64
}

const orderColumns = `e.seq, e.receipt, e.tenant, e.namespace, e.id, e.prefix, e.owner, e.started, e.pos, e.keys, e.versions, e.bytes, e.done, e.phase, e.batches, e.requests,
	ARRAY(SELECT segment FROM erasure_segment WHERE erasure = e.seq ORDER BY segment)`

// orders returns the orders that where selects, oldest first.
func orders(ctx context.Context, q querier, where string, args ...any) (out []order, err error) {
	err = each(ctx, q, `SELECT `+orderColumns+` FROM erasure e WHERE `+where, args, func(row pgx.Rows) error {
		var o order
		var id, prefix []byte
		var started, done int64
		sel := &o.Selector
		err := row.Scan(&o.seq, &o.ID, &sel.Tenant, &sel.Namespace, &id, &prefix, &sel.User, &started, &o.Pos, &o.Keys, &o.Versions, &o.Bytes, &done,
			&o.phase, &o.batches, &o.requests, &o.Segments)
		sel.ID, sel.Prefix, o.Started, o.Done = string(id), string(prefix), column.Time(started), column.Time(done)
		if len(o.Segments) == 0 {
			o.Segments = nil
		}
		out = append(out, o)
		return err
	})
	return out, err
}

// ownOrder locks the order with that receipt: its steps come one after the
// other.
func (t *txn) ownOrder(id string) (order, error) {
	if _, err := t.exec(`SELECT 1 FROM erasure WHERE receipt = $1 FOR UPDATE`, id); err != nil {
		return order{}, err
	}
	found, err := orders(t.ctx, t.conn, `e.receipt = $1`, id)
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
	err = s.read(ctx, func(q querier) error {
		found, err := orders(ctx, q, `e.receipt = $1`, id)
		if len(found) > 0 {
			e, ok = found[0].Erasure, true
		}
		return err
	})
	return e, ok && err == nil, err
}

// Erasures implements warm.Eraser.
func (s *Store) Erasures(ctx context.Context) (out []warm.Erasure, err error) {
	err = s.read(ctx, func(q querier) error {
		out = nil
		found, err := orders(ctx, q, `e.done = 0 ORDER BY e.seq`)
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
		o, err := t.ownOrder(id)
		if err != nil {
			return err
		}
		_, err = t.exec(`DELETE FROM erasure_segment WHERE erasure = $1 AND segment = $2`, o.seq, segment)
		return err
	})
}

// FinishErase implements warm.Eraser.
func (s *Store) FinishErase(ctx context.Context, id string) (e warm.Erasure, err error) {
	err = s.write(ctx, func(t *txn) error {
		o, err := t.ownOrder(id)
		if err != nil {
			return err
		}
		e = o.Erasure
		if finished, err := rules.FinishErase(&e, t.now); !finished {
			return orRollback(err)
		}
		if _, err := t.exec(`DELETE FROM erasure_key WHERE erasure = $1`, o.seq); err != nil {
			return err
		}
		_, err = t.exec(`UPDATE erasure SET done = $1, namespace = '', id = '', prefix = '', owner = '' WHERE seq = $2`, column.Micros(e.Done), o.seq)
		return err
	})
	if err != nil {
		return warm.Erasure{}, err
	}
	return e, nil
}

// CountErase implements warm.Eraser.
func (s *Store) CountErase(ctx context.Context, sel warm.Selector) (e warm.Erasure, err error) {
	if err := sel.Check(); err != nil {
		return e, err
	}
	err = s.read(ctx, func(q querier) error {
		var all rules.Tally
		err := eachSelected(ctx, q, sel, func(key tiering.Key) error {
			f, err := readFootprint(ctx, q, sel, key)
			all.Add(f)
			return err
		})
		e = all.Erasure(sel)
		return err
	})
	return e, err
}

// Scrub implements warm.Eraser: it lets PostgreSQL reclaim the rows that were
// deleted, and sample anew what it plans by: the samples hold values of rows, also of
// rows that are gone. What is left in free space on its pages, in its write-ahead log
// and in its backups is out of a client's reach, as is the last sample of a table that
// has no row any more.
func (s *Store) Scrub(ctx context.Context) error {
	return s.leisurely(ctx, func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, `VACUUM (ANALYZE) head, version, projection, tombstone, batch, request, location, erasure, erasure_key,
			memory, memory_link, memory_fresh, memory_vector, memory_dormant, memory_delta, memory_frequency`)
		return err
	})
}
