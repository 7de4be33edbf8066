package lifecycle

import (
	"context"
	"time"

	"github.com/tierd/tierd/cold"
)

// EraseOnce is one step of the worker that finishes erasures.
func (e *Engine) EraseOnce(ctx context.Context) (time.Duration, error) {
	return e.underLease(ctx, eraseLease, e.erase)
}

// MarkingRewrite writes a segment anew, with all that is in it, under the lease of
// segments that a rebuild marked. between is called when its records have been read.
func (e *Engine) MarkingRewrite(ctx context.Context, name string, between func()) error {
	return e.rewriting(ctx, func(ctx context.Context, w *rewriter) error {
		return w.marking(ctx, func(ctx context.Context, w *rewriter) error {
			s, _, err := w.Warm.Segment(ctx, name)
			if err != nil {
				return err
			}
			src, err := w.openEither(ctx, name)
			if err != nil {
				return err
			}
			kept, _, err := split(src, func(cold.Record) bool { return false })
			if err != nil {
				return err
			}
			between()
			_, err = w.replace(ctx, s, src, kept)
			return err
		})
	})
}
