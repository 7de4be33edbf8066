package postgres

import (
	"fmt"
	"strings"
)

// putsForm is how much a batch of puts asks of the statement.
type putsForm uint8

const (
	onePut     putsForm = iota // one change of one row: plain parameters
	flatPuts                   // every change has one row: arrays by change
	foldedPuts                 // some change has more: arrays by change and by row
	putsForms
)

// putsVariant picks the parts of the statement that a batch needs.
type putsVariant struct {
	form                             putsForm
	projected, unprojected, requests bool
}

// number tells variants apart.
func (v putsVariant) number() int {
	n := int(v.form)
	for _, on := range []bool{v.projected, v.unprojected, v.requests} {
		n *= 2
		if on {
			n++
		}
	}
	return n
}

// liveHead says that the head h stands at the time that EXCLUDED was made.
const liveHead = `(h.op = 1 AND (h.expires = 0 OR h.expires > excluded.created OR h.flags & 1 = 1))`

// putsStatement commits a batch of puts. Every array is in key order, so that
// heads are locked in that order.
//
// Heads come first. What is inserted is the head of a new key, n versions above
// the floor; EXCLUDED.created is now and EXCLUDED.updated n-1 microseconds
// later, from which an update knows n. carry brings the condition in and the
// version that stood before out; bit 16 of flags says that the key had a
// projection. A condition on a key that is absent is judged by the select:
// nothing deletes a head while the namespace's lock is held.
//
// done has a row for each version that is made. A key without one was refused,
// and puts no row anywhere else.
//
// The batch's row needs all of made, so its seq is drawn while every head is
// locked: seqs of batches with a key in common are in the order of their
// commits.
const putsStatement = `WITH clock AS MATERIALIZED (SELECT ` + nowFrom + ` AS now),
{{floors}}{{changes}}up AS (
	INSERT INTO head AS h (nid, id, op, version, revision, created, updated, expires, ttl, accessed, size, flags, digest, owner, due, carry)
	SELECT n.nid, n.id, 1, n.floor + n.n, 0, k.now, k.now + n.n - 1, n.expires, n.ttl, k.now + n.n - 1, n.size, n.mode | 2, n.digest, n.owner, nullif(n.expires, 0), n.want
	FROM (SELECT c.*, CASE WHEN c.ttl > 0 THEN (SELECT now FROM clock) + c.ttl ELSE 0 END AS expires,
			{{floor}} AS floor,
			CASE WHEN c.want > -2 THEN coalesce((SELECT CASE WHEN h.op = 1 AND (h.expires = 0 OR h.expires > (SELECT now FROM clock) OR h.flags & 1 = 1) THEN h.version ELSE 0 END
				FROM head h WHERE h.nid = c.nid AND h.id = c.id), 0) END AS stands
		FROM {{source}} OFFSET 0) n, clock k
	WHERE n.floor IS NOT NULL AND CASE n.want WHEN -2 THEN true WHEN -1 THEN n.stands > 0 ELSE n.want = n.stands END {{known}}
	{{order}}ON CONFLICT (nid, id) DO UPDATE SET op = 1, revision = 0, size = excluded.size, digest = excluded.digest,
		version  = greatest(h.version + (excluded.updated - excluded.created + 1), excluded.version),
		created  = CASE WHEN {{live}} THEN h.created ELSE greatest(excluded.created, h.updated + 1) END,
		updated  = greatest(excluded.updated, h.updated + (excluded.updated - excluded.created + 1)),
		accessed = greatest(excluded.updated, h.updated + (excluded.updated - excluded.created + 1)),
		expires  = CASE WHEN excluded.flags & 8 > 0 OR NOT {{live}} THEN excluded.expires WHEN excluded.flags & 16 > 0 AND h.ttl > 0 THEN excluded.created + h.ttl ELSE h.expires END,
		ttl      = CASE WHEN excluded.flags & 8 > 0 OR NOT {{live}} THEN excluded.ttl ELSE h.ttl END,
		flags    = (excluded.flags & 6) | CASE WHEN {{live}} THEN h.flags & 1 ELSE 0 END | ((h.flags & 4) << 2),
		owner    = CASE WHEN {{live}} THEN h.owner ELSE excluded.owner END,
		carry    = CASE WHEN {{live}} THEN h.version ELSE 0 END,
		due      = CASE WHEN {{live}} AND h.flags & 1 = 1 THEN h.due
			ELSE least(h.due, nullif(CASE WHEN excluded.flags & 8 > 0 OR NOT {{live}} THEN excluded.expires WHEN excluded.flags & 16 > 0 AND h.ttl > 0 THEN excluded.created + h.ttl ELSE h.expires END, 0)) END
	WHERE CASE excluded.carry WHEN -2 THEN true WHEN -1 THEN {{live}} ELSE excluded.carry = CASE WHEN {{live}} THEN h.version ELSE 0 END END
		AND (NOT {{live}} OR excluded.owner = '' OR excluded.owner = h.owner)
	RETURNING h.kid, h.nid, h.id, h.version, h.created, h.updated, h.expires, h.ttl, h.flags, h.owner, greatest(h.carry, 0) AS prev
),
done AS {{done}},
{{made}}{{rows}}{{projected}}{{unprojected}}{{requests}}{{batch}}{{outbox}}{{answer}}`

