package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/rules"
)

// meta holds restoring while a restore is under way, and floor, that of every
// namespace without a row, once there was one.

var errHalfRestored = tiering.Errorf(tiering.CodeUnavailable, "its rebuild was cut short and it holds a part of the data only: run `tierd rebuild` again")

// contents are the tables that an empty store has no row in.
var contents = []string{"namespace", "head", "version", "projection", "tombstone", "batch", "outbox", "feed", "request", "segment", "location", "erasure", "erasure_segment", "erasure_key",
	"memory", "memory_link", "memory_space", "memory_fresh", "memory_vector", "memory_dormant", "memory_delta", "memory_count", "memory_frequency", "query_index"}

const restoring = `SELECT EXISTS (SELECT 1 FROM meta WHERE name = 'restoring')`

// BeginRestore implements warm.Restorer. Leases stay, for their tokens. No
// other daemon may use the store until the end.
func (s *Store) BeginRestore(ctx context.Context, epoch string, floor int64) error {
	s.restores.Store(true)
	err := s.write(ctx, func(t *txn) error {
		half, err := t.yes(restoring)
		if err != nil {
			return err
		}
		for _, table := range contents {
			if half {
				if _, err := t.exec(`DELETE FROM ` + table); err != nil {
					return err
				}
				continue
			}
			full, err := t.yes(`SELECT EXISTS (SELECT 1 FROM ` + table + `)`)
			if err != nil {
				return err
			}
			if full {
				return tiering.Errorf(tiering.CodeWrongKind, "the database is not empty (it has a row in %s): rebuild into a new one", table)
			}
		}
		for _, q := range []string{`DELETE FROM position`, `DELETE FROM meta WHERE name IN ('embedding_active', 'embedding_target')`, `UPDATE sequencer SET last = 0, trimmed = 0`} {
			if _, err := t.exec(q); err != nil {
				return err
			}
		}
		_, err = t.exec(`INSERT INTO meta (name, number, word) VALUES ('restoring', 1, ''), ('floor', $1, ''), ('epoch', 0, $2), ('erase_fence', 0, '')
			ON CONFLICT (name) DO UPDATE SET number = excluded.number, word = excluded.word`, floor, epoch)
		return err
	})
	if err == nil {
		s.spaces.clear()
		s.vectorSpaces.clear()
		s.epoch.Store(&epoch)
		s.last.Store(0)
	}
	return err
}

// refill is write for a store that is being restored.
func (s *Store) refill(ctx context.Context, fn func(*txn) error) error {
	return s.write(ctx, func(t *txn) error {
		half, err := t.yes(restoring)
		if err != nil {
			return err
		}
		if !half {
			return tiering.Errorf(tiering.CodeWrongKind, "no restore of this database was begun")
		}
		return fn(t)
	})
}

// RestoreNamespace implements warm.Restorer.
func (s *Store) RestoreNamespace(ctx context.Context, n warm.Namespace) error {
	return s.refill(ctx, func(t *txn) error {
		row, err := t.ownSpace(n.Tenant, n.Name)
		if err == nil && row == nil {
			row, err = t.newSpace(rules.Namespace{Namespace: warm.Namespace{Tenant: n.Tenant, Name: n.Name}})
		}
		if err != nil {
			return err
		}
		row.Restore(n)
		return t.storeSpace(row)
	})
}

// RestoreKeys implements warm.Restorer.
func (s *Store) RestoreKeys(ctx context.Context, keys []warm.Restored) error {
	bodies := make([]packed, len(keys))
	for i := range keys {
		bodies[i] = s.pack(keys[i].Body)
	}
	return s.refill(ctx, func(t *txn) error { return t.restore(keys, bodies) })
}

const insertRestored = `INSERT INTO head (nid, id, op, version, revision, created, updated, expires, ttl, accessed, size, flags, digest, owner, due)
	SELECT t.nid, t.id, t.op, t.version, t.revision, t.created, t.updated, t.expires, t.ttl, t.accessed, t.size, t.flags, t.digest, t.owner, nullif(t.due, 0)
	FROM unnest($1::int[], $2::bytea[], $3::smallint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[],
		$12::smallint[], $13::bytea[], $14::text[], $15::bigint[])
		t(nid, id, op, version, revision, created, updated, expires, ttl, accessed, size, flags, digest, owner, due) RETURNING kid, nid, id`

// restore adds keys. None gets a projection: queries see to those.
func (t *txn) restore(keys []warm.Restored, bodies []packed) error {
	st := &state{now: t.now, spaces: map[nsKey]*space{}, entries: map[tiering.Key]*entry{}, docs: map[tiering.Key][]byte{}}
	var h heads
	var nids []int32
	var ids [][]byte
	type place struct {
		nid int32
		id  string
	}
	places := map[place]tiering.Key{}
	for i := range keys {
		r := &keys[i]
		e := &entry{head: rules.Restored(r), query: r.Query && r.Head.Op == tiering.OpPut, changed: true, fresh: true}
		e.due = earlierDue(0, e.head)
		key := e.head.Key
		ns := st.spaces[spaceOf(key)]
		if ns == nil {
			var err error
			if ns, err = t.ownSpace(key.Tenant, key.Namespace); err == nil && ns == nil {
				ns, err = t.newSpace(rules.Namespace{Namespace: warm.Namespace{Tenant: key.Tenant, Name: key.Namespace}})
			}
			if err != nil {
				return err
			}
			st.spaces[spaceOf(key)] = ns
		}
		st.entries[key], st.docs[key] = e, r.Body
		h.add(e)
		nids, ids = append(nids, ns.nid), append(ids, []byte(key.ID))
		places[place{ns.nid, key.ID}] = key
		if e.head.InWarm {
			st.versions = append(st.versions, versionRow{entry: e, head: e.head, body: bodies[i]})
			e.remade = true
		}
		e.remade = e.remade || e.head.Op.Deleting()
	}
	err := t.each(insertRestored, []any{nids, ids, h.op, h.version, h.revision, h.created, h.updated, h.expires, h.ttl, h.accessed, h.size, h.flags, h.digest, h.owner, h.due},
		func(row pgx.Rows) error {
			var kid int64
			var nid int32
			var id []byte
			err := row.Scan(&kid, &nid, &id)
			st.entries[places[place{nid, string(id)}]].kid = kid
			return err
		})
	if err != nil {
		return err
	}
	b := &pgx.Batch{}
	st.queueHeads(b, false)
	st.queueVersions(b)
	if b.Len() == 0 {
		return nil
	}
	return t.conn.SendBatch(t.ctx, b).Close()
}

// RestoreSegment implements warm.Restorer.
func (s *Store) RestoreSegment(ctx context.Context, info tiering.SegmentInfo, locations []tiering.Location) error {
	f, err := newFinish(info, locations)
	if err != nil {
		return err
	}
	return s.refill(ctx, func(t *txn) error {
		if err := t.insertSegment(&info, tiering.SegmentFinished, f.ranges); err != nil {
			return err
		}
		return t.locate(f)
	})
}

// EndRestore implements warm.Restorer.
func (s *Store) EndRestore(ctx context.Context) error {
	return s.refill(ctx, func(t *txn) error {
		_, err := t.exec(`DELETE FROM meta WHERE name = 'restoring'`)
		return err
	})
}
