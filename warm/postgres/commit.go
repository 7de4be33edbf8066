package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/rules"
)

// maxRows is more rows than a batch has.
const maxRows = 1 << 16

// Commit implements warm.Committer. A batch in which nothing changed leaves
// nothing behind, not even its id.
func (s *Store) Commit(ctx context.Context, b *warm.Batch) ([][]warm.Result, error) {
	if err := s.alive(ctx); err != nil {
		return nil, err
	}
	keys := make([]tiering.Key, len(b.Changes))
	for i := range b.Changes {
		keys[i] = b.Changes[i].Key
	}
	names, err := s.numbered(ctx, keys)
	if err != nil {
		return nil, s.explain(err)
	}
	bodies := s.packAll(b.Changes)
	results, kept, err := s.commitBatch(ctx, b, keys, names, bodies)
	if refusedData(err) && !errors.Is(err, warm.ErrOutcomeUnknown) && !s.seams.wholeBatches {
		results, kept, err = s.commitWithout(ctx, b, names, bodies, err)
	}
	if err != nil {
		if violates(err, "batch_id") {
			return nil, s.repeated(ctx, b.ID)
		}
		return nil, err
	}
	return results, s.acknowledge(kept)
}

// commitBatch takes the way that suits the batch.
func (s *Store) commitBatch(ctx context.Context, b *warm.Batch, keys []tiering.Key, names map[nsKey]spaceID, bodies [][]packed) ([][]warm.Result, bool, error) {
	if !rememberers(names) && plainPuts(b.Changes, names) {
		return s.commitPuts(ctx, b, names, bodies)
	}
	w := want{keys: keys, lock: true}
	w.requests, _ = requestsOf(b.Changes)
	return s.commitLocked(ctx, b.ID, w, names, func(st *state) ([][]warm.Result, error) {
		results := make([][]warm.Result, len(b.Changes))
		for i := range b.Changes {
			var err error
			if results[i], err = st.apply(&b.Changes[i], bodies[i]); err != nil {
				return nil, err
			}
		}
		return s.dated(results, st.hotCount), nil
	})
}

// acknowledge ends a commit that changed something.
func (s *Store) acknowledge(kept bool) error {
	if !kept {
		return nil
	}
	select {
	case s.commits <- struct{}{}:
	default: // the sequencer knows already
	}
	if s.opts.AfterCommit != nil {
		if lost := s.opts.AfterCommit(); lost != nil {
			return unknown(lost)
		}
	}
	return nil
}

// packAll prepares the bodies of changes.
func (s *Store) packAll(changes []warm.Change) [][]packed {
	out := make([][]packed, len(changes))
	for i := range changes {
		out[i] = make([]packed, len(changes[i].Rows))
		for j := range changes[i].Rows {
			out[i][j] = s.pack(changes[i].Rows[j].Body)
		}
	}
	return out
}

// commitLocked locks what w wants, has decide say what becomes of it, and
// commits that under id: three round trips with the lock of a namespace's
// first key, two without. kept is false when there was nothing to keep. A
// projection that the server refuses is left empty in a second run.
func (s *Store) commitLocked(ctx context.Context, id uuid.UUID, w want, names map[nsKey]spaceID, decide func(*state) ([][]warm.Result, error)) (results [][]warm.Result, kept bool, err error) {
	for _, plain := range []bool{false, true} {
		var flushed *state
		err = s.transact(ctx, func(t *txn) error {
			kept, flushed = false, nil
			st, err := s.gather(t.ctx, t.conn, w, names)
			if err != nil {
				return err
			}
			if results, err = decide(st); err != nil {
				return err
			}
			if !st.wrote() {
				return errRollback
			}
			flushed = st
			if err := t.flush(st, id, results, plain); err != nil {
				return err
			}
			kept = true
			return nil
		})
		if err == nil && kept {
			s.projector.project(flushed)
		}
		if flushed == nil || plain || !refusedData(err) {
			break
		}
		s.refused.Add(int64(len(flushed.docs)))
	}
	if err != nil {
		return nil, false, err
	}
	return results, kept, nil
}

// outcome returns what became of a batch: not committed also for an id that
// never came.
func (s *Store) outcome(ctx context.Context, q querier, id uuid.UUID) (results [][]warm.Result, committed bool, err error) {
	var stored, packed []byte
	err = q.QueryRow(ctx, `SELECT results, changes FROM batch WHERE id = $1`, id).Scan(&stored, &packed)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, false, nil
	}
	if err != nil || stored == nil {
		return nil, false, err
	}
	var changes []made
	if packed != nil {
		if changes, err = decodeChanges(packed); err != nil {
			return nil, false, err
		}
	}
	results, err = decodeResults(stored, changes)
	return results, err == nil, err
}

