package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
)

// ofKey finds a head by its whole key; the tenant is bound in every statement.
// whereKey binds $2, $3 and $4; $1 is the clock's.
const (
	ofKey    = ` FROM namespace n JOIN head h ON h.nid = n.nid AND h.version > 0`
	whereKey = ` WHERE n.tenant = $2 AND n.name = $3 AND h.id = $4`
)

// inSpace keeps heads to a namespace, by two parameters. A page of it is in the order
// of the index then; by a join every page sorts all ids that are left, however many
// the namespace holds.
func inSpace(tenant, name string) string {
	return `h.nid = (SELECT n.nid FROM namespace n WHERE n.tenant = ` + tenant + ` AND n.name = ` + name + `) AND h.version > 0`
}

func (s *Store) keyArgs(k tiering.Key, more ...any) []any {
	return append([]any{s.fixedNow(), k.Tenant, k.Namespace, []byte(k.ID)}, more...)
}

// atClock is a row with the clock, and with columns and what follows when
// there is such a row.
func atClock(columns, from string) string {
	return `SELECT k.now, x.* FROM (SELECT ` + nowFrom + ` AS now) k LEFT JOIN (SELECT ` + columns + from + `) x ON true`
}

var (
	loadKey = atClock(headColumns+`, v.coding, v.body`, ofKey+` LEFT JOIN version v ON v.kid = h.kid AND v.version = h.version`+whereKey)
	headKey = atClock(headColumns+`, NULL::smallint AS coding, NULL::bytea AS body`, ofKey+whereKey)
)

// Load implements warm.Reader: the head and its bytes in one statement.
func (s *Store) Load(ctx context.Context, key tiering.Key) (warm.Current, error) {
	return s.current(ctx, loadKey, key)
}

// Head implements warm.Reader.
func (s *Store) Head(ctx context.Context, key tiering.Key) (warm.Current, error) {
	return s.current(ctx, headKey, key)
}

func (s *Store) current(ctx context.Context, sql string, key tiering.Key) (cur warm.Current, err error) {
	err = s.read(ctx, func(q querier) error {
		var now int64
		var h headRow
		var coding *int16
		var body []byte
		if err := q.QueryRow(ctx, sql, s.keyArgs(key)...).Scan(append(append([]any{&now}, h.into()...), &coding, &body)...); err != nil {
			return err
		}
		cur = warm.Current{Head: h.entry(key).head, Now: column.Time(now)}
		if coding != nil && cur.Head.Live(cur.Now) {
			cur.Body = s.unpack(body, *coding)
		}
		return nil
	})
	return cur, err
}

const versionColumns = `v.version, v.op, v.at, v.created, v.expires, v.size, v.owner, v.digest`

// versionScan receives versionColumns.
type versionScan struct {
	version, at, created, expires, size int64
	op                                  int16
	owner                               string
	digest                              []byte
}

func (r *versionScan) into() []any {
	return []any{&r.version, &r.op, &r.at, &r.created, &r.expires, &r.size, &r.owner, &r.digest}
}

func (r *versionScan) row(key tiering.Key) warm.Version {
	out := warm.Version{
		Key: key, Version: r.version, Op: tiering.Op(r.op), At: column.Time(r.at), CreatedAt: column.Time(r.created),
		ExpiresAt: column.Time(r.expires), Size: r.size, User: r.owner,
	}
	copy(out.Digest[:], r.digest)
	return out
}

// Version implements warm.Reader.
func (s *Store) Version(ctx context.Context, key tiering.Key, version int64) (v warm.Version, ok bool, err error) {
	return s.oneVersion(ctx, key, ` AND v.version = $4`, version)
}

