package lifecycle_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm"
)

// remembering is the store of a rewriter that does not look at its source again: it is
// told what it was told first.
type remembering struct {
	warm.Store
	mu    sync.Mutex
	first map[string]tiering.SegmentInfo
}

func (r *remembering) Segment(ctx context.Context, name string) (tiering.SegmentInfo, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.first[name]; ok {
		return s, true, nil
	}
	s, ok, err := r.Store.Segment(ctx, name)
	if ok {
		r.first[name] = s
	}
	return s, ok, err
}

// R37, of a daemon that writes a marked segment anew. It works under a lease of its own
// for that, and is paused when it has read the records until the eraser's lease is
// another's, who erases and answers. What it read must not come to a bucket then.
func TestRaceR37InAMarkedSegment(t *testing.T) {
	t.Parallel()
	race(t, func(t *testing.T, p place, naive bool) *ward {
		w := newWard(t, wardOptions{place: p})
		w.subject()
		w.flush()
		segments, err := w.store.Segments(w.ctx, tenant, tiering.SegmentFinished, "", 10)
		w.no(err)
		paused := w.config
		paused.Holder, paused.LeaseTTL = "paused", time.Millisecond
		if naive {
			paused.Warm = &remembering{Store: w.store, first: map[string]tiering.SegmentInfo{}}
		}
		err = lifecycle.New(paused).MarkingRewrite(w.ctx, segments[0].Name, func() {
			r := w.erase(eraseSubject)
			for range 500 {
				if r.State == "done" {
					return
				}
				time.Sleep(2 * time.Millisecond)
				_, _ = w.engine.EraseOnce(w.ctx) // lease_held until the paused one's has lapsed
				r, err = w.engine.Erasure(w.ctx, tenant, r.ID)
				w.no(err)
			}
			t.Error("the erase is not done")
		})
		if err == nil {
			t.Error("a segment that an erase had replaced was replaced again")
		}
		return w
	})
}
