package router

import (
	"context"
	"sync"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// warmClock carries warm's clock forward between the reads that tell it, by the
// time that passed here: a local clock that is years off moves nothing. What it
// says is behind warm's by the time that the telling took.
type warmClock struct {
	mu   sync.RWMutex
	told time.Time // what warm said
	at   time.Time // the local clock then
}

func (c *warmClock) learn(told, local time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told, c.at = told, local
}

// read returns warm's clock; ok is false while warm has told nothing yet.
func (c *warmClock) read(local time.Time) (now time.Time, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.told.Add(local.Sub(c.at)), !c.told.IsZero()
}

// loadWarm is warm's Load, and learns its clock.
func (r *core) loadWarm(ctx context.Context, key tiering.Key) (warm.Current, error) {
	cur, err := r.Warm.Load(ctx, key)
	if err != nil {
		return cur, tiering.Wrap(err, "", tiering.Warm, key)
	}
	r.warmTime.learn(cur.Now, r.Clock())
	return cur, nil
}

// over reports whether at has passed on warm's clock. Before it says yes it
// asks warm.
func (r *core) over(ctx context.Context, at time.Time) (bool, error) {
	if at.IsZero() {
		return false, nil
	}
	if now, ok := r.warmTime.read(r.Clock()); ok && now.Before(at) {
		return false, nil
	}
	now, err := r.Warm.Now(ctx)
	if err != nil {
		return false, tiering.Wrap(err, "", tiering.Warm, tiering.Key{})
	}
	r.warmTime.learn(now, r.Clock())
	return !now.Before(at), nil
}
