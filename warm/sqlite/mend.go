package sqlite

import (
	"context"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm/internal/column"
)

// Mend implements warm.Mover: the only statement that changes a version row.
func (s *Store) Mend(ctx context.Context, key tiering.Key, version int64, body []byte) (bool, error) {
	p, digest := s.packBody(body), tiering.DigestOf(body)
	return s.move(ctx, key, func(t *txn, e entry) (bool, error) {
		n, err := t.exec(`UPDATE version SET coding = ?, body = ? WHERE kid = ? AND version = ? AND op = ? AND digest = ?`,
			p.coding, p.bytes, e.kid, version, int64(tiering.OpPut), column.DigestBytes(digest))
		return n > 0, err
	})
}
