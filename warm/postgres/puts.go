package postgres

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// The conditions of a put, as they travel: a version, or one of these.
const (
	wantAny    int64 = -2
	wantExists int64 = -1
	wantAbsent int64 = 0
)

// Bits of a put's mode. The two last ones travel in EXCLUDED.flags, above
// those that mean something in a row.
const (
	modeTTL   int16 = 1 << 3 // the row says what the expiry is to be
	modeSlide int16 = 1 << 4
)

// liveHead says that the head h stands at the time that EXCLUDED was made.
const liveHead = `(h.op = 1 AND (h.expires = 0 OR h.expires > excluded.created OR h.flags & 1 = 1))`

// putsStatement commits a batch of puts. Every array is by change or by row,
// in key order, so that heads are locked in that order.
//
// Heads come first. What is inserted is the head of a new key, n versions above
// the floor; EXCLUDED.created is now and EXCLUDED.updated n-1 microseconds
// later, from which an update knows n. carry brings the condition in and the
// version that stood before out. A condition on a key that is absent is judged
// by the select: nothing deletes a head while the namespace's lock is held. A
// key without a row in done was refused, and puts no row anywhere else.
//
// The batch's row needs all of made, so its seq is drawn while every head is
// locked: seqs of batches with a key in common are in the order of their
// commits.
const putsStatement = `WITH clock AS MATERIALIZED (SELECT ` + nowFrom + ` AS now),
c AS MATERIALIZED (SELECT * FROM unnest($4::int[], $5::bytea[], $6::bigint[], $7::int[], $8::text[], $9::bigint[], $10::smallint[], $11::bigint[], $12::bytea[], $13::text[])
	WITH ORDINALITY c(nid, id, want, n, owner, ttl, mode, size, digest, doc, ord)),
r AS MATERIALIZED (SELECT * FROM unnest($14::bigint[], $15::int[], $16::bigint[], $17::bytea[], $18::smallint[], $19::bytea[], $20::bytea[])
	WITH ORDINALITY r(ord, back, size, digest, coding, body, tail, rn)),
up AS (
	INSERT INTO head AS h (nid, id, op, version, revision, created, updated, expires, ttl, accessed, size, flags, digest, owner, due, carry)
	SELECT n.nid, n.id, 1, n.floor + n.n, 0, k.now, k.now + n.n - 1, n.expires, n.ttl, k.now + n.n - 1, n.size, n.mode | 2, n.digest, n.owner, nullif(n.expires, 0), n.want
	FROM (SELECT c.*, CASE WHEN c.ttl > 0 THEN (SELECT now FROM clock) + c.ttl ELSE 0 END AS expires,
			(SELECT s.floor FROM namespace s WHERE s.nid = c.nid AND (s.name LIKE '\_%' OR s.known AND NOT s.deleted)) AS floor,
			CASE WHEN c.want > -2 THEN coalesce((SELECT CASE WHEN h.op = 1 AND (h.expires = 0 OR h.expires > (SELECT now FROM clock) OR h.flags & 1 = 1) THEN h.version ELSE 0 END
				FROM head h WHERE h.nid = c.nid AND h.id = c.id), 0) END AS stands
		FROM c OFFSET 0) n, clock k
	WHERE n.floor IS NOT NULL AND CASE n.want WHEN -2 THEN true WHEN -1 THEN n.stands > 0 ELSE n.want = n.stands END {{known}}
	ORDER BY n.ord
	ON CONFLICT (nid, id) DO UPDATE SET op = 1, revision = 0, size = excluded.size, digest = excluded.digest,
		version  = greatest(h.version + (excluded.updated - excluded.created + 1), excluded.version),
		created  = CASE WHEN {{live}} THEN h.created ELSE greatest(excluded.created, h.updated + 1) END,
		updated  = greatest(excluded.updated, h.updated + (excluded.updated - excluded.created + 1)),
		accessed = greatest(excluded.updated, h.updated + (excluded.updated - excluded.created + 1)),
		expires  = CASE WHEN excluded.flags & 8 > 0 OR NOT {{live}} THEN excluded.expires WHEN excluded.flags & 16 > 0 AND h.ttl > 0 THEN excluded.created + h.ttl ELSE h.expires END,
		ttl      = CASE WHEN excluded.flags & 8 > 0 OR NOT {{live}} THEN excluded.ttl ELSE h.ttl END,
		flags    = (excluded.flags & 6) | CASE WHEN {{live}} THEN h.flags & 1 ELSE 0 END,
		owner    = CASE WHEN {{live}} THEN h.owner ELSE excluded.owner END,
		carry    = CASE WHEN {{live}} THEN h.version ELSE 0 END,
		due      = CASE WHEN {{live}} AND h.flags & 1 = 1 THEN h.due
			ELSE least(h.due, nullif(CASE WHEN excluded.flags & 8 > 0 OR NOT {{live}} THEN excluded.expires WHEN excluded.flags & 16 > 0 AND h.ttl > 0 THEN excluded.created + h.ttl ELSE h.expires END, 0)) END
	WHERE CASE excluded.carry WHEN -2 THEN true WHEN -1 THEN {{live}} ELSE excluded.carry = CASE WHEN {{live}} THEN h.version ELSE 0 END END
		AND (NOT {{live}} OR excluded.owner = '' OR excluded.owner = h.owner)
	RETURNING h.kid, h.nid, h.id, h.version, h.created, h.updated, h.expires, h.ttl, h.flags, h.owner, greatest(h.carry, 0) AS prev
),
done AS MATERIALIZED (SELECT c.ord, c.n, c.doc, u.* FROM up u JOIN c ON c.nid = u.nid AND c.id = u.id),
made AS MATERIALIZED (
	SELECT r.rn, d.ord, int8send(d.version - r.back) || int8send(CASE WHEN r.back = d.n - 1 THEN d.prev ELSE d.version - r.back - 1 END) || int8send(d.updated - r.back)
		|| int8send(d.created) || int8send(d.expires) || int8send(d.ttl)
		|| int2send(((d.flags & 7) | CASE WHEN r.back = d.n - 1 AND d.prev = 0 THEN 8 ELSE 0 END)::smallint)
		|| int2send(octet_length(d.owner)::smallint) || convert_to(d.owner, 'UTF8') || r.tail AS record
	FROM r JOIN done d ON d.ord = r.ord
),
rows AS (
	INSERT INTO version (kid, version, op, at, created, expires, size, coding, owner, digest, body)
	SELECT d.kid, d.version - r.back, 1, d.updated - r.back, d.created, d.expires, r.size, r.coding, d.owner, r.digest, r.body FROM r JOIN done d ON d.ord = r.ord
),
{{projected}}{{unprojected}}{{requests}}
b AS (
	INSERT INTO batch (at, id, results, changes)
	SELECT (SELECT now FROM clock), $2, $3, '\x02'::bytea || string_agg(int2send((m.ord - 1)::smallint) || m.record, ''::bytea ORDER BY m.rn) FROM made m HAVING count(*) > 0
	RETURNING seq, changes
),
o AS (INSERT INTO outbox (seq) SELECT seq FROM b)
SELECT changes, {{hot}} FROM b`

