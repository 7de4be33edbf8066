package sqlite

import (
	"context"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
	"github.com/tierd/tierd/warm/internal/rules"
)

// meta holds restoring while a restore is under way, and floor, that of every
// namespace without a row, once there was one.

// restored reads what an earlier restore left. A store that is half filled is
// refused unless it is opened to be filled.
func (w *writer) restored(again bool) (err error) {
	half, err := w.number(`SELECT value FROM meta WHERE name = 'restoring'`)
	if err != nil {
		return err
	}
	if half == 1 && !again {
		return tiering.Errorf(tiering.CodeUnavailable, "its rebuild was cut short and it holds a part of the data only: run `tierd rebuild` again")
	}
	w.floor, err = w.number(`SELECT value FROM meta WHERE name = 'floor'`)
	return err
}

// contents are the tables that an empty store has no row in.
var contents = []string{"namespace", "head", "version", "projection", "feed", "settled", "idempotency", "segment", "location", "erasure", "erasure_segment",
	"memory", "memory_space", "memory_vector", "memory_link"}

// BeginRestore implements warm.Restorer. Leases stay, for their tokens.
func (s *Store) BeginRestore(ctx context.Context, epoch string, floor int64) error {
	return s.write(ctx, func(t *txn) error {
		half, err := t.number(`SELECT value FROM meta WHERE name = 'restoring'`)
		if err != nil {
			return err
		}
		for _, table := range contents {
			if half == 1 {
				if _, err := t.exec(`DELETE FROM ` + table); err != nil {
					return err
				}
				continue
			}
			n, err := t.number(`SELECT EXISTS (SELECT 1 FROM ` + table + `)`)
			if err != nil {
				return err
			}
			if n > 0 {
				return tiering.Errorf(tiering.CodeWrongKind, "the store %s is not empty (it has a row in %s): rebuild into a new one", s.path, table)
			}
		}
		for _, q := range []string{`DELETE FROM position`, `DELETE FROM meta WHERE name IN ('embedding_active', 'embedding_target')`} {
			if _, err := t.exec(q); err != nil {
				return err
			}
		}
		if _, err := t.exec(`INSERT INTO meta (name, value) VALUES ('restoring', 1), ('floor', ?), ('epoch', ?), ('trimmed', 0), ('erase_fence', 0)
			ON CONFLICT (name) DO UPDATE SET value = excluded.value`, floor, epoch); err != nil {
			return err
		}
		t.committed = func() {
			clear(t.namespaces)
			clear(t.sweeps)
			s.journal.clear()
			t.floor = floor
			s.epoch.Store(&epoch)
			s.last.Store(0)
		}
		return nil
	})
}

// refill is write for a store that is being restored.
func (s *Store) refill(ctx context.Context, fn func(*txn) error) error {
	return s.write(ctx, func(t *txn) error {
		half, err := t.number(`SELECT value FROM meta WHERE name = 'restoring'`)
		if err != nil {
			return err
		}
		if half != 1 {
			return tiering.Errorf(tiering.CodeWrongKind, "no restore of %s was begun", s.path)
		}
		return fn(t)
	})
}

// RestoreNamespace implements warm.Restorer.
func (s *Store) RestoreNamespace(ctx context.Context, n warm.Namespace) error {
	return s.refill(ctx, func(t *txn) error {
		row, err := t.namespace(n.Tenant, n.Name)
		if err != nil {
			return err
		}
		row.Restore(n)
		return t.store(row)
	})
}

// RestoreKeys implements warm.Restorer.
func (s *Store) RestoreKeys(ctx context.Context, keys []warm.Restored) error {
	bodies := make([]packed, len(keys))
	size := 0
	for i := range keys {
		size += len(keys[i].Body)
	}
	room := make([]byte, 0, size)
	for i := range keys {
		bodies[i], room = s.packInto(room, keys[i].Body)
	}
	return s.refill(ctx, func(t *txn) error { return t.restore(keys, bodies) })
}

// restore adds keys. The numbers of heads are given out here, so that many rows can go
// into one statement.
func (t *txn) restore(keys []warm.Restored, bodies []packed) error {
	kid, err := t.number(`SELECT max(kid) FROM head`)
	if err != nil {
		return err
	}
	heads, versions := t.rows(insertHeadRows, headRow), t.rows(insertVersionRows, versionRow)
	for i := range keys {
		e := entry{head: rules.Restored(&keys[i]), query: keys[i].Query}
		h := &e.head
		ns, err := t.namespace(h.Key.Tenant, h.Key.Namespace)
		if err == nil {
			err = t.firstKey(ns)
		}
		if err != nil {
			return err
		}
		kid++
		e.kid = kid
		if err := heads.add(append([]any{kid}, headValues(ns, e)...)...); err != nil {
			return err
		}
		if !h.InWarm {
			continue
		}
		if err := versions.add(versionValues(e, bodies[i])...); err != nil {
			return err
		}
	}
	if err := heads.flush(); err != nil {
		return err
	}
	return versions.flush()
}

const (
	insertHeadRows    = `INSERT INTO head (kid, ` + headFields + `) VALUES `
	headRow           = `(?, ` + headMarks + `)`
	insertVersionRows = `INSERT INTO version (` + versionFields + `) VALUES `
	versionRow        = `(` + versionMarks + `)`
)

// RestoreSegment implements warm.Restorer.
func (s *Store) RestoreSegment(ctx context.Context, info tiering.SegmentInfo, locations []tiering.Location) error {
	f, err := newFinish(info, locations)
	if err != nil {
		return err
	}
	return s.refill(ctx, func(t *txn) error {
		started := info.Started
		if started.IsZero() {
			started = t.now
		}
		_, err := t.exec(`INSERT INTO segment (name, tenant, state, owner, token, size, raw_size, sha256, count, min_time, max_time, ranges, copy0, copy1, started)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			info.Name, info.Tenant, string(tiering.SegmentFinished), info.Owner, info.Token, info.Size, info.RawSize, column.DigestBytes(info.SHA256), info.Count,
			column.Nanos(info.MinTime), column.Nanos(info.MaxTime), f.ranges, column.CopyText(info.Copies[0]), column.CopyText(info.Copies[1]), column.Micros(started))
		if err != nil {
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
