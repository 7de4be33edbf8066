package sqlite

import (
	"context"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
)

// indexed brings the index entry of a memory in line with the head that a
// change made: m is what the last put came with.
func (t *txn) indexed(ns *namespace, e entry, m *tiering.MemoryEntry) error {
	if e.head.Op != tiering.OpPut {
		return t.dropMemory(e.kid)
	}
	if m != nil && m.Digest == e.head.Digest {
		return t.setMemory(ns.nid, e.kid, m)
	}
	// A put that says nothing keeps an entry that was made from the same bytes.
	same, err := t.number(`SELECT EXISTS (SELECT 1 FROM memory WHERE kid = ? AND body = ?)`, e.kid, e.head.Digest[:])
	if err != nil || same == 1 {
		return err
	}
	return t.dropMemory(e.kid)
}

// dropMemory removes all that the index has of a key.
func (t *txn) dropMemory(kid int64) error {
	n, err := t.exec(`DELETE FROM memory WHERE kid = ?`, kid)
	if err != nil || n == 0 {
		return err
	}
	for _, q := range []string{`DELETE FROM memory_vector WHERE kid = ?`, `DELETE FROM memory_link WHERE kid = ?`} {
		if _, err := t.exec(q, kid); err != nil {
			return err
		}
	}
	return nil
}

// dropMemories removes the entries of a namespace's dead heads, which are all it
// has: of memories that expired and that no sweep has met.
func (t *txn) dropMemories(nid int64) error {
	keys, err := t.keysOf(`SELECT n.tenant, n.name, h.id FROM memory m JOIN head h ON h.kid = m.kid JOIN namespace n ON n.nid = h.ns WHERE m.ns = ?`, nid)
	if err != nil {
		return err
	}
	t.touch(keys...)
	for _, q := range []string{`DELETE FROM memory_vector WHERE kid IN (SELECT kid FROM memory WHERE ns = ?)`, `DELETE FROM memory_link WHERE ns = ?`, `DELETE FROM memory WHERE ns = ?`} {
		if _, err := t.exec(q, nid); err != nil {
			return err
		}
	}
	return nil
}

