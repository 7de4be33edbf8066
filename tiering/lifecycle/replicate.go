package lifecycle

import (
	"context"
	"errors"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// replicateEvery is how often segments are looked through for a missing copy.
const replicateEvery = 5 * time.Second

// replicate makes the copies that could not be written at first. A segment
// that fails does not stop the others; a bucket that does not answer is not
// asked for each of them.
func (e *Engine) replicate(ctx context.Context, _ warm.Lease) (time.Duration, error) {
	var missing [2]int64
	var away [2]bool
	failed := e.sweepRenames(ctx)
	err := e.eachSegment(ctx, "", tiering.SegmentFinished, func(s tiering.SegmentInfo) error {
		if s.Verified() != 1 {
			return nil
		}
		to := tiering.Backup
		if s.Copies[tiering.Primary] != tiering.CopyVerified {
			to = tiering.Primary
		}
		if away[to] {
			missing[to]++
			return nil
		}
		if err := e.repairCopy(ctx, &s, to); err != nil && !errors.Is(err, errMovedOn) {
			missing[to]++
			away[to] = errors.Is(err, tiering.ErrUnavailable)
			failed = errors.Join(failed, err)
		}
		return ctx.Err()
	})
	if err != nil {
		return 0, err
	}
	for c, n := range missing {
		e.Recorder.MissingCopies(tiering.Copy(c), n)
	}
	return replicateEvery, failed
}