// The parts of putsStatement. Parameters: 1 now, 2 the batch's id, 3 its shape;
// by change 4 nid, 5 id, 6 want, 7 owner, 8 ttl, 9 mode, 10 size, 11 digest; by
// row 12 coding, 13 body, 14 tail; 15 the namespaces that are believed to be
// indexed; then doc by change, what foldedPuts needs, and
// requests, where a batch has them.
const (
	oneSource = `(SELECT $4::int AS nid, $5::bytea AS id, $6::bigint AS want, $7::text AS owner, $8::bigint AS ttl, $9::smallint AS mode, $10::bigint AS size, $11::bytea AS digest, 1 AS n, 1::bigint AS ord) c`
	oneDone   = `NOT MATERIALIZED (SELECT 1::bigint AS rn, 1::bigint AS ord, u.*, u.updated AS at, true AS last,
	$10::bigint AS size, $11::bytea AS digest, $12::smallint AS coding, $13::bytea AS body, $14::bytea AS tail, {{doc}} AS doc FROM up u)`
	oneBatch = `b AS (
	INSERT INTO batch (at, id, results, changes)
	SELECT (SELECT now FROM clock), $2::uuid, $3::bytea, '\x020000'::bytea || m.record FROM made m
	RETURNING seq, changes
)`

	// The floors of namespaces that may be written to; of one change, and of many,
	// which are of few namespaces.
	oneFloor   = `(SELECT ` + floorOf + ` FROM namespace s WHERE s.nid = c.nid AND ` + writableSpace + `)`
	manyFloors = `floors AS MATERIALIZED (SELECT s.nid, ` + floorOf + ` AS floor FROM namespace s WHERE s.nid = ANY ($4::int[]) AND ` + writableSpace + `),
`
	manyFloor = `(SELECT s.floor FROM floors s WHERE s.nid = c.nid)`
	// Where documents are indexed a projection has to come with them.
	floorOf       = `CASE WHEN s.indexed AND s.nid <> ALL ($15::int[]) THEN unprojected(s.nid) ELSE s.floor END`
	writableSpace = `(s.name LIKE '\_%' OR s.known AND NOT s.deleted)`

	byChange   = `unnest($4::int[], $5::bytea[], $6::bigint[], $7::text[], $8::bigint[], $9::smallint[], $10::bigint[], $11::bytea[]`
	flatSource = `(SELECT f.*, 1 AS n FROM ` + byChange + `) WITH ORDINALITY f(nid, id, want, owner, ttl, mode, size, digest, ord)) c`
	flatDone   = `MATERIALIZED (SELECT r.ord AS rn, r.ord, u.kid, u.nid, u.version, u.prev, u.updated AS at, u.created, u.expires, u.ttl, u.flags, u.owner, true AS last,
	r.size, r.digest, r.coding, r.body, r.tail, {{rdoc}} AS doc
	FROM unnest($4::int[], $5::bytea[], $10::bigint[], $11::bytea[], $12::smallint[], $13::bytea[], $14::bytea[]{{docs}}) WITH ORDINALITY r(nid, id, size, digest, coding, body, tail{{docname}}, ord)
	JOIN up u ON u.nid = r.nid AND u.id = r.id)`

	foldedChanges = `c AS MATERIALIZED (SELECT * FROM ` + byChange + `, {{n}}::int[]{{docs}}) WITH ORDINALITY c(nid, id, want, owner, ttl, mode, size, digest, n{{docname}}, ord)),
`
	foldedDone = `MATERIALIZED (SELECT r.rn, c.ord, u.kid, u.nid, u.version - r.back AS version, CASE WHEN r.back = c.n - 1 THEN u.prev ELSE u.version - r.back - 1 END AS prev,
	u.updated - r.back AS at, u.created, u.expires, u.ttl, u.flags, u.owner, r.back = 0 AS last, r.size, r.digest, r.coding, r.body, r.tail, {{cdoc}} AS doc
	FROM unnest({{ord}}::bigint[], {{back}}::int[], {{rsize}}::bigint[], {{rdigest}}::bytea[], $12::smallint[], $13::bytea[], $14::bytea[])
		WITH ORDINALITY r(ord, back, size, digest, coding, body, tail, rn)
	JOIN c ON c.ord = r.ord JOIN up u ON u.nid = c.nid AND u.id = c.id)`

	putsMade = `made AS (
	SELECT d.rn, d.ord, int8send(d.version) || int8send(d.prev) || int8send(d.at) || int8send(d.created) || int8send(d.expires) || int8send(d.ttl)
		|| int2send(((d.flags & 7) | CASE WHEN d.prev = 0 THEN 8 ELSE 0 END)::smallint)
		|| int2send(octet_length(d.owner)::smallint) || convert_to(d.owner, 'UTF8') || d.tail AS record
	FROM done d
),
`
	putsRows = `rows AS (
	INSERT INTO version (kid, version, op, at, created, expires, size, coding, owner, digest, body)
	SELECT d.kid, d.version, 1, d.at, d.created, d.expires, d.size, d.coding, d.owner, d.digest, d.body FROM done d
),
`
	putsProjected = `docs AS (INSERT INTO projection (kid, nid, version, doc) SELECT d.kid, d.nid, d.version, nullif(d.doc, '')::jsonb FROM done d WHERE d.last AND d.doc IS NOT NULL
	ON CONFLICT (kid) DO UPDATE SET nid = excluded.nid, version = excluded.version, doc = excluded.doc, body = NULL, coding = 0),
`
	// By an array, and not by a join: that one reads the whole table.
	putsUnprojected = `undocs AS (DELETE FROM projection WHERE kid = ANY (ARRAY (SELECT d.kid FROM done d WHERE d.last AND d.flags & 20 = 16))),
`
	putsRequests = `i AS MATERIALIZED (SELECT * FROM unnest({{ask1}}::bigint[], {{ask2}}::bigint[], {{ask3}}::text[], {{ask4}}::bytea[], {{ask5}}::bytea[], {{ask6}}::bytea[]) i(ord, rn, tenant, key, hash, answer)),
asked AS (
	INSERT INTO request (at, tenant, key, hash, result)
	SELECT (SELECT now FROM clock), i.tenant, i.key, i.hash, '\x06'::bytea || m.record || i.answer FROM i JOIN made m ON m.rn = i.rn
),
`
	// A change of which a request is known is left to the look that tells what
	// was answered.
	putsKnown = `AND NOT EXISTS (SELECT 1 FROM unnest({{ask1}}::bigint[], {{ask3}}::text[], {{ask4}}::bytea[]) q(ord, tenant, key) WHERE q.ord = n.ord
		AND (SELECT true FROM request x WHERE x.tenant = q.tenant AND x.key = q.key))`
	putsBatch = `b AS (
	INSERT INTO batch (at, id, results, changes)
	SELECT (SELECT now FROM clock), $2, $3, '\x02'::bytea || string_agg(int2send((m.ord - 1)::smallint) || m.record, ''::bytea ORDER BY m.rn) FROM made m HAVING count(*) > 0
	RETURNING seq, changes
)`
	putsOutbox = `,
o AS (INSERT INTO outbox (seq) SELECT seq FROM b)`
	putsAnswer = `
SELECT changes, ` + readHotCount + ` FROM b`
)

