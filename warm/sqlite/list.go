package sqlite

import (
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
	"strings"
	"time"

	"github.com/tierd/tierd/internal/idrange"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
)

// scan selects current documents of a namespace.
type scan struct {
	tenant, namespace string
	prefix            string
	prefixes          []string
	user              string
	after             string
	bodies            bool // version rows' bytes
	projections       bool // also those of demoted documents
}

// scanned is what a scan yields.
type scanned struct {
	entry
	body       []byte // as it was written; nil when not in warm
	projection []byte // the same of a demoted document
}

// errStop ends a scan early.
var errStop = errors.New("stop")

// live calls each for the live documents of sc, in id order, until it returns
// false.
func (s *Store) live(ctx context.Context, c *conn, sc scan, now time.Time, each func(scanned) (more bool, err error)) error {
	var q strings.Builder
	q.WriteString(`SELECT h.id, ` + headColumns)
	if sc.bodies {
		q.WriteString(`, +v.coding, +v.body`)
	}
	if sc.projections {
		q.WriteString(`, p.coding, p.body`)
	}
	q.WriteString(ofKey)
	if sc.bodies {
		q.WriteString(` LEFT JOIN version v ON v.kid = h.kid AND v.version = h.version`)
	}
	if sc.projections {
		q.WriteString(` LEFT JOIN projection p ON p.kid = h.kid`)
	}
	q.WriteString(` WHERE n.tenant = ? AND n.name = ? AND h.op = 1 AND (h.expires = 0 OR h.expires > ? OR h.flags & 1 = 1)`)
	base := []any{sc.tenant, sc.namespace, column.Micros(now)}
	if sc.user != "" {
		q.WriteString(` AND h.user = ? AND h.user <> ''`) // the second for the partial index
		base = append(base, sc.user)
	}
	for _, sp := range idrange.Prefixes(sc.prefix, sc.prefixes) {
		// One bound at each end, so that a late page does not read the early ones.
		text, args := q.String()+` AND h.id >= ?`, append(append([]any(nil), base...), sp.From)
		if after := []byte(sc.after); bytes.Compare(after, sp.From) >= 0 {
			text, args = q.String()+` AND h.id > ?`, append(append([]any(nil), base...), after)
		}
		if sp.To != nil {
			text += ` AND h.id < ?`
			args = append(args, sp.To)
		}
		err := c.each(ctx, text+` ORDER BY h.id`, args, func(v []driver.Value) error {
			more, err := each(s.scanned(sc, v))
			if err == nil && !more {
				return errStop
			}
			return err
		})
		if errors.Is(err, errStop) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) scanned(sc scan, v []driver.Value) (row scanned) {
	key := tiering.Key{Tenant: sc.tenant, Namespace: sc.namespace, ID: string(blob(v[0]))}
	row.entry = scanHead(key, v[1:])
	at := 1 + headColumnCount
	if sc.bodies {
		row.body = s.unpack(blob(v[at+1]), num(v[at]))
		at += 2
	}
	if sc.projections {
		row.projection = s.unpack(blob(v[at+1]), num(v[at]))
	}
	return row
}

// List implements warm.Reader.
func (s *Store) List(ctx context.Context, l warm.List) (out []warm.Current, err error) {
	if l.Limit <= 0 {
		return nil, nil
	}
	now := s.now()
	sc := scan{tenant: l.Tenant, namespace: l.Namespace, prefix: l.Prefix, prefixes: l.Prefixes, user: l.User, after: l.After, bodies: l.Bodies}
	err = s.reader(ctx, func(c *conn) error {
		return s.live(ctx, c, sc, now, func(row scanned) (bool, error) {
			if out == nil {
				out = make([]warm.Current, 0, l.Limit)
			}
			out = append(out, warm.Current{Head: row.head, Body: row.body, Now: now})
			return len(out) < l.Limit, nil
		})
	})
	return out, err
}
