package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm/internal/column"
)

// lockFence keeps erasures from taking a step until the transaction ends, or,
// own set, segments from being started or finished.
func (t *txn) lockFence(own bool) error {
	_, err := t.exec(pick(own, `SELECT pg_advisory_xact_lock($1::int, -1)`, `SELECT pg_advisory_xact_lock_shared($1::int, -1)`), t.s.lockClass)
	return err
}

// unfenced fails when a step of an erasure of the tenant came after the
// segment was started: what its writer read may hold what is gone by now. The
// steps are counted, because clocks can be set.
func (t *txn) unfenced(name string) error {
	late, err := t.yes(`SELECT EXISTS (SELECT 1 FROM segment g JOIN erasure e ON e.tenant = g.tenant AND e.fence > g.fence WHERE g.name = $1)`, name)
	if err == nil && late {
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
	return s.write(ctx, func(t *txn) error {
		if err := t.finish(f); err != nil {
			return err
		}
		for _, name := range old {
			n, err := t.exec(`UPDATE segment SET state = 'deleting', deleting = $1 WHERE name = $2 AND state = 'finished' AND name <> $3`, column.Micros(t.now), name, info.Name)
			if err != nil {
				return err
			}
			if n == 0 {
				return tiering.Errorf(tiering.CodeFenced, "segment %s is not finished: it was merged or dropped before", name)
			}
			if _, err := t.exec(`DELETE FROM location WHERE segment = $1`, name); err != nil {
				return err
			}
		}
		return nil
	})
}

// ForgetSegment implements warm.Merger. A segment without a row counts as
// forgotten; one that is not deleting fails.
func (s *Store) ForgetSegment(ctx context.Context, name string) error {
	return s.write(ctx, func(t *txn) error {
		if err := t.fenced(); err != nil {
			return err
		}
		n, err := t.exec(`DELETE FROM segment WHERE name = $1 AND state = 'deleting'`, name)
		if err != nil || n > 0 {
			return err
		}
		var state string
		err = t.each(`SELECT state FROM segment WHERE name = $1`, []any{name}, func(row pgx.Rows) error { return row.Scan(&state) })
		if err == nil && state != "" {
			err = tiering.Errorf(tiering.CodeWrongKind, "segment %s is %s: only one that is deleting is forgotten", name, state)
		}
		return err
	})
}

// DropSegment implements warm.Merger. One that is not finished is left alone.
// Locations are added by the transaction that makes it finished alone.
func (s *Store) DropSegment(ctx context.Context, name string) (bool, error) {
	n, err := s.change(ctx, `UPDATE segment SET state = 'deleting', deleting = `+nowFrom+` WHERE name = $2 AND state = 'finished'
		AND NOT EXISTS (SELECT 1 FROM location WHERE segment = $2)`, s.fixedNow(), name)
	return n > 0, err
}

// DropIntent implements warm.Merger.
func (s *Store) DropIntent(ctx context.Context, name string) (bool, error) {
	n, err := s.change(ctx, `UPDATE segment SET state = 'deleting', deleting = `+nowFrom+` WHERE name = $2 AND state = 'started'`, s.fixedNow(), name)
	return n > 0, err
}

// KeysIn implements warm.Merger.
func (s *Store) KeysIn(ctx context.Context, segment string, after tiering.Key, limit int) (out []tiering.Key, err error) {
	err = s.read(ctx, func(q querier) error {
		out = nil
		return each(ctx, q, `SELECT tenant, namespace, id FROM location WHERE segment = $1 AND (tenant, namespace, id) > ($2, $3, $4)
			ORDER BY tenant, namespace, id LIMIT $5`, []any{segment, after.Tenant, after.Namespace, []byte(after.ID), limit}, func(row pgx.Rows) error {
			k, err := scanKey(row)
			out = append(out, k)
			return err
		})
	})
	return out, err
}

func scanKey(row pgx.Rows) (k tiering.Key, err error) {
	var id []byte
	err = row.Scan(&k.Tenant, &k.Namespace, &id)
	k.ID = string(id)
	return k, err
}
