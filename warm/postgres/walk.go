package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
)

// walkWindow is how many keys one statement of WalkVersions looks at.
const walkWindow = 20_000

// WalkVersions implements warm.Walker. Where a version between two rows has
// left warm, the older one counts as superseded by the row that is left: later
// than it was, so that nothing is moved too early.
func (s *Store) WalkVersions(ctx context.Context, cursor string, limit int) (rows []warm.Superseded, next string, err error) {
	start, err := column.ParsePlace(cursor)
	if err != nil {
		return nil, "", err
	}
	err = s.read(ctx, func(q querier) error {
		at := start
		rows, next = nil, ""
		for {
			// The next key that has a row, so that a gap in the numbers is passed
			// in one step.
			first, err := number(ctx, q, `SELECT min(kid) FROM version WHERE (kid, version) > ($1, $2)`, at.Key, at.Version)
			if err != nil || first == 0 {
				return err
			}
			end := first + walkWindow
			if err := superseded(ctx, q, &at, end, limit-len(rows), &rows); err != nil {
				return err
			}
			if len(rows) >= limit {
				next = at.String()
				return nil
			}
			at = column.Place{Key: end + 1}
		}
	})
	if err != nil {
		return nil, "", err
	}
	return rows, next, nil
}

// walkPage is a page of the walk. The bounds of heads are said too: a join that
// merges would read all heads below them.
const walkPage = `SELECT v.kid, n.tenant, n.name, h.id, h.op, h.version, h.updated, h.flags,
		(SELECT a.at FROM version a WHERE a.kid = v.kid AND a.version > v.version ORDER BY a.version LIMIT 1),
		(SELECT max((g.copy0 = 'verified')::int + (g.copy1 = 'verified')::int) FROM location l JOIN segment g ON g.name = l.segment
			WHERE l.tenant = n.tenant AND l.namespace = n.name AND l.id = h.id AND v.version BETWEEN l.min_version AND l.max_version AND g.state = 'finished'),
		` + versionColumns + `
	FROM version v JOIN head h ON h.kid = v.kid JOIN namespace n ON n.nid = h.nid
	WHERE (v.kid, v.version) > ($1, $2) AND v.kid <= $3 AND h.kid BETWEEN $1 AND $3 AND (v.version <> h.version OR h.op > 1)
	ORDER BY v.kid, v.version LIMIT $4`

// superseded appends up to limit rows behind at, of keys up to end, and moves
// at to the last of them.
func superseded(ctx context.Context, q querier, at *column.Place, end int64, limit int, rows *[]warm.Superseded) error {
	return each(ctx, q, walkPage, []any{at.Key, at.Version, end, limit}, func(row pgx.Rows) error {
		var key tiering.Key
		var id []byte
		var kid, head, updated int64
		var op, f int16
		var next *int64
		var copies *int
		var v versionScan
		if err := row.Scan(append([]any{&kid, &key.Tenant, &key.Namespace, &id, &op, &head, &updated, &f, &next, &copies}, v.into()...)...); err != nil {
			return err
		}
		key.ID = string(id)
		out := warm.Superseded{Version: v.row(key), KeyDeleted: op > 1, Pinned: f&column.FlagPinned != 0}
		if copies != nil {
			out.Copies = *copies
		}
		*at = column.Place{Key: kid, Version: v.version}
		switch {
		case v.version == head:
			out.Current = true
		case next != nil:
			out.SupersededAt = column.Time(*next)
		default:
			out.SupersededAt = column.Time(updated)
		}
		*rows = append(*rows, out)
		return nil
	})
}