const (
	putsProjected = `docs AS (INSERT INTO projection (kid, doc) SELECT d.kid, d.doc::jsonb FROM done d WHERE d.flags & 4 > 0
	ON CONFLICT (kid) DO UPDATE SET doc = excluded.doc, body = NULL, coding = 0),
`
	// By an array, and not by a join: that one reads the whole table.
	putsUnprojected = `undocs AS (DELETE FROM projection WHERE kid = ANY (ARRAY (SELECT d.kid FROM done d WHERE d.flags & 4 = 0))),
`
	putsRequests = `i AS MATERIALIZED (SELECT * FROM unnest($21::bigint[], $22::bigint[], $23::text[], $24::bytea[], $25::bytea[], $26::bytea[]) i(ord, rn, tenant, key, hash, answer)),
asked AS (
	INSERT INTO request (at, tenant, key, hash, result)
	SELECT (SELECT now FROM clock), i.tenant, i.key, i.hash, '\x06'::bytea || m.record || i.answer FROM i JOIN made m ON m.rn = i.rn
),
`
	// A change of which a request is known is left to the look that tells what
	// was answered.
	putsKnown = `AND NOT EXISTS (SELECT 1 FROM unnest($21::bigint[], $23::text[], $24::bytea[]) q(ord, tenant, key) WHERE q.ord = n.ord
		AND (SELECT true FROM request x WHERE x.tenant = q.tenant AND x.key = q.key))`
)

// putsVariant picks the parts of the statement that a batch needs.
type putsVariant struct{ projected, unprojected, requests bool }

func (v putsVariant) statement() string {
	part := func(on bool, text string) string {
		if on {
			return text
		}
		return ""
	}
	return strings.NewReplacer("{{live}}", liveHead, "{{hot}}", readHotCount, "{{projected}}", part(v.projected, putsProjected), "{{unprojected}}", part(v.unprojected, putsUnprojected),
		"{{requests}}", part(v.requests, putsRequests), "{{known}}", part(v.requests, putsKnown)).Replace(putsStatement)
}

