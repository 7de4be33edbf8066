package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
)

// standingNow is of a head h that stands at warm's clock, parameter 1.
const standingNow = `h.op = 1 AND (h.expires = 0 OR h.expires > ` + nowFrom + ` OR h.flags & 1 = 1)`

const memoryColumns = `m.at, m.until, m.ends, m.used, m.uses, m.importance, m.length, m.analyzer, m.status, m.body, m.text, m.type, m.agent, m.app, m.session, m.speaker, m.entry`

// memoryScan receives memoryColumns.
type memoryScan struct {
	at, until, ends, used *int64
	status                int16
	body, text, entry     []byte
	m                     tiering.MemoryEntry
}

func (r *memoryScan) into() []any {
	m := &r.m
	return []any{&r.at, &r.until, &r.ends, &r.used, &m.Uses, &m.Importance, &m.Length, &m.Analyzer, &r.status, &r.body, &r.text, &m.Type, &m.Agent, &m.App, &m.Session, &m.Speaker, &r.entry}
}

func (r *memoryScan) memory() (tiering.MemoryEntry, error) {
	m := &r.m
	m.At, m.Until, m.Ends, m.UsedAt, m.Status = fromOptional(r.at), fromOptional(r.until), fromOptional(r.ends), fromOptional(r.used), column.Status(int64(r.status))
	copy(m.Digest[:], r.body)
	copy(m.TextHash[:], r.text)
	err := decodeEntry(r.entry, m)
	return *m, err
}

// MemoriesAfter implements warm.Memories.
func (s *Store) MemoriesAfter(ctx context.Context, after tiering.Key, limit int) (out []warm.IndexedMemory, err error) {
	err = s.readMemories(ctx, func(q querier) (err error) {
		out, err = s.memories(ctx, q, `FROM namespace n JOIN head h ON h.nid = n.nid JOIN memory m ON m.kid = h.kid
			WHERE n.kind = 'memory' AND (n.tenant, n.name) >= ($2, $3) AND (n.tenant, n.name, h.id) > ($2, $3, $4) AND `+standingNow+` ORDER BY n.tenant, n.name, h.id LIMIT $5`,
			s.keyArgs(after, limit)...)
		return err
	})
	return out, err
}

// MemoriesOf implements warm.Memories.
func (s *Store) MemoriesOf(ctx context.Context, keys []tiering.Key) (out []warm.IndexedMemory, err error) {
	tenants, names, ids := make([]string, len(keys)), make([]string, len(keys)), make([][]byte, len(keys))
	for i, k := range keys {
		tenants[i], names[i], ids[i] = k.Tenant, k.Namespace, []byte(k.ID)
	}
	err = s.readMemories(ctx, func(q querier) (err error) {
		out, err = s.memories(ctx, q, `FROM unnest($2::text[], $3::text[], $4::bytea[]) t(tenant, name, id) JOIN namespace n ON n.tenant = t.tenant AND n.name = t.name
			JOIN head h ON h.nid = n.nid AND h.id = t.id JOIN memory m ON m.kid = h.kid WHERE `+standingNow, s.fixedNow(), tenants, names, ids)
		return err
	})
	return out, err
}

// readMemories runs fn on one state of the store: entries and their vectors are
// read one after the other.
func (s *Store) readMemories(ctx context.Context, fn func(querier) error) error {
	return s.read(ctx, func(q querier) error {
		if _, err := q.Exec(ctx, `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`); err != nil {
			return err
		}
		err := fn(q)
		if _, end := q.Exec(context.WithoutCancel(ctx), `ROLLBACK`); err == nil {
			err = end
		}
		return err
	})
}

// memories reads entries with their vectors.
func (s *Store) memories(ctx context.Context, q querier, from string, args ...any) (out []warm.IndexedMemory, err error) {
	at := map[int64]int{}
	var kids []int64
	err = each(ctx, q, `SELECT n.tenant, n.name, h.id, `+headColumns+`, `+memoryColumns+` `+from, args, func(row pgx.Rows) error {
		var k tiering.Key
		var id []byte
		var h headRow
		var r memoryScan
		if err := row.Scan(append(append([]any{&k.Tenant, &k.Namespace, &id}, h.into()...), r.into()...)...); err != nil {
			return err
		}
		k.ID = string(id)
		m, err := r.memory()
		if _, twice := at[int64(h.kid)]; !twice {
			at[int64(h.kid)] = len(out)
			kids = append(kids, int64(h.kid))
			out = append(out, warm.IndexedMemory{Key: k, Head: h.entry(k).head, Entry: m})
		}
		return err
	})
	if err != nil || len(kids) == 0 {
		return out, err
	}
	err = each(ctx, q, `SELECT v.kid, s.name, v.v FROM (SELECT kid, sid, v::real[] AS v FROM memory_fresh WHERE kid = ANY ($1::bigint[])
		UNION ALL SELECT kid, sid, v::real[] FROM memory_vector WHERE kid = ANY ($1::bigint[])
		UNION ALL SELECT kid, sid, v::real[] FROM memory_dormant WHERE kid = ANY ($1::bigint[])) v JOIN memory_space s ON s.sid = v.sid ORDER BY v.kid, v.sid`, []any{kids}, func(row pgx.Rows) error {
		var kid int64
		var v tiering.MemoryVector
		err := row.Scan(&kid, &v.Space, &v.Vector)
		m := &out[at[kid]].Entry
		m.Vectors = append(m.Vectors, v)
		return err
	})
	return out, err
}

