package postgres

import (
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
)

// vectorTables hold vectors. They are looked at in this order, behind the lock
// of their memory's row.
var vectorTables = []string{"memory_fresh", "memory_vector", "memory_dormant"}

// memoryRows are index entries on their way into rows, by column. Arrays of
// arrays are one flat array with the places of each in it.
type memoryRows struct {
	kid                   []int64
	nid, length, analyzer []int32
	status                []int16
	at, until, ends, used []*int64
	uses                  []int64
	importance            []float64
	body, text, entry     [][]byte
	owner                 []string
	kinds                 [5][]string // type, agent, app, session, speaker
	tids                  []int64
	freqs                 []int32
	tidsFrom, tidsTo      []int32
	freqsFrom, freqsTo    []int32
	begun                 []int64
	stood                 []int64 // kids that may have an entry
	vectors, renewed      vectorRows
	links                 linkRows
}

// memoryDrops are entries on their way out, each with the body that keeps it; and
// when the head of one that is kept was created.
type memoryDrops struct {
	kid     []int64
	unless  [][]byte
	created []int64
}

// vectorRows are vectors on their way.
type vectorRows struct {
	kid   []int64
	nid   []int32
	space []string
	owner []string
	from  []int32
	to    []int32
	flat  []float32
}

type linkRows struct {
	kid      []int64
	nid      []int32
	target   [][]byte
	relation []string
}

// memoryChanges sorts what a transaction makes of memories into rows to set and
// to drop.
func (s *state) memoryChanges() (set memoryRows, drop memoryDrops) {
	for _, key := range sortedKeys(s.entries) {
		e := s.entries[key]
		ns := s.space(spaceOf(key))
		if ns.Kind != tiering.KindMemory || !e.changed || !e.remade || e.kid == 0 {
			continue
		}
		switch {
		case e.head.Op == tiering.OpPut && e.memory != nil && e.memory.Digest == e.head.Digest:
			set.add(e.kid, ns.nid, &e.head, e.memory, e.stood)
		case !e.stood:
		case e.head.Op == tiering.OpPut:
			drop.add(e.kid, e.head.Digest[:], column.Micros(e.head.CreatedAt))
		default:
			drop.add(e.kid, []byte{}, 0)
		}
	}
	return set, drop
}

func (d *memoryDrops) add(kid int64, unless []byte, created int64) {
	d.kid, d.unless, d.created = append(d.kid, kid), append(d.unless, unless), append(d.created, created)
}

func (r *memoryRows) add(kid int64, nid int32, of *warm.Head, m *tiering.MemoryEntry, stood bool) {
	owner := of.User
	r.kid, r.nid, r.length, r.analyzer = append(r.kid, kid), append(r.nid, nid), append(r.length, int32(m.Length)), append(r.analyzer, int32(m.Analyzer))
	r.status = append(r.status, int16(column.StatusNumber(m.Status)))
	r.at, r.until, r.ends, r.used = append(r.at, optional(m.At)), append(r.until, optional(m.Until)), append(r.ends, optional(m.Ends)), append(r.used, optional(m.UsedAt))
	begun := m.At
	if begun.IsZero() {
		begun = of.CreatedAt
	}
	r.begun = append(r.begun, begun.UnixMicro())
	r.uses, r.importance = append(r.uses, m.Uses), append(r.importance, m.Importance)
	r.body, r.text, r.entry, r.owner = append(r.body, m.Digest[:]), append(r.text, m.TextHash[:]), append(r.entry, encodeEntry(m)), append(r.owner, owner)
	for i, s := range []string{string(m.Type), m.Agent, m.App, m.Session, m.Speaker} {
		r.kinds[i] = append(r.kinds[i], s)
	}
	r.tidsFrom = append(r.tidsFrom, int32(len(r.tids)+1))
	r.tids = append(r.tids, tidsOf(nid, owner, m)...)
	r.tidsTo = append(r.tidsTo, int32(len(r.tids)))
	r.freqsFrom = append(r.freqsFrom, int32(len(r.freqs)+1))
	for _, t := range m.Terms {
		r.freqs = append(r.freqs, int32(t.Freq))
	}
	r.freqsTo = append(r.freqsTo, int32(len(r.freqs)))
	if stood {
		r.stood = append(r.stood, kid)
	}
	for _, v := range m.Vectors {
		r.vectors.add(kid, nid, owner, v)
		if stood {
			r.renewed.add(kid, nid, owner, v)
		}
	}
	for _, l := range m.Links {
		r.links.kid, r.links.nid = append(r.links.kid, kid), append(r.links.nid, nid)
		r.links.target, r.links.relation = append(r.links.target, []byte(l.To)), append(r.links.relation, l.Relation)
	}
}

