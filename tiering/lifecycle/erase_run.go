package lifecycle

import (
	"context"
	"errors"

	"github.com/tierd/tierd/internal/failpoint"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// erasePage is how many keys one transaction takes.
const erasePage = 500

// eraser is one try to finish an erasure. Every step is idempotent, and begins
// only when the one before is done: what is left to do is what warm's row and
// the buckets say, whoever goes on with it.
type eraser struct {
	rewriter
	order Order
	er    warm.Erasure
	state *erasing
}

// runErase takes an erasure from where it is to its end. erasures.running is
// held.
func (e *Engine) runErase(ctx context.Context, l warm.Lease, id string, s *erasing) error {
	er, ok, err := e.Warm.Erasure(ctx, id)
	if err != nil || !ok || !er.Done.IsZero() {
		return err
	}
	x := &eraser{rewriter: rewriter{e, l}, er: er, state: s}
	for _, step := range []struct {
		do   func(context.Context) error
		then string
	}{
		{x.readBack, failpoint.EraseOrdered}, {x.take, failpoint.EraseTaken}, {x.seal, failpoint.EraseSealed},
		{x.cleanCold, failpoint.EraseCleaned}, {do: x.clearHot}, {do: x.clearIndex}, {do: x.scrub},
	} {
		if err := step.do(ctx); err != nil {
			return err
		}
		if err := failpoint.Hit(step.then); err != nil {
			return err
		}
	}
	return nil
}

// readBack reads the order. One that somebody deleted from a bucket, or from
// both, is written again.
func (x *eraser) readBack(ctx context.Context) error {
	o, ok, err := x.readOrder(ctx, x.er.ID)
	if err != nil {
		return err
	}
	if !ok {
		epoch, err := x.Warm.Epoch(ctx)
		if err != nil {
			return err
		}
		o = NewOrder(x.er.ID, x.er.Selector, epoch, x.er.Pos, x.er.Started)
	}
	x.order = o
	errs := x.Archive.WriteBoth(ctx, o.Name(), o.Encode())
	return errors.Join(errs[0], errs[1])
}

// take removes everything from warm. From then on nothing of the subject that
// was committed up to the erasure's position can be read there, nor be in a
// segment that finishes later.
func (x *eraser) take(ctx context.Context) error {
	if x.er.Pos > 0 {
		return nil
	}
	known, err := x.keysInHot(ctx)
	if err != nil {
		return err
	}
	for more := true; more; {
		if x.er, more, err = x.Warm.EraseKeys(ctx, x.er.ID, erasePage); err != nil {
			return err
		}
	}
	x.dropFromHot(ctx, known)
	return nil
}

// seal writes the order with its final position to both buckets.
func (x *eraser) seal(ctx context.Context) error {
	x.order.Pos = x.er.Pos
	errs := x.Archive.WriteBoth(ctx, x.order.FinalName(), x.order.Encode())
	return errors.Join(errs[0], errs[1])
}

// scrub makes what was deleted unreadable in warm's files, and ends the
// erasure.
func (x *eraser) scrub(ctx context.Context) error {
	if err := x.Warm.Scrub(ctx); err != nil {
		return tiering.Wrap(err, "scrub", tiering.Warm, tiering.Key{})
	}
	_, err := x.Warm.FinishErase(ctx, x.er.ID)
	return tiering.Wrap(err, "finish", tiering.Warm, tiering.Key{})
}