// puts are the arguments of putsStatement.
type puts struct {
	putsVariant
	nid, n           []int32
	id, digest       [][]byte
	want, ttl, size  []int64
	owner            []string
	mode             []int16
	docs             []*string
	rowOrd, rowSize  []int64
	back             []int32
	rowDigest        [][]byte
	coding           []int16
	body, tail       [][]byte
	askOrd, askRow   []int64
	tenants          []string
	keys, hash, said [][]byte
}

// plainPuts reports whether the one statement can commit the batch: puts of
// namespaces that were written before, of which folds want the same for every
// row.
func plainPuts(changes []warm.Change, names map[nsKey]spaceID) bool {
	if len(changes) == 0 || len(changes) > 1<<14 {
		return false
	}
	total := 0
	for i := range changes {
		c := &changes[i]
		if total += len(c.Rows); !names[spaceOf(c.Key)].written || len(c.Rows) == 0 || total >= maxRows {
			return false
		}
		first := &c.Rows[0]
		for j := range c.Rows {
			row := &c.Rows[j]
			if row.Op != tiering.OpPut || row.User != first.User || row.Query != first.Query || !reflect.DeepEqual(row.Expiry, first.Expiry) {
				return false
			}
		}
		if e := first.Expiry; e.New%time.Microsecond != 0 || e.TTL != nil && !e.TTL.None && e.TTL.Life < time.Microsecond {
			return false
		}
	}
	_, twice := requestsOf(changes)
	return !twice
}

// newPuts puts a batch into columns. plain leaves projections empty.
func newPuts(changes []warm.Change, names map[nsKey]spaceID, bodies [][]packed, plain bool) *puts {
	p := &puts{}
	for i := range changes {
		c := &changes[i]
		last := &c.Rows[len(c.Rows)-1]
		p.nid, p.n, p.id = append(p.nid, names[spaceOf(c.Key)].nid), append(p.n, int32(len(c.Rows))), append(p.id, []byte(c.Key.ID))
		p.digest, p.size = append(p.digest, digestBytes(last.Digest)), append(p.size, int64(len(last.Body)))
		p.want, p.owner = append(p.want, wanted(c.If)), append(p.owner, last.User)
		var mode int16
		var ttl time.Duration
		switch e := last.Expiry; {
		case e.TTL != nil && e.TTL.None:
			mode = modeTTL
		case e.TTL != nil:
			mode, ttl = modeTTL, e.TTL.Life
		default:
			ttl = max(e.New, 0)
			if e.Slide {
				mode = modeSlide
			}
		}
		var doc *string
		if last.Query {
			mode |= flagQuery
			p.projected = true
			if !plain {
				doc = docText(last.Body)
			}
		} else {
			p.unprojected = true
		}
		p.ttl, p.mode, p.docs = append(p.ttl, ttl.Microseconds()), append(p.mode, mode), append(p.docs, doc)
		for j := range c.Rows {
			p.addRow(i, j, c, bodies[i][j])
		}
	}
	p.sortRequests()
	return p
}

func (p *puts) addRow(i, j int, c *warm.Change, body packed) {
	row := &c.Rows[j]
	bytes := body.bytes
	if bytes == nil {
		bytes = []byte{}
	}
	p.rowOrd, p.back, p.rowSize = append(p.rowOrd, int64(i+1)), append(p.back, int32(len(c.Rows)-1-j)), append(p.rowSize, int64(len(row.Body)))
	p.rowDigest, p.coding, p.body, p.tail = append(p.rowDigest, digestBytes(row.Digest)), append(p.coding, body.coding), append(p.body, bytes), append(p.tail, recordTail(c.Key, row))
	if r := row.Idempotency; r != nil {
		p.requests = true
		answer := r.Answer
		if answer == nil {
			answer = []byte{}
		}
		p.askOrd, p.askRow = append(p.askOrd, int64(i+1)), append(p.askRow, int64(len(p.rowOrd)))
		p.tenants, p.keys, p.hash, p.said = append(p.tenants, r.Tenant), append(p.keys, []byte(r.Key)), append(p.hash, r.Hash[:]), append(p.said, answer)
	}
}

