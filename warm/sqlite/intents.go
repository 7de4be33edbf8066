package sqlite

import (
	"context"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm/internal/column"
)

// DropIntent implements warm.Merger.
func (s *Store) DropIntent(ctx context.Context, name string) (dropped bool, err error) {
	err = s.change(ctx, func(t *txn) error {
		n, err := t.exec(`UPDATE segment SET state = ?, deleting = ? WHERE name = ? AND state = ?`,
			string(tiering.SegmentDeleting), column.Micros(t.now), name, string(tiering.SegmentStarted))
		dropped = n > 0
		if !dropped {
			return orRollback(err)
		}
		return err
	})
	return dropped && err == nil, err
}
