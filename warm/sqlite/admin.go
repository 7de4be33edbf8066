package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
)

// Now implements warm.Admin.
func (s *Store) Now(ctx context.Context) (time.Time, error) { return s.now(), ctx.Err() }

// Ping implements warm.Admin: a transaction that really writes.
func (s *Store) Ping(ctx context.Context) error {
	return s.write(ctx, func(t *txn) error {
		_, err := t.exec(`INSERT INTO meta (name, value) VALUES ('ping', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value`, column.Micros(t.now))
		return err
	})
}

// Stats implements warm.Admin. It counts over indexes, not over bodies.
func (s *Store) Stats(ctx context.Context) (st warm.Stats, err error) {
	err = s.reader(ctx, func(c *conn) error {
		for _, q := range []struct {
			to   *int64
			text string
		}{
			{&st.Heads, `SELECT count(*) FROM head`},
			{&st.Tombstones, `SELECT count(*) FROM head WHERE op > 1`},
			{&st.Versions, `SELECT count(*) FROM version`},
			{&st.BodyBytes, `SELECT sum(size) FROM version`},
			{&st.Feed, `SELECT count(*) FROM feed`},
			{&st.Segments, `SELECT count(*) FROM segment`},
			{&st.Idempotent, `SELECT count(*) FROM idempotency`},
		} {
			if err := ctx.Err(); err != nil {
				return err
			}
			if *q.to, err = c.number(q.text); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return warm.Stats{}, err
	}
	for _, name := range []string{s.path, s.path + "-wal"} {
		info, err := os.Stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return warm.Stats{}, err
		}
		st.DiskBytes += info.Size()
	}
	return st, nil
}
