package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// One statement projects so many documents, or so many bytes of them: their
	// heads are locked until it ends.
	projectAtOnce      = 100
	projectBytesAtOnce = 256 << 10
	// projectAtClose is how long Close goes on to project.
	projectAtClose = time.Second
)

// writeProjections projects what still is the version that stands, in warm and
// to be queried, under the lock of its head, as everything that writes or
// removes a projection holds it: what was deleted or erased meanwhile is gone by
// then, and what is deleted afterwards takes its projection along. It waits for no
// head: one that is locked is being changed, and no transaction waits in a circle
// with this one. An empty document stands for one that the server refuses. It
// returns what it met.
const writeProjections = `WITH t AS MATERIALIZED (SELECT d.n, h.kid, h.nid, h.version, d.doc
		FROM unnest($2::int[], $3::bytea[], $4::bigint[], $5::text[]) WITH ORDINALITY d(nid, id, version, doc, n) JOIN head h ON h.nid = d.nid AND h.id = d.id
		WHERE h.version = d.version AND h.op = 1 AND h.flags & 6 = 6 AND (h.expires = 0 OR h.expires > ` + nowFrom + ` OR h.flags & 1 = 1) FOR UPDATE OF h SKIP LOCKED),
	w AS (` + insertProjections + `)
	SELECT n FROM t`

// insertProjections takes the rows of t.
const insertProjections = `INSERT INTO projection AS p (kid, nid, version, doc) SELECT t.kid, t.nid, t.version, nullif(t.doc, '')::jsonb FROM t
	ON CONFLICT (kid) DO UPDATE SET nid = excluded.nid, version = excluded.version, doc = excluded.doc, body = NULL, coding = 0
	WHERE p.version IS DISTINCT FROM excluded.version`

// emptyProjection leaves nothing of a document in its projection, which is to be
// made again. The row stays: an index of documents has to know of each.
const emptyProjection = `UPDATE projection p SET version = NULL, doc = NULL, body = NULL, coding = 0`

// runProjector projects what rested, until Close.
func (s *Store) runProjector() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for {
		select {
		case <-s.closing:
			return
		case <-s.projector.news:
		}
		for rest := s.opts.projectRest; !s.projector.empty(); {
			pause := time.NewTimer(rest)
			select {
			case <-s.closing:
				pause.Stop()
				return
			case <-pause.C:
			}
			began := time.Now()
			// What a failure leaves without a projection is read by its bytes.
			_ = s.projectBefore(ctx, began.Add(-s.opts.projectRest))
			rest = max(s.opts.projectRest, projectShare*time.Since(began))
		}
	}
}

// Project makes the projections that wait, without a rest.
func (s *Store) Project(ctx context.Context) error {
	return s.projectBefore(ctx, time.Now().Add(time.Hour))
}

// projectLast makes what projections it can in a moment.
func (s *Store) projectLast() {
	ctx, cancel := context.WithTimeout(context.Background(), projectAtClose)
	defer cancel()
	_ = s.Project(ctx) // as above
}

// projectBefore projects what came before a moment.
func (s *Store) projectBefore(ctx context.Context, before time.Time) error {
	todo := s.projector.take(before)
	for len(todo) > 0 {
		n, size := 0, 0
		for n < len(todo) && n < projectAtOnce && (n == 0 || size < projectBytesAtOnce) {
			size += len(todo[n].body.bytes)
			n++
		}
		if err := s.project(ctx, todo[:n]); err != nil {
			return err
		}
		todo = todo[n:]
	}
	return nil
}

// project is one statement, or as many as it takes to find out what the server
// refuses. What it did not meet comes once more: somebody may have held the head.
func (s *Store) project(ctx context.Context, todo []*unprojected) error {
	var p projections
	for _, u := range todo {
		// What can not be decompressed is found damaged by whoever reads it.
		if body := s.unpack(u.body.bytes, u.body.coding); body != nil {
			p.add(u, *docText(body))
		}
	}
	err := s.refusing(p.docs, func(from, to int) error {
		part := p.part(from, to)
		return s.transact(ctx, func(t *txn) error {
			if s.seams.project != nil {
				return s.seams.project(t, part)
			}
			return t.project(part)
		})
	})
	if err != nil {
		return err
	}
	for i, u := range p.of {
		if !p.met[i] && !u.tried {
			u.at, u.tried = time.Now(), true
			s.projector.put(u)
		}
	}
	return nil
}

// projections are documents by column.
type projections struct {
	of       []*unprojected
	nids     []int32
	ids      [][]byte
	versions []int64
	docs     []string
	met      []bool
}

func (p *projections) add(u *unprojected, doc string) {
	p.of, p.nids, p.ids, p.versions = append(p.of, u), append(p.nids, u.nid), append(p.ids, []byte(u.id)), append(p.versions, u.version)
	p.docs, p.met = append(p.docs, doc), append(p.met, false)
}

func (p *projections) part(from, to int) *projections {
	return &projections{p.of[from:to], p.nids[from:to], p.ids[from:to], p.versions[from:to], p.docs[from:to], p.met[from:to]}
}

// project is one transaction, in one round trip. Nobody waits for its commit, and
// a crash that takes it back loses nothing.
func (t *txn) project(p *projections) error {
	b := &pgx.Batch{}
	b.Queue(`BEGIN`)
	b.Queue(askLife, t.s.life())
	b.Queue(`SET LOCAL synchronous_commit = off`)
	b.Queue(writeProjections, t.s.fixedNow(), p.nids, p.ids, p.versions, p.docs).Query(func(rows pgx.Rows) error {
		return drain(rows, func(row pgx.Rows) error {
			var n int64
			err := row.Scan(&n)
			p.met[max(n-1, 0)] = true
			return err
		})
	})
	b.Queue(`COMMIT`)
	t.sent = true
	return t.conn.SendBatch(t.ctx, b).Close()
}

// refusing calls write for documents, in parts and parts of parts where the
// server refuses one. What it refuses alone is written without a document.
func (s *Store) refusing(docs []string, write func(from, to int) error) error {
	var part func(from, to int) error
	part = func(from, to int) error {
		if from == to {
			return nil
		}
		err := write(from, to)
		switch {
		case err == nil || !refusedData(err):
			return err
		case to-from > 1:
			middle := (from + to) / 2
			if err := part(from, middle); err != nil {
				return err
			}
			return part(middle, to)
		case docs[from] == "":
			return err
		}
		docs[from] = ""
		s.refused.Add(1)
		return write(from, to)
	}
	return part(0, len(docs))
}
