package postgres

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/rules"
)

// commitWithout commits a batch that the server refused for what a row holds,
// without the changes that it refuses: in one transaction and under the batch's
// id, so that its outcome is still one. Which those are it finds out by trying
// each alone, and taking it back.
func (s *Store) commitWithout(ctx context.Context, b *warm.Batch, names map[nsKey]spaceID, bodies [][]packed, cause error) ([][]warm.Result, bool, error) {
	refused := map[int][]warm.Result{}
	var keys []tiering.Key
	for i := range b.Changes {
		results, err := s.refusal(ctx, &b.Changes[i], names, bodies[i])
		switch {
		case err != nil:
			return nil, false, err
		case results != nil:
			refused[i] = results
		default:
			keys = append(keys, b.Changes[i].Key)
		}
	}
	if len(refused) == 0 {
		return nil, false, cause // each passes alone: it was not a row's fault
	}
	w := want{keys: keys, lock: true}
	w.requests, _ = requestsOf(b.Changes)
	return s.commitLocked(ctx, b.ID, w, names, func(st *state) ([][]warm.Result, error) {
		results := make([][]warm.Result, len(b.Changes))
		for i := range b.Changes {
			if results[i] = refused[i]; results[i] != nil {
				continue
			}
			var err error
			if results[i], err = st.apply(&b.Changes[i], bodies[i]); err != nil {
				return nil, err
			}
		}
		return s.dated(results, st.hotCount), nil
	})
}

// refusal returns the results of a change that the server refuses, nil for one
// that it takes: Refused for the rows that it does not take alone, and Again for
// their siblings. Where it takes each row alone all are refused.
func (s *Store) refusal(ctx context.Context, c *warm.Change, names map[nsKey]spaceID, bodies []packed) ([]warm.Result, error) {
	whole := s.try(ctx, c, names, bodies)
	if whole == nil || !refusedData(whole) {
		return nil, whole
	}
	results := rules.Each(c.Rows, warm.Result{Status: warm.Again})
	found := false
	for i := range c.Rows {
		alone := warm.Change{Key: c.Key, Rows: c.Rows[i : i+1]}
		err := s.try(ctx, &alone, names, bodies[i:i+1])
		if err != nil && !refusedData(err) {
			return nil, err
		}
		if err != nil {
			results[i], found = warm.Result{Status: warm.Refused, Err: err}, true
		}
	}
	if !found {
		return rules.Each(c.Rows, warm.Result{Status: warm.Refused, Err: whole}), nil
	}
	return results, nil
}

// try carries out a change and takes it back. Its error is what the server has
// against it, with the projection left out.
func (s *Store) try(ctx context.Context, c *warm.Change, names map[nsKey]spaceID, bodies []packed) error {
	w := want{keys: []tiering.Key{c.Key}, lock: true}
	w.requests, _ = requestsOf([]warm.Change{*c})
	return s.transact(ctx, func(t *txn) error {
		st, err := s.gather(t.ctx, t.conn, w, names)
		if err != nil {
			return err
		}
		results, err := st.apply(c, bodies)
		if err != nil || !st.wrote() {
			return orRollback(err)
		}
		q := &pgx.Batch{}
		st.queue(q, uuid.New(), [][]warm.Result{results}, true)
		return orRollback(t.conn.SendBatch(t.ctx, q).Close())
	})
}
