package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
	"github.com/tierd/tierd/warm/internal/rules"
)

var walkHeads = `SELECT ` + nowFrom + `, h.id, ` + headColumns + ` FROM head h WHERE ` + inSpace("$2", "$3") + ` AND h.id > $4 ORDER BY h.id LIMIT $5`

// Walk implements warm.Mover.
func (s *Store) Walk(ctx context.Context, after tiering.Key, limit int) (out []warm.Current, err error) {
	err = s.read(ctx, func(q querier) error {
		out = nil
		at := after
		for len(out) < limit {
			// The rest of the namespace that at lies in, then the next one that
			// has a key: two index seeks, however many namespaces are empty.
			err := each(ctx, q, walkHeads, s.keyArgs(at, limit-len(out)), func(row pgx.Rows) error {
				var now int64
				var id []byte
				var h headRow
				err := row.Scan(append([]any{&now, &id}, h.into()...)...)
				key := tiering.Key{Tenant: at.Tenant, Namespace: at.Namespace, ID: string(id)}
				out = append(out, warm.Current{Head: h.entry(key).head, Now: column.Time(now)})
				return err
			})
			if err != nil {
				return err
			}
			var next tiering.Key
			err = q.QueryRow(ctx, `SELECT tenant, name FROM namespace n WHERE (tenant, name) > ($1, $2)
				AND EXISTS (SELECT 1 FROM head h WHERE h.nid = n.nid AND h.version > 0) ORDER BY tenant, name LIMIT 1`, at.Tenant, at.Namespace).Scan(&next.Tenant, &next.Namespace)
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			if err != nil {
				return err
			}
			at = next
		}
		return nil
	})
	return out, err
}

// Expired implements warm.Mover. The index is on due, which may lie before the
// expiry: heads of that kind are set right on the way, so that the next look
// does not meet them.
func (s *Store) Expired(ctx context.Context, limit int) (out []tiering.Key, err error) {
	for {
		var early []int64
		var early0 []int64
		err = s.read(ctx, func(q querier) error {
			out, early, early0 = nil, nil, nil
			return each(ctx, q, `SELECT n.tenant, n.name, h.id, h.kid, h.due, h.due = h.expires AND h.op = 1 AND h.flags & 1 = 0 FROM head h JOIN namespace n ON n.nid = h.nid
				WHERE h.due <= `+nowFrom+` ORDER BY h.due LIMIT $2`, []any{s.fixedNow(), limit}, func(row pgx.Rows) error {
				var k tiering.Key
				var id []byte
				var kid, due int64
				var right bool
				err := row.Scan(&k.Tenant, &k.Namespace, &id, &kid, &due, &right)
				k.ID = string(id)
				if right {
					out = append(out, k)
				} else {
					early, early0 = append(early, kid), append(early0, due)
				}
				return err
			})
		})
		if err != nil || len(early) == 0 {
			return out, err
		}
		if _, err := s.exec(ctx, `UPDATE head h SET due = CASE WHEN h.op = 1 AND h.flags & 1 = 0 THEN nullif(h.expires, 0) END
			FROM unnest($1::bigint[], $2::bigint[]) t(kid, due) WHERE h.kid = t.kid AND h.due = t.due`, early, early0); err != nil {
			return nil, err
		}
	}
}

// Promote implements warm.Mover.
func (s *Store) Promote(ctx context.Context, key tiering.Key, version int64, body []byte) (bool, error) {
	p, digest := s.pack(body), tiering.DigestOf(body)
	return s.move(ctx, key, func(t *txn, e entry) (bool, error) {
		if !rules.Promotable(e.head, version, digest, t.now) {
			return false, nil
		}
		ok, err := t.yes(`SELECT EXISTS (SELECT 1 FROM location l JOIN segment g ON g.name = l.segment WHERE l.tenant = $1 AND l.namespace = $2 AND l.id = $3
			AND $4::bigint BETWEEN l.min_version AND l.max_version AND g.state = 'finished')`, key.Tenant, key.Namespace, []byte(key.ID), version)
		if err != nil || !ok {
			return false, err
		}
		if err := t.insertVersion(e, p); err != nil {
			return false, err
		}
		// One that held the bytes is to be made.
		if _, err := t.exec(`UPDATE projection SET version = NULL, body = NULL, coding = 0 WHERE kid = $1 AND body IS NOT NULL`, e.kid); err != nil {
			return false, err
		}
		if err := t.wakeMemory(e.kid); err != nil {
			return false, err
		}
		_, err = t.exec(`UPDATE head SET flags = flags & 7 | 2 WHERE kid = $1`, e.kid)
		return err == nil, err
	})
}

