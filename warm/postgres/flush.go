package postgres

import (
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/internal/jsondoc"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
)

const (
	updateHeads = `UPDATE head h SET op = t.op, version = t.version, revision = t.revision, created = t.created, updated = t.updated, expires = t.expires, ttl = t.ttl,
		accessed = t.accessed, size = t.size, flags = t.flags, digest = t.digest, owner = t.owner, due = nullif(t.due, 0), carry = NULL
		FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[],
			$11::smallint[], $12::bytea[], $13::text[], $14::bigint[])
			t(kid, op, version, revision, created, updated, expires, ttl, accessed, size, flags, digest, owner, due) WHERE h.kid = t.kid`
	insertVersions = `INSERT INTO version (kid, version, op, at, created, expires, size, coding, owner, digest, body)
		SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::smallint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::smallint[], $9::text[], $10::bytea[], $11::bytea[])`
	upsertProjections = `INSERT INTO projection (kid, nid, version, doc) SELECT t.kid, t.nid, t.version, t.doc::jsonb FROM unnest($1::bigint[], $2::int[], $3::bigint[], $4::text[]) t(kid, nid, version, doc)
		ON CONFLICT (kid) DO UPDATE SET nid = excluded.nid, version = excluded.version, doc = excluded.doc, body = NULL, coding = 0`
	insertRequests = `INSERT INTO request (at, tenant, key, hash, result) SELECT $1, t.* FROM unnest($2::text[], $3::bytea[], $4::bytea[], $5::bytea[]) t`
	insertBatch    = `WITH b AS (INSERT INTO batch (at, id, results, changes) VALUES ($1, $2, $3, $4) RETURNING seq)
		INSERT INTO outbox (seq) SELECT seq FROM b WHERE $4::bytea IS NOT NULL`
	insertTombstones = `INSERT INTO tombstone (nid, at, kid) SELECT * FROM unnest($1::int[], $2::bigint[], $3::bigint[]) ON CONFLICT DO NOTHING`
)

// docText is a document as PostgreSQL takes it: a NUL inside a string is
// U+FFFD.
func docText(body []byte) *string {
	text := string(jsondoc.WithoutNUL(body))
	return &text
}

// flush writes what st became, the batch's own row last, and commits: all in
// one round trip.
func (t *txn) flush(st *state, id uuid.UUID, results [][]warm.Result, plain bool) error {
	b := &pgx.Batch{}
	set, drop := st.memoryChanges()
	t.s.queueMemories(b, &set, &drop)
	st.queue(b, id, results, plain)
	b.Queue(`COMMIT`)
	t.sent = true
	err := t.conn.SendBatch(t.ctx, b).Close()
	if err == nil {
		t.s.vectorSpaces.note(set.vectors.space)
	}
	return err
}

// queue puts everything that st became into b.
func (s *state) queue(b *pgx.Batch, id uuid.UUID, results [][]warm.Result, plain bool) {
	s.queueHeads(b, plain)
	s.queueVersions(b)
	if len(s.once) > 0 {
		s.queueRequests(b)
	}
	var changes []byte
	if len(s.feed) > 0 {
		changes = encodeChanges(s.feed)
	}
	b.Queue(insertBatch, column.Micros(s.now), id, encodeResults(results, true), changes)
}

// queueHeads writes the heads that changed, with what hangs on them, and takes
// away placeholders that nothing came of. Projections come with it where documents
// are indexed; plain leaves them empty.
func (s *state) queueHeads(b *pgx.Batch, plain bool) {
	var h heads
	var unused, unprojected, projected, versions, tombs, tombsAt []int64
	var docs []*string
	var tombNids, first, projectedNids []int32
	for _, key := range sortedKeys(s.entries) {
		e := s.entries[key]
		switch {
		case e.kid != 0 && e.head.Version == 0:
			unused = append(unused, e.kid)
			continue
		case !e.changed:
			continue
		}
		if !e.fresh {
			h.add(e)
		}
		ns := s.space(spaceOf(key))
		if !ns.Written && !slices.Contains(first, ns.nid) {
			first = append(first, ns.nid)
		}
		if !e.remade {
			continue
		}
		if e.head.Op.Deleting() {
			tombNids, tombsAt, tombs = append(tombNids, ns.nid), append(tombsAt, column.Micros(e.head.UpdatedAt)), append(tombs, e.kid)
		}
		switch {
		case !e.query:
			unprojected = append(unprojected, e.kid)
		case ns.indexed:
			var doc *string
			if !plain {
				doc = docText(s.docs[key])
			}
			projected, projectedNids, versions, docs = append(projected, e.kid), append(projectedNids, ns.nid), append(versions, e.head.Version), append(docs, doc)
		}
	}
	if unused != nil {
		b.Queue(`DELETE FROM head WHERE kid = ANY($1::bigint[])`, unused)
	}
	if h.kid != nil {
		b.Queue(updateHeads, h.kid, h.op, h.version, h.revision, h.created, h.updated, h.expires, h.ttl, h.accessed, h.size, h.flags, h.digest, h.owner, h.due)
	}
	if first != nil {
		b.Queue(`UPDATE namespace SET written = true WHERE nid = ANY($1::int[]) AND NOT written`, first)
	}
	if unprojected != nil {
		b.Queue(`DELETE FROM projection WHERE kid = ANY($1::bigint[])`, unprojected)
	}
	if projected != nil {
		b.Queue(upsertProjections, projected, projectedNids, versions, docs)
	}
	if tombs != nil {
		b.Queue(insertTombstones, tombNids, tombsAt, tombs)
	}
}

