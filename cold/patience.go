package cold

import (
	"context"
	"errors"
	"time"

	"github.com/tierd/tierd/tiering"
)

// stall ends a read of which nothing was heard for its limit.
type stall struct {
	timer *time.Timer
	limit time.Duration
}

type stallKey struct{}

var errStalled = errors.New("the bucket did not answer in time")

// patiently bounds the wait for each answer that a read needs.
func patiently[T any](ctx context.Context, limit time.Duration, c tiering.Copy, read func(context.Context, tiering.Copy) (T, error)) (T, error) {
	within, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(limit, func() { cancel(errStalled) })
	defer timer.Stop()
	v, err := read(context.WithValue(within, stallKey{}, stall{timer, limit}), c)
	if code := tiering.CodeOf(err); err != nil && ctx.Err() == nil && context.Cause(within) == errStalled && (code == "" || code == tiering.CodeUnavailable) {
		err = &tiering.Error{Code: tiering.CodeUnavailable, Tier: tiering.Cold, Detail: errStalled.Error(), Err: errors.Join(context.DeadlineExceeded, err)}
	}
	return v, err
}

// heard begins the wait anew: one request of several was answered.
func heard(ctx context.Context) {
	if s, ok := ctx.Value(stallKey{}).(stall); ok && ctx.Err() == nil {
		s.timer.Reset(s.limit)
	}
}

// patienceWith is how long a read waits for the copy asked i-th, after it spent
// some time on the other. One that could not be reached, and has not served
// since, gets a short trial: that it is still away must not cost every reader
// the whole of it.
func (a *Archive) patienceWith(c tiering.Copy, i int, spent time.Duration) time.Duration {
	switch last := i > 0; {
	case last && a.cooling(c):
		return a.patience / 3
	case last:
		return max(a.patience-spent, a.patience/2)
	case a.failed[c].Load() != 0:
		return a.patience / 10
	}
	return a.patience / 2
}

// writePatience is how long a write of size bytes waits for a copy. Each time
// in a row that the bucket answered, and had not taken the object or given it back
// in time, it doubles.
func (a *Archive) writePatience(c tiering.Copy, size int) time.Duration {
	return (a.writing + time.Duration(size)*time.Second/(1<<20)) << min(a.slow[c].Load(), mostDoublings)
}

// mostDoublings makes two minutes of 4 s.
const mostDoublings = 5

// cooling reports whether a copy could not be reached a short while ago.
func (a *Archive) cooling(c tiering.Copy) bool {
	at := a.failed[c].Load()
	return at != 0 && time.Since(time.Unix(0, at)) <= a.cooldown
}

// away notes that a copy could not be reached.
func (a *Archive) away(c tiering.Copy) { a.failed[c].Store(time.Now().UnixNano()) }

// order puts a copy last that could not be reached lately, or of which too much
// was corrupt: it is asked only where the other does not serve.
func (a *Archive) order() [2]tiering.Copy {
	cool := func(c tiering.Copy) bool { return !a.cooling(c) && !a.judges[c].Open() }
	if !cool(tiering.Primary) && cool(tiering.Backup) {
		return [2]tiering.Copy{tiering.Backup, tiering.Primary}
	}
	return copies
}
