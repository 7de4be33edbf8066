package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
	"github.com/tierd/tierd/warm/internal/rules"
)

// lockSpace is the other side of lockSpaces: nobody commits to the namespace
// until the transaction ends. Number 0 stands for namespaces that have no row.
const lockSpace = `SELECT pg_advisory_xact_lock($1::int, $2::int)`

// ownSpace finds a namespace and locks it; nil when it has no row.
func (t *txn) ownSpace(tenant, name string) (*space, error) {
	nid, err := t.number(`SELECT nid FROM namespace WHERE tenant = $1 AND name = $2`, tenant, name)
	if err != nil || nid == 0 {
		return nil, err
	}
	if _, err := t.exec(lockSpace, t.s.lockClass, nid); err != nil {
		return nil, err
	}
	var out *space
	err = t.each(readSpaces, []any{[]int32{int32(nid)}}, func(row pgx.Rows) (err error) {
		out, err = scanSpace(row)
		return err
	})
	return out, err
}

// newSpace makes the row of a namespace that has none, and locks it.
func (t *txn) newSpace(n rules.Namespace) (*space, error) {
	if _, err := t.exec(lockSpace, t.s.lockClass, 0); err != nil {
		return nil, err
	}
	if _, err := t.exec(insertSpace, n.Tenant, n.Name, string(n.Kind), string(n.Class), n.Floor, n.Known, n.Deleted, n.Written); err != nil {
		return nil, err
	}
	return t.ownSpace(n.Tenant, n.Name)
}

func (t *txn) storeSpace(n *space) error {
	_, err := t.exec(`UPDATE namespace SET kind = $2, class = $3, floor = $4, known = $5, deleted = $6, written = $7 WHERE nid = $1`,
		n.nid, string(n.Kind), string(n.Class), n.Floor, n.Known, n.Deleted, n.Written)
	return err
}

// EnsureNamespace implements warm.Namespaces. n.Floor counts for a new row.
func (s *Store) EnsureNamespace(ctx context.Context, n warm.Namespace) (out warm.Namespace, err error) {
	err = s.write(ctx, func(t *txn) error {
		row, err := t.ownSpace(n.Tenant, n.Name)
		if err == nil && row == nil {
			row, err = t.newSpace(rules.Namespace{Namespace: n, Known: true})
		}
		if err != nil {
			return err
		}
		before := *row
		out = row.Ensure(n)
		if *row == before {
			return nil
		}
		return t.storeSpace(row)
	})
	return out, err
}

// FixNamespace implements warm.Namespaces.
func (s *Store) FixNamespace(ctx context.Context, n warm.Namespace) (fixed bool, err error) {
	err = s.write(ctx, func(t *txn) error {
		fixed = false
		row, err := t.ownSpace(n.Tenant, n.Name)
		if err != nil {
			return err
		}
		fixed = row != nil && row.Is(n)
		if !fixed || row.Written {
			return errRollback
		}
		row.Written = true
		return t.storeSpace(row)
	})
	return fixed && err == nil, err
}

// DropNamespace implements warm.Namespaces. One that never was counts as
// dropped.
func (s *Store) DropNamespace(ctx context.Context, tenant, name string) (dropped bool, err error) {
	err = s.write(ctx, func(t *txn) error {
		dropped = false
		row, err := t.ownSpace(tenant, name)
		if err != nil {
			return err
		}
		if row == nil || row.Deleted {
			dropped = true
			return errRollback
		}
		alive, err := t.yes(`SELECT EXISTS (SELECT 1 FROM head WHERE nid = $1 AND op = 1 AND (expires = 0 OR expires > $2 OR flags & 1 = 1))`, row.nid, column.Micros(t.now))
		if err != nil || alive {
			return orRollback(err)
		}
		if row.Kind == tiering.KindMemory {
			if err := t.dropMemoriesOf(row.nid); err != nil {
				return err
			}
		}
		dropped, row.Deleted = true, true
		return t.storeSpace(row)
	})
	return dropped && err == nil, err
}

// RaiseFloor implements warm.Namespaces.
func (s *Store) RaiseFloor(ctx context.Context, tenant, name string, floor int64) error {
	return s.write(ctx, func(t *txn) error { return t.raise(tenant, name, floor) })
}

// raise lifts a floor, also of a namespace that has no row yet.
func (t *txn) raise(tenant, name string, floor int64) error {
	row, err := t.ownSpace(tenant, name)
	if err == nil && row == nil {
		row, err = t.newSpace(rules.Namespace{Namespace: warm.Namespace{Tenant: tenant, Name: name, Floor: floor}})
	}
	if err != nil || row.Floor >= floor {
		return err
	}
	row.Floor = floor
	return t.storeSpace(row)
}

// PurgeTombstones implements warm.Namespaces. Floor and tombstones go in one
// transaction under the namespace's lock: no commit reads the one without the
// other, and every commit that read an older floor has ended.
func (s *Store) PurgeTombstones(ctx context.Context, tenant, name string, before time.Time, limit int) (purged int, err error) {
	err = s.write(ctx, func(t *txn) error {
		purged = 0
		row, err := t.ownSpace(tenant, name)
		if err != nil || row == nil {
			return orRollback(err)
		}
		// Rows whose key was made again, or is gone, have done their part.
		if _, err := t.exec(`DELETE FROM tombstone t USING (SELECT nid, at, kid FROM tombstone WHERE nid = $1 AND at < $2 ORDER BY at LIMIT $3) o
			WHERE t.nid = o.nid AND t.at = o.at AND t.kid = o.kid AND NOT EXISTS (SELECT 1 FROM head h WHERE h.kid = o.kid AND h.op > 1 AND h.updated = o.at)`,
			row.nid, column.Micros(before), trimStep); err != nil {
			return err
		}
		var kids []int64
		floor := row.Floor
		err = t.each(`SELECT h.kid, h.version FROM tombstone o JOIN head h ON h.kid = o.kid AND h.op > 1 AND h.updated = o.at WHERE o.nid = $1 AND o.at < $2
			AND NOT EXISTS (SELECT 1 FROM version v WHERE v.kid = h.kid)
			AND NOT EXISTS (SELECT 1 FROM location l WHERE l.tenant = $3 AND l.namespace = $4 AND l.id = h.id) ORDER BY o.at LIMIT $5`,
			[]any{row.nid, column.Micros(before), tenant, name, limit}, func(r pgx.Rows) error {
				var kid, version int64
				err := r.Scan(&kid, &version)
				kids, floor = append(kids, kid), max(floor, version)
				return err
			})
		if err != nil {
			return err
		}
		if len(kids) == 0 {
			return nil
		}
		purged = len(kids)
		raise := func() error { return t.raise(tenant, name, floor) }
		remove := func() error { return t.removeTombstones(row.nid, before, kids) }
		if s.seams.purge != nil {
			return s.seams.purge(t, raise, remove)
		}
		if err := raise(); err != nil {
			return err
		}
		return remove()
	})
	if err != nil {
		return 0, err
	}
	return purged, nil
}

func (t *txn) removeTombstones(nid int32, before time.Time, kids []int64) error {
	for _, q := range []string{`DELETE FROM head WHERE kid = ANY($1::bigint[])`, `DELETE FROM projection WHERE kid = ANY($1::bigint[])`} {
		if _, err := t.exec(q, kids); err != nil {
			return err
		}
	}
	_, err := t.exec(`DELETE FROM tombstone WHERE nid = $1 AND at < $2 AND kid = ANY($3::bigint[])`, nid, column.Micros(before), kids)
	return err
}
