package postgres

import (
	"context"
	"time"

	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
)

// Now implements warm.Admin.
func (s *Store) Now(ctx context.Context) (now time.Time, err error) {
	err = s.read(ctx, func(q querier) error {
		at, err := number(ctx, q, `SELECT `+nowFrom, s.fixedNow())
		now = column.Time(at)
		return err
	})
	return now, err
}

// Ping implements warm.Admin: a transaction that really writes.
func (s *Store) Ping(ctx context.Context) error {
	_, err := s.exec(ctx, `INSERT INTO meta (name, number) VALUES ('ping', `+nowFrom+`) ON CONFLICT (name) DO UPDATE SET number = excluded.number`, s.fixedNow())
	return err
}

// statsBound is up to how many rows of a table Stats counts.
const statsBound = 100_000

// Stats implements warm.Admin. It counts up to statsBound rows of a table; of a
// larger one it takes PostgreSQL's estimate of its rows, and what it counted as
// a sample. Rows of a table that was never analyzed are at least those counted.
func (s *Store) Stats(ctx context.Context) (st warm.Stats, err error) {
	bound := int64(statsBound)
	if s.seams.statsBound > 0 {
		bound = s.seams.statsBound
	}
	var heads, versions, feed, requests float64 // rows, as estimated
	err = s.read(ctx, func(q querier) error {
		return q.QueryRow(ctx, `WITH rows AS (SELECT c.relname, greatest(c.reltuples, 0)::float8 AS n FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace)
			SELECT h.n, h.tombs, v.n, v.bytes, f.n, (SELECT count(*) FROM segment), r.n,
			(SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace),
			(SELECT n FROM rows WHERE relname = 'head'), (SELECT n FROM rows WHERE relname = 'version'),
			(SELECT sum(n) FROM rows WHERE relname IN ('feed', 'outbox')), (SELECT n FROM rows WHERE relname = 'request')
			FROM (SELECT count(*) AS n, count(*) FILTER (WHERE op > 1) AS tombs FROM (SELECT op FROM head WHERE op > 0 LIMIT $1) h) h,
				(SELECT count(*) AS n, coalesce(sum(size), 0)::bigint AS bytes FROM (SELECT size FROM version LIMIT $1) v) v,
				(SELECT count(*) AS n FROM (SELECT FROM feed UNION ALL SELECT FROM outbox LIMIT $1) f) f,
				(SELECT count(*) AS n FROM (SELECT FROM request LIMIT $1) r) r`, bound).
			Scan(&st.Heads, &st.Tombstones, &st.Versions, &st.BodyBytes, &st.Feed, &st.Segments, &st.Idempotent, &st.DiskBytes, &heads, &versions, &feed, &requests)
	})
	if err != nil {
		return warm.Stats{}, err
	}
	scale := func(rows float64, counted *int64, parts ...*int64) {
		if *counted < bound || rows <= float64(bound) {
			st.Estimated = st.Estimated || *counted >= bound
			return
		}
		st.Estimated = true
		for _, part := range parts {
			*part = int64(float64(*part) * (rows / float64(*counted)))
		}
		*counted = int64(rows)
	}
	scale(heads, &st.Heads, &st.Tombstones)
	scale(versions, &st.Versions, &st.BodyBytes)
	scale(feed, &st.Feed)
	scale(requests, &st.Idempotent)
	return st, nil
}

// Unsettled implements warm.Settler.
func (s *Store) Unsettled(ctx context.Context) (n int64, err error) {
	err = s.read(ctx, func(q querier) error {
		n, err = number(ctx, q, `SELECT count(*) FROM (SELECT FROM outbox LIMIT $1) o`, statsBound)
		return err
	})
	return n, err
}

// HighWater implements warm.Clock.
func (s *Store) HighWater(ctx context.Context) (at time.Time, err error) {
	err = s.read(ctx, func(q querier) error {
		v, err := number(ctx, q, `SELECT number FROM meta WHERE name = 'high_water'`)
		at = column.Time(v)
		return err
	})
	return at, err
}

// NoteTime implements warm.Clock.
func (s *Store) NoteTime(ctx context.Context, at time.Time, reset bool) error {
	keep := `greatest(m.number, excluded.number)`
	if reset {
		keep = `excluded.number`
	}
	_, err := s.exec(ctx, `INSERT INTO meta AS m (name, number) VALUES ('high_water', $1) ON CONFLICT (name) DO UPDATE SET number = `+keep, column.Micros(at))
	return err
}