// PendingMemories implements warm.Memories.
func (s *Store) PendingMemories(ctx context.Context, analyzer int, space string, after tiering.Key, limit int) (out []warm.PendingMemory, err error) {
	lacks := ``
	args := s.keyArgs(after, limit, analyzer)
	if space != "" {
		args = append(args, space)
		for _, table := range vectorTables {
			lacks += pick(lacks == "", "", " AND ") + `NOT EXISTS (SELECT 1 FROM ` + table + ` v WHERE v.kid = h.kid AND v.sid = (SELECT sid FROM memory_space WHERE name = $7))`
		}
		lacks = ` OR ` + lacks
	}
	err = s.read(ctx, func(q querier) error {
		out = nil
		return each(ctx, q, `SELECT n.tenant, n.name, h.id, `+headColumns+`, m.attempts, m.status, v.coding, v.body FROM namespace n JOIN head h ON h.nid = n.nid
			LEFT JOIN memory m ON m.kid = h.kid LEFT JOIN version v ON v.kid = h.kid AND v.version = h.version
			WHERE n.kind = 'memory' AND (n.tenant, n.name) >= ($2, $3) AND (n.tenant, n.name, h.id) > ($2, $3, $4) AND `+standingNow+` AND (m.kid IS NULL OR m.analyzer <> $6`+lacks+`)
			ORDER BY n.tenant, n.name, h.id LIMIT $5`, args, func(row pgx.Rows) error {
			var k tiering.Key
			var id, body []byte
			var h headRow
			var attempts *int
			var status, coding *int16
			if err := row.Scan(append(append([]any{&k.Tenant, &k.Namespace, &id}, h.into()...), &attempts, &status, &coding, &body)...); err != nil {
				return err
			}
			k.ID = string(id)
			p := warm.PendingMemory{Head: h.entry(k).head}
			if attempts != nil {
				p.Attempts, p.Status = *attempts, column.Status(int64(*status))
			}
			if coding != nil {
				p.Body = s.unpack(body, *coding)
			}
			out = append(out, p)
			return nil
		})
	})
	return out, err
}

// MemoryByText implements warm.Memories.
func (s *Store) MemoryByText(ctx context.Context, tenant, namespace, user string, text tiering.Digest) (head warm.Head, ok bool, err error) {
	err = s.read(ctx, func(q querier) error {
		head, ok = warm.Head{}, false
		return each(ctx, q, `SELECT h.id, `+headColumns+` FROM namespace n JOIN memory m ON m.nid = n.nid JOIN head h ON h.kid = m.kid
			WHERE n.tenant = $2 AND n.name = $3 AND m.text = $4 AND h.owner = $5 AND `+standingNow+`
				AND (m.ends IS NULL OR m.ends > `+nowFrom+`) ORDER BY h.id LIMIT 1`,
			[]any{s.fixedNow(), tenant, namespace, text[:], user}, func(row pgx.Rows) error {
				var id []byte
				var h headRow
				err := row.Scan(append([]any{&id}, h.into()...)...)
				head, ok = h.entry(tiering.Key{Tenant: tenant, Namespace: namespace, ID: string(id)}).head, true
				return err
			})
	})
	return head, ok && err == nil, err
}

// Linked implements warm.Memories.
func (s *Store) Linked(ctx context.Context, tenant, namespace string, ids []string, into bool) (out []warm.MemoryLink, err error) {
	of := make([][]byte, len(ids))
	for i, id := range ids {
		of[i] = []byte(id)
	}
	links := `SELECT h.id, l.target, l.relation FROM namespace n JOIN head h ON h.nid = n.nid JOIN memory_link l ON l.kid = h.kid
		WHERE n.tenant = $2 AND n.name = $3 AND h.id = ANY ($4::bytea[]) AND ` + standingNow
	if into {
		links += ` UNION SELECT h.id, l.target, l.relation FROM namespace n JOIN memory_link l ON l.nid = n.nid JOIN head h ON h.kid = l.kid
		WHERE n.tenant = $2 AND n.name = $3 AND l.target = ANY ($4::bytea[]) AND ` + standingNow
	}
	err = s.read(ctx, func(q querier) error {
		out = nil
		return each(ctx, q, links, []any{s.fixedNow(), tenant, namespace, of}, func(row pgx.Rows) error {
			var from, to []byte
			var l warm.MemoryLink
			err := row.Scan(&from, &to, &l.Relation)
			l.From, l.To = string(from), string(to)
			out = append(out, l)
			return err
		})
	})
	return out, err
}

// Spaces implements warm.Memories.
func (s *Store) Spaces(ctx context.Context) (out []warm.SpaceCount, err error) {
	err = s.read(ctx, func(q querier) error {
		out = nil
		return each(ctx, q, `SELECT s.name, c.n FROM memory_space s, LATERAL (SELECT (SELECT count(*) FROM memory_fresh WHERE sid = s.sid)
			+ (SELECT count(*) FROM memory_vector WHERE sid = s.sid) + (SELECT count(*) FROM memory_dormant WHERE sid = s.sid) AS n) c WHERE c.n > 0 ORDER BY s.name`, nil, func(row pgx.Rows) error {
			var c warm.SpaceCount
			err := row.Scan(&c.Space, &c.Count)
			out = append(out, c)
			return err
		})
	})
	return out, err
}
