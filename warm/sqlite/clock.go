package sqlite

import (
	"context"
	"time"

	"github.com/tierd/tierd/warm/internal/column"
)

// HighWater implements warm.Clock.
func (s *Store) HighWater(ctx context.Context) (at time.Time, err error) {
	err = s.reader(ctx, func(c *conn) error {
		v, err := c.number(`SELECT value FROM meta WHERE name = 'high_water'`)
		at = column.Time(v)
		return err
	})
	return at, err
}

// NoteTime implements warm.Clock.
func (s *Store) NoteTime(ctx context.Context, at time.Time, reset bool) error {
	keep := `max(value, excluded.value)`
	if reset {
		keep = `excluded.value`
	}
	return s.write(ctx, func(t *txn) error {
		_, err := t.exec(`INSERT INTO meta (name, value) VALUES ('high_water', ?) ON CONFLICT (name) DO UPDATE SET value = `+keep, column.Micros(at))
		return err
	})
}