// sortRequests puts requests in the order in which every transaction inserts
// them.
func (p *puts) sortRequests() {
	order := make([]int, len(p.keys))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		if c := strings.Compare(p.tenants[a], p.tenants[b]); c != 0 {
			return c
		}
		return slices.Compare(p.keys[a], p.keys[b])
	})
	p.askOrd, p.askRow, p.tenants = picked(p.askOrd, order), picked(p.askRow, order), picked(p.tenants, order)
	p.keys, p.hash, p.said = picked(p.keys, order), picked(p.hash, order), picked(p.said, order)
}

func picked[T any](from []T, order []int) []T {
	out := make([]T, len(order))
	for i, n := range order {
		out[i] = from[n]
	}
	return out
}

func wanted(c tiering.Condition) int64 {
	switch v, ok := c.Version(); {
	case ok:
		return v
	case c.Absent():
		return wantAbsent
	case c.Exists():
		return wantExists
	}
	return wantAny
}

func (p *puts) args(now *int64, id uuid.UUID, shape []byte) []any {
	args := []any{now, id, shape, p.nid, p.id, p.want, p.n, p.owner, p.ttl, p.mode, p.size, p.digest, p.docs,
		p.rowOrd, p.back, p.rowSize, p.rowDigest, p.coding, p.body, p.tail}
	if p.requests {
		args = append(args, p.askOrd, p.askRow, p.tenants, p.keys, p.hash, p.said)
	}
	return args
}

// commitPuts commits a batch of puts in one statement, behind the one that
// locks the namespaces: one implicit transaction, one round trip.
func (s *Store) commitPuts(ctx context.Context, b *warm.Batch, names map[nsKey]spaceID, bodies [][]packed) (results [][]warm.Result, kept bool, err error) {
	shape := encodeShape(b.Changes)
	requests, _ := requestsOf(b.Changes)
	class, number := s.lockArgs(names, requests)
	var changes []byte
	var hotCount int64
	for _, plain := range []bool{false, true} {
		p := newPuts(b.Changes, names, bodies, plain)
		statement := p.statement()
		if !p.projected {
			p.docs = []*string{}
		}
		err = s.transact(ctx, func(t *txn) error {
			changes = nil
			batch := &pgx.Batch{}
			batch.Queue(lockSpaces, class, number)
			batch.Queue(statement, p.args(s.fixedNow(), b.ID, shape)...).Query(func(rows pgx.Rows) error {
				return drain(rows, func(row pgx.Rows) error { return row.Scan(&changes, &hotCount) })
			})
			t.sent = true
			return t.conn.SendBatch(t.ctx, batch).Close()
		})
		if plain || !refusedData(err) {
			break
		}
		s.refused.Add(1)
	}
	if err != nil {
		return nil, false, err
	}
	var done []made
	if changes != nil {
		if done, err = decodeChanges(changes); err != nil {
			return nil, false, unknown(err)
		}
	}
	if results, err = decodeResults(shape, done); err != nil {
		return nil, false, unknown(err)
	}
	kept = changes != nil
	if err := s.say(ctx, b.Changes, results); err != nil {
		if kept {
			return nil, false, unknown(err)
		}
		return nil, false, err
	}
	return s.dated(results, hotCount), kept, nil
}

// say fills in the results of changes that left nothing behind, by looking at
// what stands now: that may be later than what refused them. Of such changes
// nothing was committed, so any moment after the commit is as good as another.
func (s *Store) say(ctx context.Context, changes []warm.Change, results [][]warm.Result) error {
	var todo []int
	w := want{}
	for i := range results {
		if len(results[i]) > 0 && results[i][0].Status == unsaid && i < len(changes) {
			todo, w.keys = append(todo, i), append(w.keys, changes[i].Key)
		}
	}
	if todo == nil {
		return nil
	}
	w.requests, _ = requestsOf(changes)
	names, err := s.numbered(ctx, w.keys)
	if err != nil {
		return err
	}
	return s.read(ctx, func(q querier) error {
		st, err := s.gather(ctx, q, w, names)
		if err != nil {
			return err
		}
		for _, i := range todo {
			c := &changes[i]
			stands := st.entry(c.Key).head
			answer, err := st.apply(c, nil)
			if err != nil {
				return err
			}
			if answer[0].Status == warm.Done {
				// What refused the change is gone by now. It was refused all the same.
				r := warm.Result{Status: warm.Conflict, Head: stands}
				switch {
				case !c.If.Unconditional():
				case c.Rows[0].User != "":
					r.Status = warm.UserFixed
				default:
					r = warm.Result{Status: warm.NoNamespace}
				}
				fill(answer, r)
			}
			results[i] = answer
		}
		return nil
	})
}