// readVersions looks each of what is asked for up by itself, column by column
// of an index, whatever the planner thinks of the number or of the tables: in
// place of joins, which it may do by another order or with the whole of a table.
// The sum leaves bodies unread that are too long to lie in their rows.
const readVersions = `SELECT x.version, x.op, x.at, x.created, x.expires, x.size, x.owner, x.digest, x.coding, x.body FROM (
	SELECT k.ord, v.*, sum(v.size) OVER (ORDER BY k.ord ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
	FROM unnest($1::text[], $2::text[], $3::bytea[], $4::bigint[]) WITH ORDINALITY k(tenant, name, id, version, ord)
	LEFT JOIN LATERAL (SELECT ` + versionColumns + `, v.coding, v.body FROM version v
		WHERE v.kid = (SELECT h.kid FROM head h WHERE h.nid = (SELECT n.nid FROM namespace n WHERE n.tenant = k.tenant AND n.name = k.name) AND h.id = k.id AND h.version > 0)
		AND v.version = k.version LIMIT 1) v ON true) x
	WHERE coalesce(x.before, 0) < $5 ORDER BY x.ord`

// ReadVersions implements warm.Reader, by one statement. A scan of a table that
// was small when the statement was planned would be done again for each
// version, so it runs where there are none.
func (s *Store) ReadVersions(ctx context.Context, of []warm.KeyVersion, maxBytes int64) (out []warm.Version, err error) {
	if len(of) == 0 {
		return nil, nil
	}
	tenants, names, ids, versions := make([]string, len(of)), make([]string, len(of)), make([][]byte, len(of)), make([]int64, len(of))
	for i, o := range of {
		tenants[i], names[i], ids[i], versions[i] = o.Key.Tenant, o.Key.Namespace, []byte(o.Key.ID), o.Version
	}
	read := func(q querier) error {
		out = make([]warm.Version, 0, len(of))
		return each(ctx, q, readVersions, []any{tenants, names, ids, versions, max(maxBytes, 1)}, func(row pgx.Rows) error {
			if row.RawValues()[0] == nil {
				out = append(out, warm.Version{})
				return nil
			}
			var v versionScan
			var coding int16
			var body []byte
			err := row.Scan(append(v.into(), &coding, &body)...)
			found := v.row(of[len(out)].Key)
			found.Body = s.unpack(body, coding)
			out = append(out, found)
			return err
		})
	}
	err = s.twice(ctx, func() error { return s.on(ctx, s.writers, read) })
	return out, err
}

// AsOf implements warm.Reader. Versions and their times grow together.
func (s *Store) AsOf(ctx context.Context, key tiering.Key, t time.Time) (v warm.Version, ok bool, err error) {
	return s.oneVersion(ctx, key, ` AND v.at <= $4 ORDER BY v.version DESC LIMIT 1`, column.Micros(t))
}

const ofVersion = ofKey + ` JOIN version v ON v.kid = h.kid WHERE n.tenant = $1 AND n.name = $2 AND h.id = $3`

func (s *Store) oneVersion(ctx context.Context, key tiering.Key, which string, arg int64) (out warm.Version, ok bool, err error) {
	err = s.read(ctx, func(q querier) error {
		ok = false
		return each(ctx, q, `SELECT `+versionColumns+`, v.coding, v.body`+ofVersion+which, []any{key.Tenant, key.Namespace, []byte(key.ID), arg}, func(row pgx.Rows) error {
			var v versionScan
			var coding int16
			var body []byte
			err := row.Scan(append(v.into(), &coding, &body)...)
			out, ok = v.row(key), true
			out.Body = s.unpack(body, coding)
			return err
		})
	})
	return out, ok && err == nil, err
}

// Versions implements warm.Reader.
func (s *Store) Versions(ctx context.Context, key tiering.Key, before int64, limit int) (out []warm.Version, err error) {
	if before <= 0 {
		before = 1<<63 - 1
	}
	err = s.read(ctx, func(q querier) error {
		out = nil
		return each(ctx, q, `SELECT `+versionColumns+ofVersion+` AND v.version < $4 ORDER BY v.version DESC LIMIT $5`,
			[]any{key.Tenant, key.Namespace, []byte(key.ID), before, limit}, func(row pgx.Rows) error {
				var v versionScan
				err := row.Scan(v.into()...)
				out = append(out, v.row(key))
				return err
			})
	})
	return out, err
}
