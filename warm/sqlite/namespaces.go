package sqlite

import (
	"context"
	"database/sql/driver"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
	"github.com/tierd/tierd/warm/internal/rules"
)

type nsKey struct{ tenant, name string }

// namespace is a row of the table of that name.
type namespace struct {
	nid int64 // 0: no row yet
	rules.Namespace
}

// namespace returns the row from memory: only the writer changes it, and
// forgets what it knows when a transaction is rolled back.
func (t *txn) namespace(tenant, name string) (*namespace, error) {
	key := nsKey{tenant, name}
	if n, ok := t.namespaces[key]; ok {
		return n, nil
	}
	n := &namespace{Namespace: rules.Namespace{Namespace: warm.Namespace{Tenant: tenant, Name: name, Floor: t.floor}}}
	err := t.each(context.Background(), `SELECT nid, kind, class, floor, known, deleted, written FROM namespace WHERE tenant = ? AND name = ?`,
		[]any{tenant, name}, func(v []driver.Value) error {
			n.nid, n.Kind, n.Class, n.Floor = num(v[0]), tiering.Kind(text(v[1])), tiering.Class(text(v[2])), num(v[3])
			n.Known, n.Deleted, n.Written = num(v[4]) == 1, num(v[5]) == 1, num(v[6]) == 1
			return nil
		})
	if err != nil {
		return nil, err
	}
	// Names that do not exist are not kept: callers can make up any number.
	if n.nid != 0 {
		t.namespaces[key] = n
	}
	return n, nil
}

// store writes the row, after it was changed in memory.
func (t *txn) store(n *namespace) (err error) {
	t.stored = true
	bit := func(b bool) int64 {
		if b {
			return 1
		}
		return 0
	}
	if n.nid == 0 {
		n.nid, err = t.insert(`INSERT INTO namespace (tenant, name, kind, class, floor, known, deleted, written) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			n.Tenant, n.Name, string(n.Kind), string(n.Class), n.Floor, bit(n.Known), bit(n.Deleted), bit(n.Written))
		t.namespaces[nsKey{n.Tenant, n.Name}] = n
		return err
	}
	_, err = t.exec(`UPDATE namespace SET kind = ?, class = ?, floor = ?, known = ?, deleted = ?, written = ? WHERE nid = ?`,
		string(n.Kind), string(n.Class), n.Floor, bit(n.Known), bit(n.Deleted), bit(n.Written), n.nid)
	return err
}

// firstKey notes that a key is written, which fixes kind and class.
func (t *txn) firstKey(n *namespace) error {
	if n.Written {
		return nil
	}
	n.Written = true
	return t.store(n)
}

// EnsureNamespace implements warm.Namespaces. n.Floor counts for a new row.
func (s *Store) EnsureNamespace(ctx context.Context, n warm.Namespace) (out warm.Namespace, err error) {
	err = s.write(ctx, func(t *txn) error {
		row, err := t.namespace(n.Tenant, n.Name)
		if err != nil {
			return err
		}
		before := *row
		out = row.Ensure(n)
		if *row == before {
			return errRollback
		}
		return t.store(row)
	})
	return out, err
}

// FixNamespace implements warm.Namespaces.
func (s *Store) FixNamespace(ctx context.Context, n warm.Namespace) (fixed bool, err error) {
	err = s.write(ctx, func(t *txn) error {
		row, err := t.namespace(n.Tenant, n.Name)
		if err != nil {
			return err
		}
		fixed = row.Is(n)
		if !fixed || row.Written {
			return errRollback
		}
		return t.firstKey(row)
	})
	return fixed && err == nil, err
}

// DropNamespace implements warm.Namespaces. One that never was counts as
// dropped.
func (s *Store) DropNamespace(ctx context.Context, tenant, name string) (dropped bool, err error) {
	err = s.write(ctx, func(t *txn) error {
		row, err := t.namespace(tenant, name)
		if err != nil {
			return err
		}
		if row.nid == 0 || row.Deleted {
			dropped = true
			return errRollback
		}
		n, err := t.number(`SELECT EXISTS (SELECT 1 FROM head WHERE ns = ? AND op = 1 AND (expires = 0 OR expires > ? OR flags & 1 = 1))`,
			row.nid, column.Micros(t.now))
		if err != nil || n > 0 {
			return orRollback(err)
		}
		dropped, row.Deleted = true, true
		if row.Kind == tiering.KindMemory {
			if err := t.dropMemories(row.nid); err != nil {
				return err
			}
		}
		return t.store(row)
	})
	return dropped && err == nil, err
}

// RaiseFloor implements warm.Namespaces.
func (s *Store) RaiseFloor(ctx context.Context, tenant, name string, floor int64) error {
	return s.write(ctx, func(t *txn) error {
		row, err := t.namespace(tenant, name)
		if err != nil {
			return err
		}
		return t.raise(row, floor)
	})
}

func (t *txn) raise(row *namespace, floor int64) error {
	if row.nid != 0 && row.Floor >= floor {
		return nil
	}
	row.Floor = max(row.Floor, floor)
	return t.store(row)
}

// PurgeTombstones implements warm.Namespaces. The floor and the tombstones go
// in one transaction: with one writer nobody can read the one without the
// other.
func (s *Store) PurgeTombstones(ctx context.Context, tenant, name string, before time.Time, limit int) (purged int, err error) {
	err = s.write(ctx, func(t *txn) error {
		row, err := t.namespace(tenant, name)
		if err != nil || row.nid == 0 {
			return orRollback(err)
		}
		var kids []int64
		floor := row.Floor
		err = t.each(context.Background(), `SELECT h.kid, h.version FROM head h WHERE h.ns = ? AND h.op > 1 AND h.updated < ?
			AND NOT EXISTS (SELECT 1 FROM version v WHERE v.kid = h.kid)
			AND NOT EXISTS (SELECT 1 FROM location l WHERE l.tenant = ? AND l.namespace = ? AND l.id = h.id)
			ORDER BY h.updated LIMIT ?`, []any{row.nid, column.Micros(before), tenant, name, int64(limit)},
			func(v []driver.Value) error {
				kids = append(kids, num(v[0]))
				floor = max(floor, num(v[1]))
				return nil
			})
		if err != nil || len(kids) == 0 {
			return orRollback(err)
		}
		if err := t.raise(row, floor); err != nil {
			return err
		}
		for _, kid := range kids {
			if _, err := t.exec(`DELETE FROM head WHERE kid = ?`, kid); err != nil {
				return err
			}
		}
		purged = len(kids)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return purged, nil
}
