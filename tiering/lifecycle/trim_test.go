package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/coldtest"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm"
)

// unplaced is a store in which a reader of the feed has no place before it has
// finished something.
type unplaced struct{ warm.Store }

func (u unplaced) SetPosition(ctx context.Context, reader string, pos int64) error {
	if pos == 0 {
		return nil
	}
	return u.Store.SetPosition(ctx, reader, pos)
}

// A store whose buckets took nothing from its first day on has an archiver without a
// position. What it is to archive stays in the feed for as long as that lasts: without it
// the archiver would never get beyond what was trimmed.
func TestTheFeedWaitsForTheFirstSegment(t *testing.T) {
	raced(t, func(n *node, naive bool) error {
		if naive {
			n.config.Warm = unplaced{n.store}
			n.restart()
		}
		n.policy("notes", tiering.Policy{})
		h := n.put("a")
		for _, b := range n.buckets {
			b.Inject(coldtest.Fault{Call: coldtest.Create, Name: cold.SegmentPrefix, Times: 1, Before: errors.New("no such bucket")})
		}
		if err := n.engine.Flush(n.ctx); err == nil {
			n.Fatal("both buckets are away, and a segment was archived")
		}
		n.pass(25 * time.Hour)
		_, err := n.engine.TrimOnce(n.ctx)
		n.no(err)
		if err := n.engine.Flush(n.ctx); err != nil {
			return fmt.Errorf("the buckets are back, and what was committed before is not archived: %w", err)
		}
		if _, ok := n.fromCold(key("a"), h.Version); !ok {
			return errors.New("what was committed before the buckets were back is not in cold")
		}
		return nil
	})
}

// An index worker that gets nowhere, because its embedder does not answer or because the
// store is run without memories since, holds back what is younger than the feed's age,
// and no more.
func TestTheFeedDoesNotWaitForAnIndexThatIsBehind(t *testing.T) {
	n := newNode(t, lifecycle.Config{})
	n.policy("notes", tiering.Policy{})
	n.no(n.store.SetPosition(n.ctx, lifecycle.IndexReader, 1))
	first := func() int64 {
		first, _, err := n.store.FeedBounds(n.ctx)
		n.no(err)
		return first
	}
	trim := func() {
		_, err := n.engine.TrimOnce(n.ctx)
		n.no(err)
	}
	for range 3 {
		n.put("old")
	}
	n.flush()
	n.pass(20 * time.Hour)
	n.put("young")
	n.flush()
	trim()
	if got := first(); got != 1 {
		t.Fatalf("the feed begins at %d before it is of age", got)
	}
	n.pass(5 * time.Hour)
	trim()
	if got := first(); got != 5 {
		t.Errorf("the feed begins at %d, the first that is young is 5", got)
	}
}

// R12, of what is trimmed: after a jump of the clock a retry under an Idempotency-Key
// is known all the same.
func TestRaceR12AJumpTrimsNothing(t *testing.T) {
	raced(t, func(n *node, naive bool) error {
		if naive {
			n.config.Warm = fearless{n.store}
			n.restart()
		}
		n.policy("notes", tiering.Policy{})
		try := func() warm.Result {
			r := put([]byte(`"once"`))
			r.Idempotency = &warm.Idempotency{Tenant: tenant, Key: "once", Hash: r.Digest}
			got, err := n.store.Commit(n.ctx, &warm.Batch{ID: uuid.New(), Changes: []warm.Change{{Key: key("a"), Rows: []warm.Row{r}}}})
			n.no(err)
			return got[0][0]
		}
		first := try()
		n.flush()
		_, err := n.engine.TrimOnce(n.ctx) // notes the time
		n.no(err)
		n.tick(10 * 365 * day)
		_, err = n.engine.TrimOnce(n.ctx)
		n.no(err)
		n.tick(-10 * 365 * day)
		if again := try(); again.Status != warm.Replayed || again.Head.Version != first.Head.Version {
			return fmt.Errorf("the retry was answered with status %d and version %d, the first try made %d", again.Status, again.Head.Version, first.Head.Version)
		}
		return nil
	})
}
