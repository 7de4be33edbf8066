package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// The count of the hot epoch is meta's hot_epoch, once it was bumped.
//
// A commit that began before a bump and ends behind it would not know of it,
// and its writer would tell the old epoch of a version that nobody looks for
// there. So every commit holds one lock, shared, from before the statement that
// reads the count, and a bump takes it alone: it waits for the commits that
// run, and those that come wait for it and read what it wrote. It is an
// advisory lock, because one of a table would also wait for vacuum.
const (
	lockHotEpoch = -2 // in the class of the store's locks
	readHotCount = `coalesce((SELECT number FROM meta WHERE name = 'hot_epoch'), 0)`
)

// bumpWait is how long commits may queue behind a bump that waits for one of
// them; bumpPause lets them through before it comes again.
const (
	bumpWait  = 100 * time.Millisecond
	bumpPause = 25 * time.Millisecond
	bumpTries = 40
)

// HotEpoch implements warm.HotEpochs.
func (s *Store) HotEpoch(ctx context.Context) (e tiering.HotEpoch, err error) {
	err = s.read(ctx, func(q querier) error {
		e, err = s.hotEpoch(ctx, q)
		return err
	})
	return e, err
}

func (s *Store) hotEpoch(ctx context.Context, q querier) (tiering.HotEpoch, error) {
	count, err := number(ctx, q, `SELECT `+readHotCount)
	return tiering.HotEpoch{Life: *s.epoch.Load(), Count: count}, err
}

// BumpHotEpoch implements warm.HotEpochs.
func (s *Store) BumpHotEpoch(ctx context.Context, from tiering.HotEpoch) (tiering.HotEpoch, error) {
	if stands, err := s.HotEpoch(ctx); err != nil || stands != from {
		return stands, err
	}
	for try := 1; ; try++ {
		err := s.bump(ctx, from.Count)
		if err == nil {
			return s.HotEpoch(ctx)
		}
		if sqlState(err) != stateLockTimeout || try == bumpTries {
			return tiering.HotEpoch{}, fmt.Errorf("bump the hot epoch: %w", err)
		}
		select {
		case <-time.After(bumpPause):
		case <-ctx.Done():
			return tiering.HotEpoch{}, ctx.Err()
		}
	}
}

func (s *Store) bump(ctx context.Context, from int64) error {
	return s.write(ctx, func(t *txn) error {
		if !s.looseBump {
			if _, err := t.exec(fmt.Sprintf(`SET LOCAL lock_timeout = %d`, bumpWait.Milliseconds())); err != nil {
				return err
			}
			if _, err := t.exec(lockSpace, s.lockClass, lockHotEpoch); err != nil {
				return err
			}
		}
		_, err := t.exec(`INSERT INTO meta AS m (name, number) VALUES ('hot_epoch', $1 + 1)
			ON CONFLICT (name) DO UPDATE SET number = excluded.number WHERE m.number = $1`, from)
		return err
	})
}

// dated gives results the hot epoch of a count.
func (s *Store) dated(results [][]warm.Result, count int64) [][]warm.Result {
	e := tiering.HotEpoch{Life: *s.epoch.Load(), Count: count}
	for _, rows := range results {
		for i := range rows {
			rows[i].HotEpoch = e
		}
	}
	return results
}
