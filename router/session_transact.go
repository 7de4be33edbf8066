package router

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// lostTries is how often a transaction is sent again that was lost, or whose bytes
// lay in cold.
const lostTries = 3

// transact runs an atomic transaction over keys, which are sorted here, and brings
// up what lies in cold alone. Hot knows none of these keys.
func (r *core) transact(ctx context.Context, keys []tiering.Key, idem *warm.Idempotency, decide func([]warm.Current) ([]warm.Change, error)) (results [][]warm.Result, committed bool, err error) {
	if r.warmAway() {
		return nil, false, errAway()
	}
	if err := r.enter(); err != nil {
		return nil, false, err
	}
	defer r.background.Done()
	// A caller that leaves does not undo what may have been committed.
	dctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.CommitTimeout)
	defer cancel()
	for tries := 0; ; tries++ {
		results, committed, err = r.transactOnce(dctx, uuid.New(), keys, idem, decide)
		// A lost commit that was settled as never to come has no results, and is
		// sent again.
		lost := err == nil && !committed && len(results) == 0
		if !lost && !errors.Is(err, errBaseInCold) || tries == lostTries {
			break
		}
		if lost {
			continue
		}
		if err = r.bringUpKeys(dctx, keys); err != nil {
			break
		}
	}
	if err != nil {
		return nil, false, tiering.Wrap(err, "", tiering.Warm, tiering.Key{})
	}
	for _, rows := range results {
		for _, row := range rows {
			r.advance(row.HotEpoch)
		}
	}
	return results, committed, nil
}

// transactOnce is one try: keys need no order, and decide sees each with its name.
func (r *core) transactOnce(ctx context.Context, id uuid.UUID, keys []tiering.Key, idem *warm.Idempotency, decide func([]warm.Current) ([]warm.Change, error)) ([][]warm.Result, bool, error) {
	keys = slices.Clone(keys)
	slices.SortFunc(keys, tiering.Key.Compare)
	keys = slices.Compact(keys)
	results, committed, err := r.Warm.Atomic(ctx, id, keys, idem, func(current []warm.Current) ([]warm.Change, error) {
		for i := range current {
			current[i].Head.Key = keys[i] // also of one that never was
		}
		return decide(current)
	})
	if errors.Is(err, warm.ErrOutcomeUnknown) {
		return r.settleAtomic(ctx, id, err)
	}
	return results, committed, err
}

// settleAtomic settles a transaction whose commit ended with cause, by its id, for
// as long as a commit may take. While warm is away it cannot be settled, and the
// caller is told so.
func (r *core) settleAtomic(ctx context.Context, id uuid.UUID, cause error) ([][]warm.Result, bool, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.CommitTimeout)
	defer cancel()
	for wait := firstResolve; ; wait = min(2*wait, lastResolve) {
		results, committed, err := r.Warm.Resolve(ctx, &warm.Batch{ID: id})
		if err == nil {
			return results, committed, nil
		}
		if r.warmAway() {
			return nil, false, errUnknown(cause)
		}
		pause := time.NewTimer(wait)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil, false, errUnknown(cause)
		}
	}
}

// bringUpKeys promotes documents whose bytes lie in cold alone.
func (r *core) bringUpKeys(ctx context.Context, keys []tiering.Key) error {
	yes := true
	p := *reservedPolicy()
	p.Promote = &yes
	for _, k := range keys {
		if k.Namespace == tiering.SessionEventsNamespace {
			continue
		}
		if _, err := r.load(ctx, k, &p, 0); err != nil {
			return err
		}
	}
	return nil
}
