package sqlite

import (
	"context"
	"database/sql/driver"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm/internal/column"
)

// unfenced fails when a step of an erasure of the tenant came after the
// segment was started: what its writer read may hold what is gone by now. The
// steps are counted, because clocks can be set.
func (t *txn) unfenced(name string) error {
	n, err := t.number(`SELECT EXISTS (SELECT 1 FROM segment g JOIN erasure e ON e.tenant = g.tenant AND e.fence > g.fence WHERE g.name = ?)`, name)
	if err == nil && n > 0 {
		err = tiering.Errorf(tiering.CodeFenced, "segment %s was started before an erasure of its tenant: abandon it and read again", name)
	}
	return err
}

// ReplaceSegments implements warm.Merger.
func (s *Store) ReplaceSegments(ctx context.Context, info tiering.SegmentInfo, locations []tiering.Location, old []string) error {
	f, err := newFinish(info, locations)
	if err != nil {
		return err
	}
	return s.change(ctx, func(t *txn) error {
		if err := t.finish(f); err != nil {
			return err
		}
		for _, name := range old {
			n, err := t.exec(`UPDATE segment SET state = 'deleting', deleting = ? WHERE name = ? AND state = 'finished' AND name <> ?`, column.Micros(t.now), name, info.Name)
			if err != nil {
				return err
			}
			if n == 0 {
				return tiering.Errorf(tiering.CodeFenced, "segment %s is not finished: it was merged or dropped before", name)
			}
			if _, err := t.exec(`DELETE FROM location WHERE segment = ?`, name); err != nil {
				return err
			}
		}
		return nil
	})
}

// ForgetSegment implements warm.Merger. A segment without a row counts as
// forgotten; one that is not deleting fails.
func (s *Store) ForgetSegment(ctx context.Context, name string) error {
	return s.change(ctx, func(t *txn) error {
		row, ok, err := t.one(`SELECT state FROM segment WHERE name = ?`, name)
		if err != nil || !ok {
			return orRollback(err)
		}
		if state := tiering.SegmentState(text(row[0])); state != tiering.SegmentDeleting {
			return tiering.Errorf(tiering.CodeWrongKind, "segment %s is %s: only one that is deleting is forgotten", name, state)
		}
		_, err = t.exec(`DELETE FROM segment WHERE name = ?`, name)
		return err
	})
}

// DropSegment implements warm.Merger. One that is not finished is left alone.
func (s *Store) DropSegment(ctx context.Context, name string) (dropped bool, err error) {
	err = s.change(ctx, func(t *txn) error {
		n, err := t.exec(`UPDATE segment SET state = 'deleting', deleting = ?2 WHERE name = ?1 AND state = 'finished'
			AND NOT EXISTS (SELECT 1 FROM location WHERE segment = ?1)`, name, column.Micros(t.now))
		dropped = n > 0
		if !dropped {
			return orRollback(err)
		}
		return err
	})
	return dropped && err == nil, err
}

// keysIn is the statement of KeysIn: the index on segment holds the rest of
// the primary key behind it.
const keysIn = `SELECT tenant, namespace, id FROM location WHERE segment = ? AND (tenant, namespace, id) > (?, ?, ?)
	ORDER BY tenant, namespace, id LIMIT ?`

// KeysIn implements warm.Merger.
func (s *Store) KeysIn(ctx context.Context, segment string, after tiering.Key, limit int) (out []tiering.Key, err error) {
	err = s.reader(ctx, func(c *conn) error {
		return c.each(ctx, keysIn, []any{segment, after.Tenant, after.Namespace, []byte(after.ID), int64(limit)}, func(v []driver.Value) error {
			out = append(out, tiering.Key{Tenant: text(v[0]), Namespace: text(v[1]), ID: string(blob(v[2]))})
			return nil
		})
	})
	return out, err
}
