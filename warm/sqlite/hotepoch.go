package sqlite

import (
	"context"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// meta holds hot_epoch, the count of the hot epoch, once it was bumped.

// HotEpoch implements warm.HotEpochs.
func (s *Store) HotEpoch(ctx context.Context) (tiering.HotEpoch, error) {
	return tiering.HotEpoch{Life: *s.epoch.Load(), Count: s.hotCount.Load()}, ctx.Err()
}

// BumpHotEpoch implements warm.HotEpochs. There is one writer: whatever was
// committed before can be read, and what is committed later finds the count.
func (s *Store) BumpHotEpoch(ctx context.Context, from tiering.HotEpoch) (tiering.HotEpoch, error) {
	err := s.write(ctx, func(t *txn) error {
		if from != (tiering.HotEpoch{Life: *s.epoch.Load(), Count: s.hotCount.Load()}) {
			return errRollback
		}
		next := from.Count + 1
		t.committed = func() { s.hotCount.Store(next) }
		_, err := t.exec(`INSERT INTO meta (name, value) VALUES ('hot_epoch', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value`, next)
		return err
	})
	if err != nil {
		return tiering.HotEpoch{}, err
	}
	return s.HotEpoch(ctx)
}

// dated gives results the hot epoch. It is read after the commit, so a bump
// that came before it is seen.
func (s *Store) dated(results [][]warm.Result) [][]warm.Result {
	e := tiering.HotEpoch{Life: *s.epoch.Load(), Count: s.hotCount.Load()}
	for _, rows := range results {
		for i := range rows {
			rows[i].HotEpoch = e
		}
	}
	return results
}
