package router

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// cutOff loses the answer of the first commit of a key of space, behind the
// commit itself.
type cutOff struct {
	warm.Store
	done atomic.Bool
}

func cut(s warm.Store) warm.Store { return &cutOff{Store: s} }

func (w *cutOff) Commit(ctx context.Context, b *warm.Batch) ([][]warm.Result, error) {
	results, err := w.Store.Commit(ctx, b)
	if err == nil && b.Changes[0].Key.Namespace == space && !w.done.Swap(true) {
		return nil, fmt.Errorf("%w: connection reset", warm.ErrOutcomeUnknown)
	}
	return results, err
}

// hopeful takes a lost answer for a commit that did not happen.
type hopeful struct{ warm.Store }

func (w hopeful) Commit(ctx context.Context, b *warm.Batch) ([][]warm.Result, error) {
	results, err := w.Store.Commit(ctx, b)
	if errors.Is(err, warm.ErrOutcomeUnknown) {
		return w.Store.Commit(ctx, &warm.Batch{ID: uuid.New(), Changes: b.Changes})
	}
	return results, err
}

// A commit whose reply was cut is one version, and its writer gets its result.
func TestRaceR10TheReplyToACommitIsCut(t *testing.T) {
	naive := setup{warm: func(s warm.Store) warm.Store { return hopeful{cut(s)} }}
	raceOn(t, everywhere(), setup{warm: cut}, naive, func(w *world) error {
		rc, err := w.writer.Put(w.ctx, space, "k", []byte(`1`), nil)
		w.no(err)
		if rc.Version != 1 || !rc.Created || rc.Digest != tiering.DigestOf([]byte(`1`)) {
			return violatedf("the writer was told of version %d, created %t", rc.Version, rc.Created)
		}
		h, err := w.r.History(w.ctx, space, "k", nil)
		w.no(err)
		if len(h.Versions) != 1 || w.strong("k") != `1` {
			return violatedf("%d versions stand for one write", len(h.Versions))
		}
		if rc = w.put("k", `2`); rc.Version != 2 {
			return violatedf("the next write made version %d", rc.Version)
		}
		return nil
	})
}