// project has what was written projected that was not in the commit.
func (p *projector) project(st *state) {
	for _, v := range st.versions {
		if e := v.entry; e.query && v.head.Op == tiering.OpPut && v.head.Version == e.head.Version {
			if ns := st.space(spaceOf(v.head.Key)); !ns.indexed {
				p.add(docAt{ns.nid, v.head.Key.ID}, v.head.Version, v.body)
			}
		}
	}
}

// heads are rows of head by column.
type heads struct {
	kid, version, revision, created, updated, expires, ttl, accessed, size, due []int64
	op, flags                                                                   []int16
	digest                                                                      [][]byte
	owner                                                                       []string
}

func (h *heads) add(e *entry) {
	n := &e.head
	h.kid, h.version, h.revision = append(h.kid, e.kid), append(h.version, n.Version), append(h.revision, n.Revision)
	h.created, h.updated, h.expires = append(h.created, column.Micros(n.CreatedAt)), append(h.updated, column.Micros(n.UpdatedAt)), append(h.expires, column.Micros(n.ExpiresAt))
	h.ttl, h.accessed, h.size = append(h.ttl, n.TTL.Microseconds()), append(h.accessed, column.Micros(n.AccessedAt)), append(h.size, n.Size)
	h.due, h.op, h.flags = append(h.due, e.due), append(h.op, int16(n.Op)), append(h.flags, int16(column.Flags(n.Pinned, n.InWarm, e.query)))
	h.digest, h.owner = append(h.digest, column.DigestBytes(n.Digest)), append(h.owner, n.User)
}

func (s *state) queueVersions(b *pgx.Batch) {
	if len(s.versions) == 0 {
		return
	}
	n := len(s.versions)
	kid, version, at, created, expires, size := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	op, coding := make([]int16, n), make([]int16, n)
	owner, digest, body := make([]string, n), make([][]byte, n), make([][]byte, n)
	for i, v := range s.versions {
		h := v.head
		kid[i], version[i], at[i], created[i], expires[i], size[i] = v.entry.kid, h.Version, column.Micros(h.UpdatedAt), column.Micros(h.CreatedAt), column.Micros(h.ExpiresAt), h.Size
		op[i], coding[i], owner[i], digest[i] = int16(h.Op), v.body.coding, h.User, column.DigestBytes(h.Digest)
		if h.Op == tiering.OpPut {
			body[i] = v.body.bytes
		}
	}
	b.Queue(insertVersions, kid, version, op, at, created, expires, size, coding, owner, digest, body)
}

func (s *state) queueRequests(b *pgx.Batch) {
	slices.SortFunc(s.once, func(a, b requestRow) int { return compareRequests(a.Idempotency, b.Idempotency) })
	n := len(s.once)
	tenants, names, hashes, results := make([]string, n), make([][]byte, n), make([][]byte, n), make([][]byte, n)
	for i, r := range s.once {
		tenants[i], names[i], hashes[i], results[i] = r.Tenant, []byte(r.Key), r.Hash[:], r.result
	}
	b.Queue(insertRequests, column.Micros(s.now), tenants, names, hashes, results)
}

func sortedKeys(m map[tiering.Key]*entry) []tiering.Key {
	keys := make([]tiering.Key, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, tiering.Key.Compare)
	return keys
}
