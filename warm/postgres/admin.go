package postgres

import (
	"context"
	"time"

	"github.com/tierd/tierd/warm"
)

// Now implements warm.Admin.
func (s *Store) Now(ctx context.Context) (now time.Time, err error) {
	err = s.read(ctx, func(q querier) error {
		at, err := number(ctx, q, `SELECT `+nowFrom, s.fixedNow())
		now = fromMicros(at)
		return err
	})
	return now, err
}

// Ping implements warm.Admin: a transaction that really writes.
func (s *Store) Ping(ctx context.Context) error {
	_, err := s.exec(ctx, `INSERT INTO meta (name, number) VALUES ('ping', `+nowFrom+`) ON CONFLICT (name) DO UPDATE SET number = excluded.number`, s.fixedNow())
	return err
}

// Stats implements warm.Admin. It counts, which takes as long as the tables are
// large.
func (s *Store) Stats(ctx context.Context) (st warm.Stats, err error) {
	err = s.read(ctx, func(q querier) error {
		return q.QueryRow(ctx, `SELECT (SELECT count(*) FROM head WHERE op > 0), (SELECT count(*) FROM head WHERE op > 1), v.n, v.bytes,
			(SELECT count(*) FROM feed) + (SELECT count(*) FROM outbox), (SELECT count(*) FROM segment), (SELECT count(*) FROM request),
			(SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace)
			FROM (SELECT count(*) AS n, coalesce(sum(size), 0)::bigint AS bytes FROM version) v`).
			Scan(&st.Heads, &st.Tombstones, &st.Versions, &st.BodyBytes, &st.Feed, &st.Segments, &st.Idempotent, &st.DiskBytes)
	})
	return st, err
}

// HighWater implements warm.Clock.
func (s *Store) HighWater(ctx context.Context) (at time.Time, err error) {
	err = s.read(ctx, func(q querier) error {
		v, err := number(ctx, q, `SELECT number FROM meta WHERE name = 'high_water'`)
		at = fromMicros(v)
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
	_, err := s.exec(ctx, `INSERT INTO meta AS m (name, number) VALUES ('high_water', $1) ON CONFLICT (name) DO UPDATE SET number = `+keep, micros(at))
	return err
}
