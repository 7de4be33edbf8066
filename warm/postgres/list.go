package postgres

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/internal/idrange"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
)

// scan selects current documents of a namespace.
type scan struct {
	tenant, namespace string
	spans             []idrange.Range
	user              string
	after             string
	most              int    // rows that the caller takes at most; 0: nobody knows
	bodies            bool   // version rows' bytes
	projections       bool   // also what stays of demoted documents
	where             string // more, with its arguments behind the others
	args              []any
}

// scanned is what a scan yields.
type scanned struct {
	entry
	body       []byte // as it was written; nil when not in warm
	projection []byte // an equal document, of a demoted one
	nid        int32  // with projections, as is what follows
	bare       bool   // in warm and to be queried, and without a projection of its version
	stored     packed // body as it is stored
}

// scanPage is how many rows one statement of a scan reads: no statement runs
// for as long as a namespace is large, and no more is read ahead than that. Of heads
// alone the largest page of a list is one statement.
const (
	scanPage  = 500
	headsPage = 1001
)

// atOnce is how many rows a statement of sc reads at most.
func (sc *scan) atOnce() int {
	if sc.bodies || sc.projections {
		return scanPage
	}
	return headsPage
}

// live calls each for the live documents of sc, in id order, until it returns
// false. A page holds at most first rows at the start, as many as one may later.
func (s *Store) live(ctx context.Context, sc scan, first int, each func(scanned, time.Time) (more bool, err error)) error {
	size, seen := min(max(first, 1), sc.atOnce()), 0
	for _, sp := range sc.spans {
		from, open := sp.From, false // open: the first id is not in it
		if after := []byte(sc.after); bytes.Compare(after, from) >= 0 {
			from, open = after, true
		}
		for {
			page, now, err := s.page(ctx, &sc, from, open, sp.To, size)
			if err != nil {
				return err
			}
			for _, row := range page {
				if more, err := each(row, now); err != nil || !more {
					return err
				}
			}
			if len(page) < size {
				break
			}
			from, open, size = []byte(page[len(page)-1].head.Key.ID), true, sc.atOnce()
			if seen += len(page); sc.most > 0 {
				size = max(1, min(size, sc.most-seen))
			}
		}
	}
	return nil
}

// page reads up to size rows of a scan.
func (s *Store) page(ctx context.Context, sc *scan, from []byte, open bool, to []byte, size int) (out []scanned, now time.Time, err error) {
	sql, args := s.pageQuery(sc, from, open, to, size)
	err = s.read(ctx, func(c querier) error {
		out = nil
		into := newScanRow()
		return each(ctx, c, sql, args, func(row pgx.Rows) error {
			if err := row.Scan(into.into...); err != nil {
				return err
			}
			r, at := s.scanned(sc, into)
			if out == nil {
				out = make([]scanned, 0, size)
			}
			out, now = append(out, r), at
			return nil
		})
	})
	return out, now, err
}

// pageQuery is the statement of a page and its arguments.
func (s *Store) pageQuery(sc *scan, from []byte, open bool, to []byte, size int) (sql string, args []any) {
	args = []any{s.fixedNow(), sc.tenant, sc.namespace, from, size}
	arg := func(v any) string {
		args = append(args, v)
		return fmt.Sprint("$", len(args))
	}
	var q strings.Builder
	q.WriteString(`WITH k AS MATERIALIZED (SELECT ` + nowFrom + ` AS now) SELECT k.now, h.id, ` + headColumns)
	q.WriteString(pick(sc.bodies, `, v.coding, v.body`, `, NULL::smallint, NULL::bytea`))
	q.WriteString(pick(sc.projections, `, h.nid, p.version, p.coding, CASE WHEN h.flags & 2 = 0 THEN p.body END, CASE WHEN h.flags & 2 = 0 AND (p.version IS NULL OR p.version = h.version) THEN p.doc::text END`,
		`, 0, NULL::bigint, NULL::smallint, NULL::bytea, NULL::text`))
	q.WriteString(` FROM k CROSS JOIN head h`)
	if sc.bodies {
		q.WriteString(` LEFT JOIN version v ON v.kid = h.kid AND v.version = h.version`)
	}
	if sc.projections {
		q.WriteString(` LEFT JOIN projection p ON p.kid = h.kid`)
	}
	q.WriteString(` WHERE ` + inSpace("$2", "$3") + ` AND h.op = 1 AND (h.expires = 0 OR h.expires > k.now OR h.flags & 1 = 1) AND h.id `)
	q.WriteString(pick(open, `> $4`, `>= $4`))
	if to != nil {
		q.WriteString(` AND h.id < ` + arg(to))
	}
	if sc.user != "" {
		q.WriteString(` AND h.owner = ` + arg(sc.user) + ` AND h.owner <> ''`) // the second for the partial index
	}
	if sc.where != "" {
		q.WriteString(` AND ` + renumber(sc.where, sc.args, arg))
	}
	q.WriteString(` ORDER BY h.id LIMIT $5`)
	return q.String(), args
}

func pick(on bool, yes, no string) string {
	if on {
		return yes
	}
	return no
}

// renumber puts args behind those that are there, in the places of the
// question marks of text.
func renumber(text string, args []any, arg func(any) string) string {
	var out strings.Builder
	for _, a := range args {
		before, after, _ := strings.Cut(text, "\x00")
		out.WriteString(before + arg(a))
		text = after
	}
	return out.String() + text
}

// scanRow receives the rows of a scan, one after the other.
type scanRow struct {
	at               int64
	head             headRow
	id, body, kept   []byte
	coding, keptCode *int16
	nid              int32
	projected        *int64 // the version that the projection is of
	doc              *string
	into             []any
}

func newScanRow() *scanRow {
	r := &scanRow{}
	r.into = append(append([]any{&r.at, &r.id}, r.head.into()...), &r.coding, &r.body, &r.nid, &r.projected, &r.keptCode, &r.kept, &r.doc)
	return r
}

// scanned is what r says. Nothing of it is overwritten by the next row.
func (s *Store) scanned(sc *scan, r *scanRow) (out scanned, now time.Time) {
	out.entry = r.head.entry(tiering.Key{Tenant: sc.tenant, Namespace: sc.namespace, ID: string(r.id)})
	if r.coding != nil {
		out.body, out.stored = s.unpack(r.body, *r.coding), packed{r.body, *r.coding}
	}
	out.nid = r.nid
	out.bare = out.head.InWarm && out.query && (r.projected == nil || *r.projected != out.head.Version)
	switch {
	case r.doc != nil:
		out.projection = []byte(*r.doc)
	case r.keptCode != nil && r.kept != nil:
		out.projection = s.unpack(r.kept, *r.keptCode)
	}
	return out, column.Time(r.at)
}

// List implements warm.Reader.
func (s *Store) List(ctx context.Context, l warm.List) (out []warm.Current, err error) {
	if l.Limit <= 0 {
		return nil, nil
	}
	sc := scan{tenant: l.Tenant, namespace: l.Namespace, spans: idrange.Prefixes(l.Prefix, l.Prefixes), user: l.User, after: l.After, most: l.Limit, bodies: l.Bodies}
	err = s.live(ctx, sc, l.Limit, func(row scanned, now time.Time) (bool, error) {
		if out == nil {
			out = make([]warm.Current, 0, l.Limit)
		}
		out = append(out, warm.Current{Head: row.head, Body: row.body, Now: now})
		return len(out) < l.Limit, nil
	})
	return out, err
}
