package sqlite

import (
	"context"
	"database/sql/driver"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
)

// Epoch implements warm.Feed.
func (s *Store) Epoch(context.Context) (string, error) { return *s.epoch.Load(), nil }

// ReadFeed implements warm.Feed.
func (s *Store) ReadFeed(ctx context.Context, after int64, limit int) (out []warm.FeedEntry, err error) {
	err = s.reader(ctx, func(c *conn) error {
		// One statement, so that a trim can not come between the check and the read.
		return c.each(ctx, `SELECT m.value, f.pos, f.changes FROM meta m
			LEFT JOIN (SELECT pos, changes FROM feed WHERE pos > ? ORDER BY pos LIMIT ?) f WHERE m.name = 'trimmed'`,
			[]any{after, int64(limit)}, func(v []driver.Value) error {
				if trimmed := num(v[0]); after < trimmed {
					return tiering.Errorf(tiering.CodeGone, "the feed was trimmed up to %d: entries behind %d are gone", trimmed, after)
				}
				if v[1] == nil {
					return nil
				}
				changes, err := decodeChanges(blob(v[2]))
				out = append(out, warm.FeedEntry{Pos: num(v[1]), Changes: changes})
				return err
			})
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// FeedBounds implements warm.Feed.
func (s *Store) FeedBounds(ctx context.Context) (first, last int64, err error) {
	err = s.reader(ctx, func(c *conn) error {
		return c.each(ctx, `SELECT m.value, coalesce((SELECT max(pos) FROM feed), 0) FROM meta m WHERE m.name = 'trimmed'`, nil,
			func(v []driver.Value) error {
				first, last = num(v[0])+1, max(num(v[0]), num(v[1]))
				return nil
			})
	})
	return first, last, err
}

// WaitFeed implements warm.Feed.
func (s *Store) WaitFeed(ctx context.Context, after int64) error {
	for {
		news := s.news.Wait() // before the look, so that no commit is missed
		if s.last.Load() > after {
			return nil
		}
		select {
		case <-news:
		case <-s.closing:
			return errClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// trimStep bounds one transaction of TrimFeed.
const trimStep = 2000

// TrimFeed implements warm.Feed, in transactions of at most trimStep rows of
// each kind, so that writers wait for none of them long.
func (s *Store) TrimFeed(ctx context.Context, before time.Time) error {
	for {
		var n int64
		err := s.write(ctx, func(t *txn) (err error) {
			n, err = t.trim(column.Micros(before))
			return err
		})
		if err != nil || n < trimStep {
			return err
		}
	}
}

// trim drops one step and returns the largest number of rows of a kind.
func (t *txn) trim(before int64) (most int64, err error) {
	// The first entry that stays: too young, or not passed by every reader.
	trimmed, err := t.number(`SELECT coalesce(max(pos), 0) FROM (
		SELECT pos FROM feed WHERE pos < coalesce((SELECT pos FROM feed WHERE at >= ? ORDER BY pos LIMIT 1), 1 << 62)
			AND pos <= coalesce((SELECT min(pos) FROM position), 1 << 62) ORDER BY pos LIMIT ?)`, before, int64(trimStep))
	if err != nil {
		return 0, err
	}
	if trimmed > 0 {
		if most, err = t.exec(`DELETE FROM feed WHERE pos <= ?`, trimmed); err != nil {
			return 0, err
		}
		if _, err = t.exec(`UPDATE meta SET value = max(value, ?) WHERE name = 'trimmed'`, trimmed); err != nil {
			return 0, err
		}
	}
	clear(t.sweeps) // numbers of rows that are gone may come again
	// Rows are numbered in the order of their times, but for a clock that was
	// set back, so the old ones come first.
	for _, q := range []string{
		`DELETE FROM settled WHERE seq IN (SELECT seq FROM settled WHERE at < ? ORDER BY seq LIMIT ?)`,
		`DELETE FROM idempotency WHERE seq IN (SELECT seq FROM idempotency WHERE at < ? ORDER BY seq LIMIT ?)`,
	} {
		n, err := t.exec(q, before, int64(trimStep))
		if err != nil {
			return 0, err
		}
		most = max(most, n)
	}
	return most, nil
}

// Position implements warm.Feed.
func (s *Store) Position(ctx context.Context, reader string) (pos int64, err error) {
	err = s.reader(ctx, func(c *conn) error {
		pos, err = c.number(`SELECT pos FROM position WHERE reader = ?`, reader)
		return err
	})
	return pos, err
}

// SetPosition implements warm.Feed.
func (s *Store) SetPosition(ctx context.Context, reader string, pos int64) error {
	return s.write(ctx, func(t *txn) error { return t.setPosition(reader, pos) })
}

func (t *txn) setPosition(reader string, pos int64) error {
	_, err := t.exec(`INSERT INTO position (reader, pos) VALUES (?, ?)
		ON CONFLICT (reader) DO UPDATE SET pos = max(pos, excluded.pos)`, reader, pos)
	return err
}