// putsParts are the parts of a statement by the place they take in it.
type putsParts map[string]string

// parts returns what a variant's statement is made of.
func (v putsVariant) parts() putsParts {
	p := putsParts{"made": putsMade, "rows": putsRows, "batch": putsBatch, "outbox": putsOutbox, "answer": putsAnswer, "order": "ORDER BY n.ord\n\t", "live": liveHead,
		"floors": manyFloors, "floor": manyFloor}
	last := 15
	param := func() string { last++; return fmt.Sprintf("$%d", last) }
	p["doc"], p["rdoc"], p["cdoc"] = "NULL::text", "NULL::text", "NULL::text"
	if v.projected {
		doc := param()
		p["projected"], p["doc"], p["rdoc"], p["cdoc"] = putsProjected, doc+"::text", "r.doc", "c.doc"
		p["docs"], p["docname"] = ", "+doc+"::text[]", ", doc"
	}
	if v.unprojected {
		p["unprojected"] = putsUnprojected
	}
	switch v.form {
	case onePut:
		p["source"], p["done"], p["batch"], p["order"] = oneSource, oneDone, oneBatch, ""
		p["floors"], p["floor"] = "", oneFloor
	case flatPuts:
		p["source"], p["done"] = flatSource, flatDone
	default:
		p["changes"], p["source"], p["done"] = foldedChanges, "c", foldedDone
		for _, name := range []string{"n", "ord", "back", "rsize", "rdigest"} {
			p[name] = param()
		}
	}
	if v.requests {
		p["requests"], p["known"] = putsRequests, putsKnown
		for i := range 6 {
			p[fmt.Sprint("ask", i+1)] = param()
		}
	}
	return p
}

// statement puts parts together.
func (p putsParts) statement() string {
	text := putsStatement
	// Parts hold places of their own.
	for range 3 {
		var b strings.Builder
		for rest := text; ; {
			before, after, found := strings.Cut(rest, "{{")
			b.WriteString(before)
			if !found {
				break
			}
			name, behind, _ := strings.Cut(after, "}}")
			b.WriteString(p[name])
			rest = behind
		}
		text = b.String()
	}
	return text
}

// putsStatements are the statements of all variants, with the names that
// connections know them by.
func putsStatements() []call {
	var out []call
	for form := range putsForms {
		for bits := range 8 {
			v := putsVariant{form: form, projected: bits&4 > 0, unprojected: bits&2 > 0, requests: bits&1 > 0}
			out = append(out, call{name: fmt.Sprintf("tierd_puts_%d", v.number()), sql: v.parts().statement()})
		}
	}
	return out
}
