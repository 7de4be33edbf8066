package tiering

import (
	"context"
	"iter"
	"time"
)

// The delays between tries of a watch that fails for now.
const (
	watchMinDelay = 50 * time.Millisecond
	watchMaxDelay = 5 * time.Second
)

// Events is a watch as an iterator: what o asks for, in feed order, without gap
// or repeat, until the loop is left or ctx ends. A connection that is lost, a
// daemon that starts anew and a tier that is away for a while are waited out.
// What does not pass by itself (gone, unauthenticated, forbidden, invalid, or
// the end of ctx) is yielded as an error, once and last. Options with After set
// to the ID of an event go on behind it, with this iterator or another.
//
// Each range over it is a watch of its own.
func Events(ctx context.Context, d Documents, o *WatchOptions) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		w, err := d.Watch(ctx, o)
		if err != nil {
			yield(Event{}, err)
			return
		}
		defer w.Close()
		for {
			e, err := nextEvent(ctx, w)
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// nextEvent is the next event of w, however often w fails for now on the way: a
// watcher that failed hands out again what it did not.
func nextEvent(ctx context.Context, w Watcher) (Event, error) {
	for delay := watchMinDelay; ; delay = min(2*delay, watchMaxDelay) {
		e, err := w.Next(ctx)
		if err == nil || !Retryable(err) {
			return e, err
		}
		if ended := pause(ctx, delay); ended != nil {
			return Event{}, Wrap(ended, "watch", "", Key{})
		}
	}
}