// Resolve implements warm.Committer. The insert of the id waits for an
// original that is under way.
func (s *Store) Resolve(ctx context.Context, b *warm.Batch) (results [][]warm.Result, committed bool, err error) {
	err = s.twice(ctx, func() error {
		return s.on(ctx, s.writers, func(q querier) error {
			if _, err := q.Exec(ctx, `INSERT INTO batch (at, id) VALUES (`+nowFrom+`, $2) ON CONFLICT (id) DO NOTHING`, s.fixedNow(), b.ID); err != nil {
				return err
			}
			results, committed, err = s.outcome(ctx, q, b.ID)
			return err
		})
	})
	if err != nil || !committed {
		return nil, false, err
	}
	if err := s.say(ctx, b.Changes, results); err != nil {
		return nil, false, err
	}
	now, err := s.HotEpoch(ctx)
	if err != nil {
		return nil, false, err
	}
	return s.dated(results, now.Count), true, nil
}

// repeated says why a batch whose id has come before can not commit.
func (s *Store) repeated(ctx context.Context, id uuid.UUID) error {
	var committed bool
	err := s.on(ctx, s.writers, func(q querier) (err error) {
		_, committed, err = s.outcome(ctx, q, id)
		return err
	})
	switch {
	case err != nil:
		return unknown(err)
	case committed:
		return unknown(fmt.Errorf("batch %s was committed before", id))
	}
	return fmt.Errorf("batch %s was resolved as never committed: its changes need a new id", id)
}

// Atomic implements warm.Committer. The heads are locked from the first read
// to the commit. decide may be called more than once: when the server rolled
// the transaction back for the sake of another.
func (s *Store) Atomic(ctx context.Context, id uuid.UUID, keys []tiering.Key, idem *warm.Idempotency,
	decide func([]warm.Current) ([]warm.Change, error)) (results [][]warm.Result, committed bool, err error) {
	if err := s.alive(ctx); err != nil {
		return nil, false, err
	}
	names, err := s.numbered(ctx, keys)
	if err != nil {
		return nil, false, s.explain(err)
	}
	w := want{keys: keys, bodies: true, lock: true}
	if idem != nil {
		w.requests = append(w.requests, idem)
	}
	var replayed bool
	var hotCount int64
	var answer [][]warm.Result
	_, kept, err := s.commitLocked(ctx, id, w, names, func(st *state) ([][]warm.Result, error) {
		var err error
		hotCount = st.hotCount
		if answer, replayed, err = st.replayAll(idem); err != nil || replayed {
			committed = replayed && answer[0][0].Status == warm.Replayed
			return nil, err
		}
		changes, err := decide(s.currents(st, keys))
		if err != nil {
			return nil, err
		}
		bodies := s.packAll(changes)
		answer, committed, err = rules.ApplyAll(keys, changes, func(i int) ([]warm.Result, error) { return st.apply(&changes[i], bodies[i]) })
		if err != nil {
			return nil, err
		}
		if !committed {
			return nil, errRollback
		}
		if idem != nil {
			st.rememberAll(idem, answer)
		}
		return answer, nil
	})
	if err == nil {
		err = s.acknowledge(kept)
	}
	switch {
	case err == nil:
		return s.dated(answer, hotCount), committed, nil
	case violates(err, "batch_id"):
		return nil, false, s.repeated(ctx, id)
	case errors.Is(err, warm.ErrOutcomeUnknown):
		// The caller may be gone; the answer is one look-up away all the same.
		results, committed, rerr := s.Resolve(context.WithoutCancel(ctx), &warm.Batch{ID: id})
		if rerr != nil {
			return nil, false, unknown(errors.Join(err, rerr))
		}
		return results, committed, nil
	}
	return nil, false, err
}

// currents are what stands under keys.
func (s *Store) currents(st *state, keys []tiering.Key) []warm.Current {
	out := make([]warm.Current, len(keys))
	for i, k := range keys {
		out[i].Now = st.now
		e := st.entries[k]
		if e == nil {
			continue
		}
		out[i].Head = e.head
		if e.head.Live(st.now) {
			out[i].Body = s.unpack(e.body.bytes, e.body.coding)
		}
	}
	return out
}