func (r *vectorRows) add(kid int64, nid int32, owner string, v tiering.MemoryVector) {
	r.kid, r.nid, r.space, r.owner = append(r.kid, kid), append(r.nid, nid), append(r.space, v.Space), append(r.owner, owner)
	r.from = append(r.from, int32(len(r.flat)+1))
	r.flat = append(r.flat, v.Vector...)
	r.to = append(r.to, int32(len(r.flat)))
}

// args are the parameters of insertVectors and dropRenewed. {{vector}} stands
// for the type.
func (r *vectorRows) args() []any {
	return []any{r.kid, r.nid, r.space, r.owner, r.from, r.to, r.flat}
}

const (
	lockMemories = `SELECT 1 FROM memory WHERE kid = ANY ($1::bigint[]) ORDER BY kid FOR UPDATE`
	dropMemories = `WITH gone AS (DELETE FROM memory m USING unnest($1::bigint[], $2::bytea[]) t(kid, body) WHERE m.kid = t.kid AND m.body <> t.body RETURNING m.nid, m.length, m.tids)
		INSERT INTO memory_delta (nid, length, sign, tids) SELECT nid, length, -1, tids FROM gone`
	// An entry stays that was made from the body that is written where it expired.
	keepMemories = `UPDATE memory m SET begun = t.created FROM unnest($1::bigint[], $2::bytea[], $3::bigint[]) t(kid, body, created) WHERE m.kid = t.kid AND m.body = t.body AND m.at IS NULL AND m.begun <> t.created`
	dropBeside   = ` v USING memory m, unnest($1::bigint[], $2::bytea[]) t(kid, body) WHERE v.kid = t.kid AND m.kid = t.kid AND m.body <> t.body`
	// Vectors of another text go. Those of the same text become the writer's: it
	// may be another user who writes a key that had expired.
	dropOthers = ` v USING memory m, unnest($1::bigint[], $2::bytea[], $3::text[]) t(kid, text, owner) WHERE v.kid = t.kid AND m.kid = t.kid AND m.text <> t.text`
	moveOwners = ` v SET owner = t.owner FROM memory m, unnest($1::bigint[], $2::bytea[], $3::text[]) t(kid, text, owner) WHERE v.kid = t.kid AND m.kid = t.kid AND m.text = t.text AND v.owner <> t.owner`

	theVectors  = `unnest($1::bigint[], $2::int[], $3::text[], $4::text[], $5::int[], $6::int[]) t(kid, nid, space, owner, a, b) JOIN memory_space s ON s.name = t.space`
	theVector   = `($7::real[])[t.a:t.b]::{{vector}}`
	dropRenewed = ` v USING ` + theVectors + ` WHERE v.kid = t.kid AND v.sid = s.sid`
	// One that is in the indexed store as it is stays there.
	keepEqual     = ` AND NOT v.v OPERATOR({{schema}}.=) ` + theVector
	insertVectors = `INSERT INTO memory_fresh (kid, sid, nid, owner, v) SELECT t.kid, s.sid, t.nid, t.owner, ` + theVector + ` FROM ` + theVectors + `
		WHERE NOT EXISTS (SELECT 1 FROM memory_vector x WHERE x.kid = t.kid AND x.sid = s.sid)
		ON CONFLICT (kid, sid) DO UPDATE SET v = excluded.v, owner = excluded.owner`
	insertSpaces = `INSERT INTO memory_space (name) SELECT DISTINCT t.name FROM unnest($1::text[]) t(name) ORDER BY t.name ON CONFLICT (name) DO NOTHING`
	insertLinks  = `INSERT INTO memory_link (kid, nid, target, relation) SELECT * FROM unnest($1::bigint[], $2::int[], $3::bytea[], $4::text[]) ON CONFLICT DO NOTHING`
	wakeMemories = `WITH w AS (DELETE FROM memory_dormant WHERE kid = ANY ($1::bigint[]) RETURNING kid, sid, nid, owner, v)
		INSERT INTO memory_fresh (kid, sid, nid, owner, v) SELECT kid, sid, nid, owner, v::{{vector}} FROM w ON CONFLICT (kid, sid) DO NOTHING`
	dropLinks     = `DELETE FROM memory_link WHERE kid = ANY ($1::bigint[])`
	upsertEntries = `WITH t AS (SELECT t.*, coalesce(($21::bigint[])[t.ta:t.tb], '{}') AS tids, coalesce(($22::int[])[t.fa:t.fb], '{}') AS freqs
			FROM unnest($1::bigint[], $2::int[], $3::int[], $4::int[], $5::smallint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::float8[],
				$12::bytea[], $13::bytea[], $14::bytea[], $15::text[], $16::text[], $17::text[], $18::text[], $19::text[], $23::int[], $24::int[], $25::int[], $26::int[], $27::bigint[])
			t(kid, nid, length, analyzer, status, at, until, ends, used, uses, importance, body, text, entry, type, agent, app, session, speaker, ta, tb, fa, fb, begun)),
		old AS (SELECT m.kid, m.nid, m.length, m.tids, m.text, m.status FROM memory m WHERE m.kid = ANY ($20::bigint[])),
		up AS (INSERT INTO memory AS m (kid, at, until, ends, used, uses, importance, nid, length, analyzer, attempts, status, body, text, type, agent, app, session, speaker, tids, freqs, entry, begun)
			SELECT t.kid, t.at, t.until, t.ends, t.used, t.uses, t.importance, t.nid, t.length, t.analyzer, 0,
				CASE WHEN o.text = t.text AND o.status = 2 AND t.status < 2 THEN 2 ELSE t.status END, t.body, t.text, t.type, t.agent, t.app, t.session, t.speaker, t.tids, t.freqs, t.entry, t.begun
			FROM t LEFT JOIN old o ON o.kid = t.kid
			ON CONFLICT (kid) DO UPDATE SET at = excluded.at, until = excluded.until, ends = excluded.ends, used = excluded.used, uses = excluded.uses, importance = excluded.importance,
				length = excluded.length, analyzer = excluded.analyzer, attempts = 0, status = excluded.status, body = excluded.body, text = excluded.text, type = excluded.type,
				agent = excluded.agent, app = excluded.app, session = excluded.session, speaker = excluded.speaker, tids = excluded.tids, freqs = excluded.freqs, entry = excluded.entry, begun = excluded.begun)
		INSERT INTO memory_delta (nid, length, sign, tids)
			SELECT o.nid, o.length, -1, o.tids FROM old o JOIN t ON t.kid = o.kid WHERE o.tids <> t.tids OR o.length <> t.length
			UNION ALL SELECT t.nid, t.length, 1, t.tids FROM t LEFT JOIN old o ON o.kid = t.kid WHERE o.kid IS NULL OR o.tids <> t.tids OR o.length <> t.length`
)

