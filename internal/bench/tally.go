package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tierd/tierd/tiering"
)

// tally is a router.Recorder that counts batches.
type tally struct{ batches, rows, missed atomic.Int64 }

func (t *tally) reset() {
	t.batches.Store(0)
	t.rows.Store(0)
	t.missed.Store(0)
}

func (t *tally) String() string {
	s := fmt.Sprintf("%.1f rows a commit", float64(t.rows.Load())/float64(max(1, t.batches.Load())))
	if n := t.missed.Load(); n > 0 {
		s += fmt.Sprintf(", hot missed %d", n)
	}
	return s
}

func (t *tally) Batch(rows int)                        { t.batches.Add(1); t.rows.Add(int64(rows)) }
func (t *tally) HotMissed()                            { t.missed.Add(1) }
func (*tally) Load(tiering.Tier, time.Duration, error) {}
func (*tally) Corrupt(tiering.Tier)                    {}
func (*tally) HotLookup(bool)                          {}
func (*tally) StateSize(int64, bool)                   {}
func (*tally) SummaryCall(time.Duration, error)        {}
func (*tally) ContextSummary(string)                   {}
func (*tally) Commit(ctx context.Context, _ string, _ tiering.Key) (context.Context, func(int64, string, string, error)) {
	return ctx, func(int64, string, string, error) {}
}
