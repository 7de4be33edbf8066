package postgres

import (
	"context"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
)

var _ warm.Memories = (*Store)(nil)

// lockEmbedding is a lock's number, in the class of the store's locks.
const lockEmbedding = -3

// mostSpaces bounds what is known of spaces: callers who bring their own vectors
// name as many as they like.
const mostSpaces = 1000

// vectorSpaces are names of embedding spaces that have a row, which stays.
type vectorSpaces struct {
	mu    sync.RWMutex
	known map[string]bool
}

func (v *vectorSpaces) note(names []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.known == nil || len(v.known) > mostSpaces {
		v.known = map[string]bool{}
	}
	for _, n := range names {
		v.known[n] = true
	}
}

func (v *vectorSpaces) clear() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.known = nil
}

// knowsSpaces reports whether all names are known to have a row.
func (s *Store) knowsSpaces(names []string) bool {
	s.vectorSpaces.mu.RLock()
	defer s.vectorSpaces.mu.RUnlock()
	for _, n := range names {
		if !s.vectorSpaces.known[n] {
			return false
		}
	}
	return true
}

// vectorSQL puts the schema of pgvector into a statement: it need not be in the
// search path.
func (s *Store) vectorSQL(sql string) string {
	quoted := pgx.Identifier{s.vectorSchema}.Sanitize()
	return strings.NewReplacer("{{vector}}", quoted+".vector", "{{schema}}", quoted).Replace(sql)
}

const memoriesOfSpace = `SELECT kid FROM memory WHERE nid = $1`

// dropMemoriesOf removes the entries of a namespace's dead heads, which are all
// it has: of memories that expired and that no sweep has met.
func (t *txn) dropMemoriesOf(nid int32) error {
	var drop memoryDrops
	err := t.each(memoriesOfSpace, []any{nid}, func(row pgx.Rows) error {
		var kid int64
		err := row.Scan(&kid)
		drop.add(kid, []byte{}, 0)
		return err
	})
	if err != nil {
		return err
	}
	return t.dropMemories(&drop)
}

// dropMemories removes the entries of keys. Whoever calls it holds their heads,
// or their namespace.
func (t *txn) dropMemories(drop *memoryDrops) error {
	if len(drop.kid) == 0 {
		return nil
	}
	b := &pgx.Batch{}
	t.s.queueMemories(b, &memoryRows{}, drop)
	return t.conn.SendBatch(t.ctx, b).Close()
}

// SetMemory implements warm.Memories.
func (s *Store) SetMemory(ctx context.Context, key tiering.Key, m tiering.MemoryEntry) (bool, error) {
	var spaces []string
	done, err := s.onMemory(ctx, key, m.Digest, false, func(t *txn, e entry, nid int32) error {
		var set memoryRows
		set.add(e.kid, nid, &e.head, &m, true)
		spaces = set.vectors.space
		asleep, err := t.asleep(e.kid)
		if err != nil {
			return err
		}
		b := &pgx.Batch{}
		s.queueMemories(b, &set, &memoryDrops{})
		if asleep {
			s.queueSleep(b, []int64{e.kid})
		}
		return t.conn.SendBatch(t.ctx, b).Close()
	})
	if done {
		s.vectorSpaces.note(spaces)
	}
	return done, err
}

// AddVector implements warm.Memories.
func (s *Store) AddVector(ctx context.Context, key tiering.Key, d tiering.Digest, v tiering.MemoryVector, status tiering.IndexStatus) (bool, error) {
	done, err := s.onMemory(ctx, key, d, true, func(t *txn, e entry, nid int32) error {
		var r vectorRows
		r.add(e.kid, nid, e.head.User, v)
		asleep, err := t.asleep(e.kid)
		if err != nil {
			return err
		}
		b := &pgx.Batch{}
		b.Queue(`UPDATE memory SET status = $2, attempts = 0 WHERE kid = $1`, e.kid, column.StatusNumber(status))
		s.queueVectors(b, &r, &r)
		if asleep {
			s.queueSleep(b, []int64{e.kid})
		}
		return t.conn.SendBatch(t.ctx, b).Close()
	})
	if done {
		s.vectorSpaces.note([]string{v.Space})
	}
	return done, err
}

// NoteFailure implements warm.Memories.
func (s *Store) NoteFailure(ctx context.Context, key tiering.Key, d tiering.Digest, failed bool) error {
	_, err := s.onMemory(ctx, key, d, true, func(t *txn, e entry, _ int32) error {
		status := column.StatusPending
		if failed {
			status = column.StatusFailed
		}
		_, err := t.exec(`UPDATE memory SET attempts = attempts + 1, status = $2 WHERE kid = $1`, e.kid, status)
		return err
	})
	return err
}

// onMemory locks the head of key, and runs fn if it is live, of digest d and,
// where entered says so, has an entry.
func (s *Store) onMemory(ctx context.Context, key tiering.Key, d tiering.Digest, entered bool, fn func(*txn, entry, int32) error) (done bool, err error) {
	names, err := s.numbered(ctx, []tiering.Key{key})
	nid := names[spaceOf(key)].nid
	if err != nil || nid == 0 {
		return false, s.explain(err)
	}
	done, err = s.move(ctx, key, func(t *txn, e entry) (bool, error) {
		if !s.seams.looseMemories && (!e.head.Live(t.now) || e.head.Digest != d) {
			return false, nil
		}
		if entered {
			there, err := t.yes(`SELECT EXISTS (SELECT FROM memory WHERE kid = $1 AND (body = $2 OR $3) FOR UPDATE)`, e.kid, d[:], s.seams.looseMemories)
			if err != nil || !there && !s.seams.looseMemories {
				return false, err
			}
		}
		return true, fn(t, e, nid)
	})
	return done, err
}

