package sqlite

import (
	"context"
	"database/sql/driver"
	"slices"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
	"github.com/tierd/tierd/warm/internal/rules"
)

// Walk implements warm.Mover.
func (s *Store) Walk(ctx context.Context, after tiering.Key, limit int) (out []warm.Current, err error) {
	now := s.now()
	err = s.reader(ctx, func(c *conn) error {
		at := after
		for len(out) < limit {
			// The rest of the namespace that at lies in, then the next one that
			// has a key: two index seeks, however many namespaces are empty.
			err := c.each(ctx, `SELECT h.id, `+headColumns+ofKey+` WHERE n.tenant = ? AND n.name = ? AND h.id > ? ORDER BY h.id LIMIT ?`,
				append(keyArgs(at), int64(limit-len(out))), func(v []driver.Value) error {
					key := tiering.Key{Tenant: at.Tenant, Namespace: at.Namespace, ID: string(blob(v[0]))}
					out = append(out, warm.Current{Head: scanHead(key, v[1:]).head, Now: now})
					return nil
				})
			if err != nil {
				return err
			}
			row, ok, err := c.one(`SELECT tenant, name FROM namespace WHERE (tenant, name) > (?, ?)
				AND EXISTS (SELECT 1 FROM head WHERE ns = nid) ORDER BY tenant, name LIMIT 1`, at.Tenant, at.Namespace)
			if err != nil || !ok {
				return err
			}
			at = tiering.Key{Tenant: text(row[0]), Namespace: text(row[1])}
		}
		return nil
	})
	return out, err
}

// Expired implements warm.Mover.
func (s *Store) Expired(ctx context.Context, limit int) (out []tiering.Key, err error) {
	err = s.reader(ctx, func(c *conn) error {
		return c.each(ctx, `SELECT n.tenant, n.name, h.id FROM head h JOIN namespace n ON n.nid = h.ns
			WHERE h.expires > 0 AND h.flags & 1 = 0 AND h.expires <= ? ORDER BY h.expires LIMIT ?`,
			[]any{column.Micros(s.now()), int64(limit)}, func(v []driver.Value) error {
				out = append(out, tiering.Key{Tenant: text(v[0]), Namespace: text(v[1]), ID: string(blob(v[2]))})
				return nil
			})
	})
	return out, err
}

// held says that a finished segment with two verified copies holds a version:
// the only thing that lets bytes leave warm. It binds tenant, namespace, id
// and version.
const held = `EXISTS (SELECT 1 FROM location l JOIN segment g ON g.name = l.segment
	WHERE l.tenant = ? AND l.namespace = ? AND l.id = ? AND ? BETWEEN l.min_version AND l.max_version
	AND g.state = 'finished' AND g.copy0 = 'verified' AND g.copy1 = 'verified')`

// Demote implements warm.Mover.
func (s *Store) Demote(ctx context.Context, key tiering.Key, version int64, idle time.Time) (bool, error) {
	done, err := s.DemoteAll(ctx, []warm.Demotion{{Key: key, Version: version, Idle: idle}})
	return err == nil && done[0], err
}

