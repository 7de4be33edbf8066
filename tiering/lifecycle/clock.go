package lifecycle

import (
	"context"
	"time"

	"github.com/tierd/tierd/tiering"
)

// maxJump is how far warm's clock may move beyond the latest time noted before
// destructive moves wait for a person: a clock that is wrong by years would
// expire and demote everything.
const maxJump = 24 * time.Hour

// trustedNow returns warm's clock, if it did not jump since it was last noted.
// A jump parks every destructive move until ConfirmClock.
func (e *Engine) trustedNow(ctx context.Context) (now time.Time, ok bool, err error) {
	now, err = e.Warm.Now(ctx)
	if err != nil {
		return now, false, err
	}
	high, err := e.Warm.HighWater(ctx)
	if err != nil {
		return now, false, err
	}
	if !high.IsZero() && now.Sub(high) > maxJump {
		e.park("clock", "all destructive moves", parkAfter, tiering.Errorf(tiering.CodeUnavailable,
			"the clock went from %s to %s: confirm it with tierd confirm-clock", high.Format(time.RFC3339), now.Format(time.RFC3339)))
		return now, false, nil
	}
	e.unpark("clock", "all destructive moves")
	return now, true, e.Warm.NoteTime(ctx, now, false)
}

// ConfirmClock accepts warm's clock as it is.
func (e *Engine) ConfirmClock(ctx context.Context) error {
	now, err := e.Warm.Now(ctx)
	if err != nil {
		return err
	}
	if err := e.Warm.NoteTime(ctx, now, true); err != nil {
		return err
	}
	e.unpark("clock", "all destructive moves")
	return nil
}