// memoriesIn locks memories that have a vector of a space in a table.
func memoriesIn(table string) string {
	return `SELECT m.kid FROM memory m WHERE m.kid IN (SELECT v.kid FROM ` + table + ` v WHERE v.sid = $1 LIMIT $2) ORDER BY m.kid FOR UPDATE`
}

// DropSpace implements warm.Memories. The rows of the memories are locked in the
// order of their numbers, as by everybody who moves vectors, and so a transaction
// takes from one table alone.
func (s *Store) DropSpace(ctx context.Context, space string, limit int) (dropped int, err error) {
	err = s.write(ctx, func(t *txn) error {
		dropped = 0
		sid, err := t.number(`SELECT sid FROM memory_space WHERE name = $1`, space)
		if err != nil || sid == 0 {
			return orRollback(err)
		}
		for _, table := range vectorTables {
			if dropped > 0 {
				return nil
			}
			var kids []int64
			if err := t.each(memoriesIn(table), []any{sid, limit}, func(row pgx.Rows) error {
				var kid int64
				err := row.Scan(&kid)
				kids = append(kids, kid)
				return err
			}); err != nil {
				return err
			}
			n, err := t.exec(`DELETE FROM `+table+` WHERE sid = $1 AND kid = ANY ($2::bigint[])`, sid, kids)
			if err != nil {
				return err
			}
			dropped = int(n)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return dropped, nil
}

// Embedding implements warm.Memories.
func (s *Store) Embedding(ctx context.Context) (e warm.Embedding, err error) {
	err = s.read(ctx, func(q querier) error {
		e, err = embedding(ctx, q)
		return err
	})
	return e, err
}

func embedding(ctx context.Context, q querier) (e warm.Embedding, err error) {
	err = q.QueryRow(ctx, `SELECT coalesce(max(word) FILTER (WHERE name = 'embedding_active'), ''), coalesce(max(word) FILTER (WHERE name = 'embedding_target'), '') FROM meta`).Scan(&e.Active, &e.Target)
	return e, err
}

// SetEmbedding implements warm.Memories.
func (s *Store) SetEmbedding(ctx context.Context, from, to warm.Embedding) (set bool, err error) {
	err = s.write(ctx, func(t *txn) error {
		set = false
		if _, err := t.exec(lockSpace, s.lockClass, lockEmbedding); err != nil {
			return err
		}
		is, err := embedding(t.ctx, t.conn)
		if err != nil || is != from {
			return orRollback(err)
		}
		set = true
		if to.Made() != from.Made() {
			if _, err := t.exec(`UPDATE memory SET attempts = 0 WHERE kid IN (SELECT kid FROM memory WHERE attempts > 0 ORDER BY kid FOR UPDATE)`); err != nil {
				return err
			}
		}
		_, err = t.exec(`INSERT INTO meta (name, word) VALUES ('embedding_active', $1), ('embedding_target', $2) ON CONFLICT (name) DO UPDATE SET word = excluded.word`, to.Active, to.Target)
		return err
	})
	return set && err == nil, err
}

// asleep reports whether a memory's vectors sleep. They do so together: what the
// index worker adds goes to sleep with them.
func (t *txn) asleep(kid int64) (bool, error) {
	return t.yes(`SELECT EXISTS (SELECT FROM memory_dormant WHERE kid = $1)`, kid)
}

// memoriesOf locks and returns those of the keys that are memories.
func (t *txn) memoriesOf(kids []int64) (memories []int64, err error) {
	err = t.each(`SELECT kid FROM memory WHERE kid = ANY($1) ORDER BY kid FOR UPDATE`, []any{kids}, func(row pgx.Rows) error {
		var kid int64
		err := row.Scan(&kid)
		memories = append(memories, kid)
		return err
	})
	return memories, err
}

// queueSleep moves the vectors of memories whose bytes leave warm to where deep
// searches alone look. A write or a promotion wakes them.
func (s *Store) queueSleep(b *pgx.Batch, kids []int64) {
	for _, table := range []string{"memory_fresh", "memory_vector"} {
		b.Queue(s.vectorSQL(`WITH m AS (DELETE FROM `+table+` WHERE kid = ANY($1) RETURNING kid, sid, nid, owner, v)
			INSERT INTO memory_dormant (kid, sid, nid, owner, v) SELECT kid, sid, nid, owner, v::{{schema}}.halfvec FROM m ON CONFLICT (kid, sid) DO UPDATE SET v = excluded.v, owner = excluded.owner`), kids)
	}
}

func (t *txn) wakeMemory(kid int64) error {
	there, err := t.yes(`SELECT EXISTS (SELECT FROM memory WHERE kid = $1 FOR UPDATE)`, kid)
	if err != nil || !there {
		return err
	}
	_, err = t.exec(t.s.vectorSQL(wakeMemories), []int64{kid})
	return err
}