// DemoteAll implements warm.Mover.
func (s *Store) DemoteAll(ctx context.Context, of []warm.Demotion) (done []bool, err error) {
	err = s.write(ctx, func(t *txn) error {
		done = make([]bool, len(of))
		for i, d := range of {
			e, err := t.find(d.Key)
			if err == nil && e.kid != 0 {
				done[i], err = t.demote(e, d)
			}
			if err != nil {
				return err
			}
		}
		if !slices.Contains(done, true) {
			return orRollback(nil)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

func (t *txn) demote(e entry, d warm.Demotion) (bool, error) {
	if !rules.Demotable(e.head, d, t.now) {
		return false, nil
	}
	n, err := t.number(`SELECT `+held, append(keyArgs(d.Key), d.Version)...)
	if err != nil || n == 0 {
		return false, err
	}
	if e.query {
		if _, err := t.exec(`INSERT INTO projection (kid, coding, body) SELECT kid, coding, body FROM version WHERE kid = ? AND version = ?`, e.kid, d.Version); err != nil {
			return false, err
		}
	}
	if _, err := t.exec(`DELETE FROM version WHERE kid = ? AND version = ?`, e.kid, d.Version); err != nil {
		return false, err
	}
	_, err = t.exec(`UPDATE head SET flags = flags & ~?  WHERE kid = ?`, int64(column.FlagInWarm), e.kid)
	return err == nil, err
}

// Promote implements warm.Mover.
func (s *Store) Promote(ctx context.Context, key tiering.Key, version int64, body []byte) (bool, error) {
	p, digest := s.packBody(body), tiering.DigestOf(body)
	return s.move(ctx, key, func(t *txn, e entry) (bool, error) {
		if !rules.Promotable(e.head, version, digest, t.now) {
			return false, nil
		}
		n, err := t.number(`SELECT EXISTS (SELECT 1 FROM location l JOIN segment g ON g.name = l.segment WHERE l.tenant = ? AND l.namespace = ? AND l.id = ?
			AND ? BETWEEN l.min_version AND l.max_version AND g.state = 'finished')`, append(keyArgs(key), version)...)
		if err != nil || n == 0 {
			return false, err
		}
		if err := t.insertVersion(e, p); err != nil {
			return false, err
		}
		if _, err := t.exec(`DELETE FROM projection WHERE kid = ?`, e.kid); err != nil {
			return false, err
		}
		_, err = t.exec(`UPDATE head SET flags = flags | ? WHERE kid = ?`, int64(column.FlagInWarm), e.kid)
		return err == nil, err
	})
}

// move runs one guarded step on the head of key.
func (s *Store) move(ctx context.Context, key tiering.Key, step func(*txn, entry) (bool, error)) (moved bool, err error) {
	err = s.write(ctx, func(t *txn) error {
		e, err := t.find(key)
		if err != nil || e.kid == 0 {
			return orRollback(err)
		}
		if moved, err = step(t, e); err != nil || !moved {
			return orRollback(err)
		}
		return nil
	})
	return moved && err == nil, err
}

// find is entry for a key whose namespace may not exist.
func (t *txn) find(key tiering.Key) (entry, error) {
	ns, err := t.namespace(key.Tenant, key.Namespace)
	if err != nil || ns.nid == 0 {
		return entry{}, err
	}
	return t.entry(ns, key)
}

// Retire implements warm.Mover. A tombstone's own version counts as
// superseded: nothing stands at it.
func (s *Store) Retire(ctx context.Context, key tiering.Key, versions []int64) (retired int, err error) {
	err = s.write(ctx, func(t *txn) error {
		e, err := t.find(key)
		if err != nil || e.kid == 0 {
			return orRollback(err)
		}
		for _, v := range versions {
			if v == e.head.Version && !e.head.Op.Deleting() {
				continue
			}
			n, err := t.exec(`DELETE FROM version WHERE kid = ? AND version = ? AND `+held, append([]any{e.kid, v}, append(keyArgs(key), v)...)...)
			if err != nil {
				return err
			}
			retired += int(n)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return retired, nil
}

// NoteAccess implements warm.Mover.
func (s *Store) NoteAccess(ctx context.Context, reads []warm.Access) error {
	if len(reads) == 0 {
		return ctx.Err()
	}
	return s.write(ctx, func(t *txn) error {
		for _, r := range reads {
			ns, err := t.namespace(r.Key.Tenant, r.Key.Namespace)
			if err != nil {
				return err
			}
			at := column.Micros(r.At)
			if _, err := t.exec(`UPDATE head SET accessed = ? WHERE ns = ? AND id = ? AND accessed < ?`, at, ns.nid, []byte(r.Key.ID), at); err != nil {
				return err
			}
		}
		return nil
	})
}
