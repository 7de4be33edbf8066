package lifecycle

import (
	"context"
	"errors"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

const trimEvery = 10 * time.Minute

// trim keeps the feed, idempotency results and batch ids to their age, on a clock
// that did not jump: what is gone was a promise to callers who may come yet.
func (e *Engine) trim(ctx context.Context, _ warm.Lease) (time.Duration, error) {
	now, ok, err := e.trustedNow(ctx)
	if err != nil || !ok {
		return trimEvery, err
	}
	// The archiver has a position once its first segment is finished, and that may be
	// long after the first commit: until then it holds all of the feed.
	if err := e.Warm.SetPosition(ctx, ArchiveReader, 0); err != nil {
		return 0, err
	}
	if err := e.passIndex(ctx, now.Add(-e.FeedAge)); err != nil {
		return 0, err
	}
	return trimEvery, e.Warm.TrimFeed(ctx, now.Add(-e.FeedAge))
}

// passIndex moves the index worker on to where the archiver is, if what it reads next was
// committed before a time. An embedder that does not answer would keep the feed from
// being trimmed for as long as that lasts; what is skipped is found by a walk.
func (e *Engine) passIndex(ctx context.Context, before time.Time) error {
	pos, err := e.Warm.Position(ctx, indexReader)
	if err != nil || pos == 0 {
		return err
	}
	entries, err := e.Warm.ReadFeed(ctx, pos, indexFeedPage)
	if err != nil && !errors.Is(err, tiering.ErrGone) {
		return err
	}
	for _, entry := range entries {
		if len(entry.Changes) == 0 {
			continue // it was erased, and tells no time
		}
		if !entry.Changes[0].At.Before(before) {
			return nil
		}
		archived, err := e.Warm.Position(ctx, ArchiveReader)
		if err != nil {
			return err
		}
		return e.Warm.SetPosition(ctx, indexReader, archived)
	}
	return nil
}
