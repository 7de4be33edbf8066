package lifecycle

import (
	"context"
	"time"
)

// EraseOnce is one step of the worker that finishes erasures.
func (e *Engine) EraseOnce(ctx context.Context) (time.Duration, error) {
	return e.underLease(ctx, eraseLease, e.erase)
}