func (t *txn) insertVersion(e entry, p packed) error {
	h := &e.head
	_, err := t.exec(`INSERT INTO version (kid, version, op, at, created, expires, size, coding, owner, digest, body) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
		e.kid, h.Version, int16(h.Op), column.Micros(h.UpdatedAt), column.Micros(h.CreatedAt), column.Micros(h.ExpiresAt), h.Size, p.coding, h.User, column.DigestBytes(h.Digest), p.bytes)
	return err
}

// Mend implements warm.Mover: the only statement that changes a version row.
func (s *Store) Mend(ctx context.Context, key tiering.Key, version int64, body []byte) (bool, error) {
	p, digest := s.pack(body), tiering.DigestOf(body)
	return s.move(ctx, key, func(t *txn, e entry) (bool, error) {
		n, err := t.exec(`UPDATE version SET coding = $1, body = $2 WHERE kid = $3 AND version = $4 AND op = $5 AND digest = $6`,
			p.coding, p.bytes, e.kid, version, int16(tiering.OpPut), column.DigestBytes(digest))
		return n > 0, err
	})
}

// move runs one guarded step on the head of key, which it locks.
func (s *Store) move(ctx context.Context, key tiering.Key, step func(*txn, entry) (bool, error)) (moved bool, err error) {
	err = s.write(ctx, func(t *txn) error {
		moved = false
		e, err := t.own(key)
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

// own locks the head of key; kid is 0 when there is none.
func (t *txn) own(key tiering.Key) (e entry, err error) {
	err = t.each(`SELECT `+headColumns+ofKey+` WHERE n.tenant = $1 AND n.name = $2 AND h.id = $3 FOR UPDATE OF h`, []any{key.Tenant, key.Namespace, []byte(key.ID)}, func(row pgx.Rows) error {
		var h headRow
		err := row.Scan(h.into()...)
		e = h.entry(key)
		return err
	})
	return e, err
}

// Retire implements warm.Mover. A tombstone's own version counts as
// superseded: nothing stands at it. A projection of a version before the one that
// stands goes too.
func (s *Store) Retire(ctx context.Context, key tiering.Key, versions []int64) (retired int, err error) {
	err = s.write(ctx, func(t *txn) error {
		retired = 0
		e, err := t.own(key)
		if err != nil || e.kid == 0 {
			return orRollback(err)
		}
		if !e.head.Op.Deleting() {
			versions = slices.DeleteFunc(slices.Clone(versions), func(v int64) bool { return v == e.head.Version })
		}
		n, err := t.exec(`WITH p AS (`+emptyProjection+` WHERE p.kid = $4 AND p.version < $6)
			DELETE FROM version v WHERE v.kid = $4 AND v.version = ANY($5::bigint[]) AND EXISTS (SELECT 1 FROM location l JOIN segment g ON g.name = l.segment
			WHERE l.tenant = $1 AND l.namespace = $2 AND l.id = $3 AND v.version BETWEEN l.min_version AND l.max_version
			AND g.state = 'finished' AND g.copy0 = 'verified' AND g.copy1 = 'verified')`, key.Tenant, key.Namespace, []byte(key.ID), e.kid, versions, e.head.Version)
		retired = int(n)
		return err
	})
	if err != nil {
		return 0, err
	}
	return retired, nil
}

// NoteAccess implements warm.Mover. Heads are locked in key order, as by every
// transaction.
func (s *Store) NoteAccess(ctx context.Context, reads []warm.Access) error {
	if len(reads) == 0 {
		return ctx.Err()
	}
	latest := map[tiering.Key]time.Time{}
	for _, r := range reads {
		if r.At.After(latest[r.Key]) {
			latest[r.Key] = r.At
		}
	}
	keys := make([]tiering.Key, 0, len(latest))
	for k := range latest {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, tiering.Key.Compare)
	tenants, names, ids := keyArrays(keys)
	at := make([]int64, len(keys))
	for i, k := range keys {
		at[i] = column.Micros(latest[k])
	}
	_, err := s.exec(ctx, `WITH l AS MATERIALIZED (SELECT h.kid, t.at FROM unnest($1::text[], $2::text[], $3::bytea[], $4::bigint[]) WITH ORDINALITY t(tenant, name, id, at, n)
			JOIN namespace s ON s.tenant = t.tenant AND s.name = t.name JOIN head h ON h.nid = s.nid AND h.id = t.id ORDER BY t.n FOR UPDATE OF h)
		UPDATE head h SET accessed = l.at FROM l WHERE h.kid = l.kid AND h.accessed < l.at`, tenants, names, ids, at)
	return err
}