// queueMemories removes the entries of drop with all that hangs on them, unless
// they were made from a body that stays, and sets those of r. The rows of both
// are locked in one order before any of it, as by everybody.
func (s *Store) queueMemories(b *pgx.Batch, r *memoryRows, drop *memoryDrops) {
	if stood := slices.Concat(drop.kid, r.stood); len(stood) > 0 {
		b.Queue(lockMemories, stood)
	}
	if len(drop.kid) > 0 {
		for _, table := range append([]string{"memory_link"}, vectorTables...) {
			b.Queue(`DELETE FROM `+table+dropBeside, drop.kid, drop.unless)
		}
		b.Queue(dropMemories, drop.kid, drop.unless)
		b.Queue(keepMemories, drop.kid, drop.unless, drop.created)
	}
	s.queueEntries(b, r)
}

// queueEntries sets entries. Of keys that had one the same text keeps its
// vectors, and what was dormant is awake again.
func (s *Store) queueEntries(b *pgx.Batch, r *memoryRows) {
	if len(r.kid) == 0 {
		return
	}
	if len(r.stood) > 0 {
		for _, table := range vectorTables {
			b.Queue(`WITH gone AS (DELETE FROM `+table+dropOthers+`) UPDATE `+table+moveOwners, r.kid, r.text, r.owner)
		}
		b.Queue(dropLinks, r.stood)
		b.Queue(s.vectorSQL(wakeMemories), r.stood)
	}
	b.Queue(upsertEntries, r.kid, r.nid, r.length, r.analyzer, r.status, r.at, r.until, r.ends, r.used, r.uses, r.importance, r.body, r.text, r.entry,
		r.kinds[0], r.kinds[1], r.kinds[2], r.kinds[3], r.kinds[4], r.stood, r.tids, r.freqs, r.tidsFrom, r.tidsTo, r.freqsFrom, r.freqsTo, r.begun)
	if len(r.links.kid) > 0 {
		b.Queue(insertLinks, r.links.kid, r.links.nid, r.links.target, r.links.relation)
	}
	s.queueVectors(b, &r.vectors, &r.renewed)
}

// queueVectors puts vectors in place of those of their spaces; renewed are of
// memories that may have some.
func (s *Store) queueVectors(b *pgx.Batch, r, renewed *vectorRows) {
	if len(r.kid) == 0 {
		return
	}
	if !s.knowsSpaces(r.space) {
		b.Queue(insertSpaces, r.space)
	}
	if len(renewed.kid) > 0 {
		b.Queue(s.vectorSQL(`DELETE FROM memory_vector`+dropRenewed+keepEqual), renewed.args()...)
	}
	b.Queue(s.vectorSQL(insertVectors), r.args()...)
}
