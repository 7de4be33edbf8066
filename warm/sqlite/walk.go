package sqlite

import (
	"context"
	"database/sql/driver"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
)

// walkWindow is how many keys one statement of WalkVersions looks at. A
// statement over all keys of a big store would keep the log from being written
// back for as long as it runs.
const walkWindow = 20_000

// WalkVersions implements warm.Walker. Where a version between two rows has
// left warm, the older one counts as superseded by the row that is left: later
// than it was, so that nothing is moved too early.
func (s *Store) WalkVersions(ctx context.Context, cursor string, limit int) (rows []warm.Superseded, next string, err error) {
	at, err := column.ParsePlace(cursor)
	if err != nil {
		return nil, "", err
	}
	err = s.reader(ctx, func(c *conn) error {
		for {
			last, err := c.number(`SELECT max(kid) FROM version`)
			if err != nil || at.Key > last {
				return err
			}
			end := at.Key + walkWindow
			if err := c.superseded(ctx, &at, end, limit-len(rows), &rows); err != nil {
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

// walkPage is a page of the walk.
const walkPage = `SELECT v.kid, n.tenant, n.name, h.id, h.op, h.version, h.updated, h.flags,
		(SELECT a.at FROM version a WHERE a.kid = v.kid AND a.version > v.version ORDER BY a.version LIMIT 1),
		(SELECT max((g.copy0 = 'verified') + (g.copy1 = 'verified')) FROM location l JOIN segment g ON g.name = l.segment
			WHERE l.tenant = n.tenant AND l.namespace = n.name AND l.id = h.id AND v.version BETWEEN l.min_version AND l.max_version AND g.state = 'finished'),
		` + versionColumns + `
	FROM version v CROSS JOIN head h ON h.kid = v.kid CROSS JOIN namespace n ON n.nid = h.ns
	WHERE (v.kid, v.version) > (?, ?) AND v.kid <= ? AND (v.version <> h.version OR h.op > 1)
	ORDER BY v.kid, v.version LIMIT ?`

// superseded appends up to limit rows behind at, of keys up to end, and moves
// at to the last of them.
func (c *conn) superseded(ctx context.Context, at *column.Place, end int64, limit int, rows *[]warm.Superseded) error {
	return c.each(ctx, walkPage, []any{at.Key, at.Version, end, int64(limit)}, func(v []driver.Value) error {
		key := tiering.Key{Tenant: text(v[1]), Namespace: text(v[2]), ID: string(blob(v[3]))}
		row := warm.Superseded{Version: scanVersion(key, v[10:]), KeyDeleted: num(v[4]) > 1, Pinned: num(v[7])&column.FlagPinned != 0, Copies: int(num(v[9]))}
		head := num(v[5])
		*at = column.Place{Key: num(v[0]), Version: row.Version.Version}
		if row.Version.Version == head {
			row.Current = true
		} else {
			row.SupersededAt = column.Time(num(v[6]))
			if v[8] != nil {
				row.SupersededAt = column.Time(num(v[8]))
			}
		}
		*rows = append(*rows, row)
		return nil
	})
}
