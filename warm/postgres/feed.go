package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
)

// Epoch implements warm.Feed.
func (s *Store) Epoch(ctx context.Context) (string, error) { return *s.epoch.Load(), ctx.Err() }

// ReadFeed implements warm.Feed.
func (s *Store) ReadFeed(ctx context.Context, after int64, limit int) (out []warm.FeedEntry, err error) {
	err = s.read(ctx, func(q querier) error {
		out = nil
		// One statement, so that a trim can not come between the check and the read.
		return each(ctx, q, `SELECT m.trimmed, f.pos, b.changes FROM sequencer m
			LEFT JOIN (SELECT pos, seq FROM feed WHERE pos > $1 ORDER BY pos LIMIT $2) f ON true LEFT JOIN batch b ON b.seq = f.seq ORDER BY f.pos`,
			[]any{after, limit}, func(row pgx.Rows) error {
				var trimmed int64
				var pos *int64
				var packed []byte
				if err := row.Scan(&trimmed, &pos, &packed); err != nil {
					return err
				}
				if after < trimmed {
					return tiering.Errorf(tiering.CodeGone, "the feed was trimmed up to %d: entries behind %d are gone", trimmed, after)
				}
				if pos == nil {
					return nil
				}
				changes, err := decodeChanges(packed)
				out = append(out, warm.FeedEntry{Pos: *pos, Changes: public(changes)})
				return err
			})
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func public(changes []made) []warm.FeedChange {
	out := make([]warm.FeedChange, len(changes))
	for i := range changes {
		out[i] = changes[i].FeedChange
	}
	return out
}

// FeedBounds implements warm.Feed.
func (s *Store) FeedBounds(ctx context.Context) (first, last int64, err error) {
	err = s.read(ctx, func(q querier) error {
		return q.QueryRow(ctx, `SELECT trimmed + 1, greatest(last, trimmed) FROM sequencer`).Scan(&first, &last)
	})
	return first, last, err
}

// The pauses between two looks of WaitFeed at what other daemons' sequencers
// have done.
const (
	firstLook = 20 * time.Millisecond
	lastLook  = 500 * time.Millisecond
)

// WaitFeed implements warm.Feed. This daemon's sequencer wakes it; what another
// one has done is seen by looking, less and less often.
func (s *Store) WaitFeed(ctx context.Context, after int64) error {
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		news := s.news.Wait() // before the look, so that nothing is missed
		if s.last.Load() > after {
			return nil
		}
		_, last, err := s.FeedBounds(ctx)
		switch {
		case err != nil && !lost(err) && !errors.Is(err, errAway): // a quiet feed goes on once the server is back
			return err
		case err == nil && last > after:
			return nil
		}
		timer := time.NewTimer(pause)
		select {
		case <-news:
		case <-timer.C:
		case <-s.closing:
		case <-ctx.Done():
		}
		timer.Stop()
		if err := s.alive(ctx); err != nil {
			return err
		}
	}
}

// trimStep bounds one transaction of TrimFeed.
const trimStep = 2000

// TrimFeed implements warm.Feed, in transactions of at most trimStep rows of
// each kind.
func (s *Store) TrimFeed(ctx context.Context, before time.Time) error {
	for {
		var most int64
		err := s.write(ctx, func(t *txn) (err error) {
			most, err = t.trim(column.Micros(before))
			return err
		})
		if err != nil || most < trimStep {
			return err
		}
	}
}

// trim drops one step and returns the largest number of rows of a kind. Rows
// are numbered in about the order of their times, so the old ones come first.
func (t *txn) trim(before int64) (most int64, err error) {
	if _, err := t.number(`SELECT last FROM sequencer FOR UPDATE`); err != nil {
		return 0, err
	}
	// The first entry that stays: too young, or not passed by every reader.
	trimmed, err := t.number(`SELECT max(pos) FROM (SELECT pos FROM feed
		WHERE pos < coalesce((SELECT f.pos FROM feed f JOIN batch b ON b.seq = f.seq WHERE b.at >= $1 ORDER BY f.pos LIMIT 1), 9223372036854775807)
			AND pos <= coalesce((SELECT min(pos) FROM position), 9223372036854775807) ORDER BY pos LIMIT $2) f`, before, trimStep)
	if err != nil {
		return 0, err
	}
	if trimmed > 0 {
		if most, err = t.exec(`WITH f AS (DELETE FROM feed WHERE pos <= $1 RETURNING seq) DELETE FROM batch b USING f WHERE b.seq = f.seq`, trimmed); err != nil {
			return 0, err
		}
		if _, err = t.exec(`UPDATE sequencer SET trimmed = greatest(trimmed, $1)`, trimmed); err != nil {
			return 0, err
		}
	}
	for _, q := range []string{
		`DELETE FROM batch WHERE seq IN (SELECT seq FROM batch WHERE changes IS NULL AND at < $1
			AND seq < coalesce((SELECT seq FROM batch WHERE changes IS NULL AND at >= $1 ORDER BY seq LIMIT 1), 9223372036854775807) ORDER BY seq LIMIT $2)`,
		`DELETE FROM request WHERE seq IN (SELECT seq FROM request WHERE at < $1
			AND seq < coalesce((SELECT seq FROM request WHERE at >= $1 ORDER BY seq LIMIT 1), 9223372036854775807) ORDER BY seq LIMIT $2)`,
	} {
		n, err := t.exec(q, before, trimStep)
		if err != nil {
			return 0, err
		}
		most = max(most, n)
	}
	return most, nil
}

// Position implements warm.Feed.
func (s *Store) Position(ctx context.Context, reader string) (pos int64, err error) {
	err = s.read(ctx, func(q querier) (err error) {
		pos, err = number(ctx, q, `SELECT pos FROM position WHERE reader = $1`, reader)
		return err
	})
	return pos, err
}

const setPosition = `INSERT INTO position AS p (reader, pos) VALUES ($1, $2) ON CONFLICT (reader) DO UPDATE SET pos = greatest(p.pos, excluded.pos)`

// SetPosition implements warm.Feed.
func (s *Store) SetPosition(ctx context.Context, reader string, pos int64) error {
	_, err := s.exec(ctx, setPosition, reader, pos)
	return err
}
