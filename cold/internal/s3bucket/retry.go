package s3bucket

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// longestWait bounds the wait between two tries.
const longestWait = 5 * time.Second

// retry does something until it succeeds, fails for good, was tried often
// enough, or the context ends. Each try has its own time.
func (b *Bucket) retry(ctx context.Context, do func(ctx context.Context) error) error {
	try := func() (struct{}, error) {
		if err := ctx.Err(); err != nil {
			return struct{}{}, backoff.Permanent(err)
		}
		within, cancel := context.WithTimeout(ctx, b.options.Timeout)
		defer cancel()
		err := do(within)
		if err != nil && !transient(err) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}
	_, err := backoff.Retry(ctx, try, backoff.WithBackOff(b.waits()), backoff.WithMaxTries(uint(b.options.Tries)), backoff.WithMaxElapsedTime(0))
	if permanent, ok := errors.AsType[*backoff.PermanentError](err); ok {
		err = permanent.Unwrap()
	}
	// What a request says when its context ended depends on the library.
	if ended := ctx.Err(); err != nil && ended != nil && !errors.Is(err, ended) {
		err = fmt.Errorf("%w: %w", ended, err)
	}
	return err
}

func (b *Bucket) waits() backoff.BackOff {
	w := backoff.NewExponentialBackOff()
	w.InitialInterval, w.MaxInterval, w.Multiplier = b.options.Wait, longestWait, 2
	return w
}

// request is retry of a request that returns something.
func request[T any](ctx context.Context, b *Bucket, do func(ctx context.Context) (T, error)) (out T, err error) {
	err = b.retry(ctx, func(ctx context.Context) error {
		out, err = do(ctx)
		return err
	})
	return out, err
}
