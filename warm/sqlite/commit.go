package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
	"github.com/tierd/tierd/warm/internal/rules"
)

// Commit implements warm.Committer. A batch in which nothing changed leaves
// nothing behind, not even its id.
func (s *Store) Commit(ctx context.Context, b *warm.Batch) ([][]warm.Result, error) {
	bodies := s.pack(b.Changes)
	var results [][]warm.Result
	err := s.commit(ctx, b.ID, func(t *txn) ([][]warm.Result, error) {
		results = make([][]warm.Result, len(b.Changes))
		for i := range b.Changes {
			var err error
			if results[i], err = t.apply(&b.Changes[i], bodies[i]); err != nil {
				return nil, err
			}
		}
		return results, nil
	})
	if err != nil {
		return nil, err
	}
	return s.dated(results), nil
}

// commit runs fn in a transaction that is recorded under id.
func (s *Store) commit(ctx context.Context, id uuid.UUID, fn func(*txn) ([][]warm.Result, error)) error {
	kept := false
	err := s.write(ctx, func(t *txn) error {
		results, err := fn(t)
		if err == nil {
			err = t.record(id, results)
		}
		kept = err == nil
		return err
	})
	if err == nil && kept && s.opts.AfterCommit != nil {
		if lost := s.opts.AfterCommit(); lost != nil {
			return fmt.Errorf("%w: %w", warm.ErrOutcomeUnknown, lost)
		}
	}
	return err
}

// outcome returns what became of a batch: not committed also for an id that
// never came.
func (t *txn) outcome(id uuid.UUID) (results [][]warm.Result, committed bool, err error) {
	row, ok, err := t.one(`SELECT results, changes FROM feed WHERE batch = ?`, id[:])
	if err != nil {
		return nil, false, err
	}
	if ok {
		changes, err := decodeChanges(blob(row[1]))
		if err != nil {
			return nil, false, err
		}
		results, err = decodeResults(blob(row[0]), changes)
		return results, true, err
	}
	row, ok, err = t.one(`SELECT results FROM settled WHERE batch = ?`, id[:])
	if err != nil || !ok || row[0] == nil {
		return nil, false, err
	}
	results, err = decodeResults(blob(row[0]), nil)
	return results, true, err
}

// Resolve implements warm.Committer. There is one writer, so the original has
// ended by the time the insert runs.
func (s *Store) Resolve(ctx context.Context, b *warm.Batch) (results [][]warm.Result, committed bool, err error) {
	err = s.write(ctx, func(t *txn) error {
		results, committed, err = t.outcome(b.ID)
		if err != nil || committed {
			return orRollback(err)
		}
		_, err = t.exec(`INSERT INTO settled (at, batch, results) VALUES (?, ?, NULL) ON CONFLICT DO NOTHING`,
			column.Micros(t.now), b.ID[:])
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return s.dated(results), committed, nil
}

func orRollback(err error) error {
	if err == nil {
		return errRollback
	}
	return err
}

// Atomic implements warm.Committer. The writer is held from the first read to
// the commit, so no head can move in between.
func (s *Store) Atomic(ctx context.Context, id uuid.UUID, keys []tiering.Key, idem *warm.Idempotency,
	decide func([]warm.Current) ([]warm.Change, error)) (results [][]warm.Result, committed bool, err error) {
	err = s.commit(ctx, id, func(t *txn) ([][]warm.Result, error) {
		var known bool
		if results, known, err = t.replayAll(idem); err != nil || known {
			committed = known && results[0][0].Status == warm.Replayed
			return nil, orRollback(err)
		}
		stand, err := t.load(keys)
		if err != nil {
			return nil, err
		}
		changes, err := decide(stand)
		if err != nil {
			return nil, err
		}
		bodies := s.pack(changes)
		results, committed, err = rules.ApplyAll(keys, changes, func(i int) ([]warm.Result, error) { return t.apply(&changes[i], bodies[i]) })
		if err != nil {
			return nil, err
		}
		if !committed {
			return nil, errRollback
		}
		if idem != nil {
			if err := t.onceAll(idem, results); err != nil {
				return nil, err
			}
		}
		return results, nil
	})
	if err == nil {
		return s.dated(results), committed, nil
	}
	if errors.Is(err, warm.ErrOutcomeUnknown) {
		// The caller may be gone; the answer is one look-up away all the same.
		return s.Resolve(context.WithoutCancel(ctx), &warm.Batch{ID: id})
	}
	return nil, false, err
}
