package lifecycle

import (
	"context"
	"errors"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// renameLease is the lease, and the owner of the intents, under which a segment
// leaves a name that has other bytes in a bucket. It is not the eraser's, which a
// daemon keeps for as long as it runs: a copy has to be made again beside it.
const renameLease = "rename"

// leaveName gives a finished segment another name, with both copies, from one that
// is as the catalog has it. An erase meets the intent, or what the catalog says of
// the segment once it is written, as it does those of a merge.
func (e *Engine) leaveName(ctx context.Context, name string, from tiering.Copy) error {
	return e.renames(ctx, func(ctx context.Context, w *rewriter) error {
		s, ok, err := w.Warm.Segment(ctx, name)
		switch {
		case err != nil || !ok || s.State != tiering.SegmentFinished:
			return err
		case s.Owner == unfinishedErase:
			return e.rename(ctx, name)
		}
		src, err := w.checkCopy(ctx, s, from, true)
		if err != nil {
			return err
		}
		all, _, err := split(src, func(cold.Record) bool { return false })
		if err != nil {
			return err
		}
		_, err = w.replace(ctx, s, src, all)
		return err
	})
}

// renames runs fn under the lease of renames, once what one that died had begun is
// given up, and releases it: another daemon may have a copy to make.
func (e *Engine) renames(ctx context.Context, fn func(context.Context, *rewriter) error) error {
	if err := e.renaming.take(ctx); err != nil {
		return err
	}
	defer e.renaming.give()
	l, ok, err := e.Warm.Acquire(ctx, renameLease, e.Holder, e.LeaseTTL)
	if err != nil {
		return err
	}
	if !ok {
		return tiering.Errorf(tiering.CodeLeaseHeld, "daemon %s gives a segment another name until %s", l.Holder, l.Expires.Format(time.RFC3339))
	}
	under := warm.Under(ctx, l)
	if err = e.sweepIntents(under, l); err == nil {
		err = fn(under, &rewriter{e, l})
	}
	return errors.Join(err, e.Warm.Release(context.WithoutCancel(ctx), l))
}

// sweepRenames gives up what renames of daemons that died had begun.
func (e *Engine) sweepRenames(ctx context.Context) error {
	left := false
	err := e.eachSegment(ctx, "", tiering.SegmentStarted, func(s tiering.SegmentInfo) error {
		left = left || s.Owner == renameLease
		return nil
	})
	if err != nil || !left {
		return err
	}
	err = e.renames(ctx, func(context.Context, *rewriter) error { return nil })
	if tiering.CodeOf(err) == tiering.CodeLeaseHeld {
		return nil // it is under way, or will be swept once the lease has lapsed
	}
	return err
}
