package lifecycle

import (
	"context"
	"time"

	"github.com/tierd/tierd/tiering"
)

// MergeOnce is one step of the worker that merges and collects.
func (e *Engine) MergeOnce(ctx context.Context) (time.Duration, error) {
	return e.underLease(ctx, MergeLease, e.merge)
}

// ReplicateOnce is one step of the worker that makes missing copies.
func (e *Engine) ReplicateOnce(ctx context.Context) (time.Duration, error) {
	return e.underLease(ctx, "replicate", e.replicate)
}

// Mergeable picks runs of small segments below a size, as a merge does.
func Mergeable(segments []tiering.SegmentInfo, count int, below int64) [][]tiering.SegmentInfo {
	return mergeable(segments, count,
		func(s tiering.SegmentInfo) bool { return s.Size < below && s.Verified() == 2 },
		func(a, b tiering.SegmentInfo) bool { return true })
}