// setMemory puts m in place of the entry of a key. Of the same text it keeps
// the vectors that m does not bring, and their status.
func (t *txn) setMemory(nid, kid int64, m *tiering.MemoryEntry) error {
	status := column.StatusNumber(m.Status)
	before, stood, err := t.one(`SELECT text, status, entry FROM memory WHERE kid = ?`, kid)
	if err != nil {
		return err
	}
	if stood {
		if string(blob(before[0])) == string(m.TextHash[:]) {
			status = max(status, num(before[1])&column.StatusNumber(tiering.IndexIndexed))
		} else if _, err := t.exec(`DELETE FROM memory_vector WHERE kid = ?`, kid); err != nil {
			return err
		}
		if _, err := t.exec(`DELETE FROM memory_link WHERE kid = ?`, kid); err != nil {
			return err
		}
	}
	if _, err := t.exec(`INSERT INTO memory (kid, ns, analyzer, status, attempts, body, text, entry) VALUES (?1, ?2, ?3, ?4, 0, ?5, ?6, ?7)
		ON CONFLICT (kid) DO UPDATE SET analyzer = ?3, status = ?4, attempts = 0, body = ?5, text = ?6, entry = ?7`,
		kid, nid, int64(m.Analyzer), status, m.Digest[:], m.TextHash[:], encodeEntry(m)); err != nil {
		return err
	}
	for _, v := range m.Vectors {
		if err := t.setVector(kid, v); err != nil {
			return err
		}
	}
	for _, l := range m.Links {
		if _, err := t.exec(`INSERT INTO memory_link (kid, ns, target, relation) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			kid, nid, []byte(l.To), l.Relation); err != nil {
			return err
		}
	}
	return nil
}

// setVector puts a vector in place of the one of its space.
func (t *txn) setVector(kid int64, v tiering.MemoryVector) error {
	sid, err := t.space(v.Space)
	if err != nil {
		return err
	}
	_, err = t.exec(`INSERT INTO memory_vector (kid, space, vector) VALUES (?, ?, ?)
		ON CONFLICT (kid, space) DO UPDATE SET vector = excluded.vector`, kid, sid, encodeVector(v.Vector))
	return err
}

// space returns the number of an embedding space, made at its first use. They stay.
func (t *txn) space(name string) (int64, error) {
	sid, err := t.number(`SELECT sid FROM memory_space WHERE name = ?`, name)
	if err != nil || sid != 0 {
		return sid, err
	}
	return t.insert(`INSERT INTO memory_space (name) VALUES (?)`, name)
}

// SetMemory implements warm.Memories.
func (s *Store) SetMemory(ctx context.Context, key tiering.Key, m tiering.MemoryEntry) (bool, error) {
	return s.onMemory(ctx, key, m.Digest, false, func(t *txn, ns *namespace, e entry) error { return t.setMemory(ns.nid, e.kid, &m) })
}

// AddVector implements warm.Memories.
func (s *Store) AddVector(ctx context.Context, key tiering.Key, d tiering.Digest, v tiering.MemoryVector, status tiering.IndexStatus) (bool, error) {
	return s.onMemory(ctx, key, d, true, func(t *txn, _ *namespace, e entry) error {
		if _, err := t.exec(`UPDATE memory SET status = ?, attempts = 0 WHERE kid = ?`, column.StatusNumber(status), e.kid); err != nil {
			return err
		}
		return t.setVector(e.kid, v)
	})
}

// NoteFailure implements warm.Memories.
func (s *Store) NoteFailure(ctx context.Context, key tiering.Key, d tiering.Digest, failed bool) error {
	_, err := s.onMemory(ctx, key, d, true, func(t *txn, _ *namespace, e entry) error {
		status := column.StatusNumber(tiering.IndexPending)
		if failed {
			status = column.StatusNumber(tiering.IndexFailed)
		}
		_, err := t.exec(`UPDATE memory SET attempts = attempts + 1, status = ? WHERE kid = ?`, status, e.kid)
		return err
	})
	return err
}

// onMemory runs fn if a live head of digest d stands and, where entered says
// so, has an entry.
func (s *Store) onMemory(ctx context.Context, key tiering.Key, d tiering.Digest, entered bool, fn func(*txn, *namespace, entry) error) (done bool, err error) {
	err = s.write(ctx, func(t *txn) error {
		ns, err := t.namespace(key.Tenant, key.Namespace)
		if err != nil || ns.nid == 0 {
			return orRollback(err)
		}
		e, err := t.entry(ns, key)
		if err != nil || e.kid == 0 || !s.loose && (!e.head.Live(t.now) || e.head.Digest != d) {
			return orRollback(err)
		}
		if entered {
			if n, err := t.number(`SELECT EXISTS (SELECT 1 FROM memory WHERE kid = ?)`, e.kid); err != nil || n == 0 && !s.loose {
				return orRollback(err)
			}
		}
		if err := fn(t, ns, e); err != nil {
			return err
		}
		done = true
		t.touch(key)
		return nil
	})
	return done && err == nil, err
}

// DropSpace implements warm.Memories.
func (s *Store) DropSpace(ctx context.Context, space string, limit int) (dropped int, err error) {
	err = s.write(ctx, func(t *txn) error {
		keys, err := t.keysOf(`SELECT n.tenant, n.name, h.id FROM memory_vector v JOIN head h ON h.kid = v.kid JOIN namespace n ON n.nid = h.ns
			WHERE v.vid IN (`+vectorsOfSpace+`)`, space, int64(limit))
		if err != nil {
			return err
		}
		n, err := t.exec(`DELETE FROM memory_vector WHERE vid IN (`+vectorsOfSpace+`)`, space, int64(limit))
		dropped = int(n)
		t.touch(keys...)
		return err
	})
	if err != nil {
		return 0, err
	}
	return dropped, nil
}

const vectorsOfSpace = `SELECT vid FROM memory_vector WHERE space = (SELECT sid FROM memory_space WHERE name = ?) ORDER BY vid LIMIT ?`

// Embedding implements warm.Memories.
func (s *Store) Embedding(ctx context.Context) (e warm.Embedding, err error) {
	err = s.reader(ctx, func(c *conn) error {
		e, err = c.embedding()
		return err
	})
	return e, err
}

func (c *conn) embedding() (e warm.Embedding, err error) {
	row, _, err := c.one(`SELECT (SELECT value FROM meta WHERE name = 'embedding_active'), (SELECT value FROM meta WHERE name = 'embedding_target')`)
	if err == nil {
		e = warm.Embedding{Active: text(row[0]), Target: text(row[1])}
	}
	return e, err
}

// SetEmbedding implements warm.Memories.
func (s *Store) SetEmbedding(ctx context.Context, from, to warm.Embedding) (set bool, err error) {
	err = s.write(ctx, func(t *txn) error {
		is, err := t.embedding()
		if err != nil || is != from {
			return orRollback(err)
		}
		set = true
		if to.Made() != from.Made() {
			if _, err := t.exec(`UPDATE memory SET attempts = 0 WHERE attempts > 0`); err != nil {
				return err
			}
		}
		_, err = t.exec(`INSERT INTO meta (name, value) VALUES ('embedding_active', ?), ('embedding_target', ?)
			ON CONFLICT (name) DO UPDATE SET value = excluded.value`, to.Active, to.Target)
		return err
	})
	return set && err == nil, err
}
