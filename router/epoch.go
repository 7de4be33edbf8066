package router

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
)

// A shared hot tier keeps its entries by hot epoch, which is a row in warm. It
// ends when a server fails over and may have lost what it acknowledged, and in
// every commit a writer learns which one stands:
//
//   - whoever hears that the server lives another life bumps the row, if it
//     still names the epoch that this daemon uses, and goes on to what stands
//     then. Until that, hot answers that a write is pending: reads go to warm.
//   - a writer goes on to the epoch that its commit came back with before it
//     tells hot, and only then answers. A load that began under that epoch
//     before the commit is refused its fill, because the set kills its lease; a
//     commit under an epoch before it was there to be read (warm.HotEpochs).
//   - a daemon that does not write hears of the failover itself, and looks at
//     the row now and then.
const (
	// epochEvery is how often the row is looked at unless Config says otherwise,
	// and how often at most an epoch is ended while hot misses writes.
	epochEvery = time.Second
	// heardWithin is how many times as long it takes until every daemon knows of
	// an epoch that ended in warm: one look comes too early, the next in time.
	heardWithin = 2
	// forgetAfter is how long what is left of an epoch stays, for daemons that
	// still write there.
	forgetAfter = time.Minute
)

// epochs is the hot tier as far as it knows of epochs.
type epochs struct {
	store hot.Epochal   // nil: hot loses nothing that it has acknowledged
	miss  chan struct{} // a write was acknowledged that hot knows nothing of
	every time.Duration
	left  []leftEpoch
	// missed counts those writes, heard those of them of whose epoch every daemon
	// has heard that it is over. While they differ others may serve what such a
	// write has overwritten, and go on to serve it after later writes of the key:
	// no write counts as taken by hot.
	missed, heard atomic.Int64
}

// leftEpoch is an epoch to be forgotten.
type leftEpoch struct {
	tiering.HotEpoch
	due time.Time
}

// hotEpoch is the epoch in use; zero when hot has none.
func (r *core) hotEpoch() tiering.HotEpoch {
	if r.epochs.store == nil {
		return tiering.HotEpoch{}
	}
	return r.epochs.store.HotEpoch()
}

// advance goes on to e if it is later than the epoch in use.
func (r *core) advance(e tiering.HotEpoch) {
	if r.epochs.store != nil {
		r.epochs.store.Advance(e)
	}
}

// missed ends e before a write is acknowledged that hot has neither a mark nor
// the outcome of: what it holds under that epoch may be old, and would be served
// for a hot TTL once hot is back. Every other write leaves at least a mark.
func (r *core) missed(e tiering.HotEpoch) {
	if r.epochs.store == nil {
		return
	}
	r.epochs.store.End(e)
	r.epochs.missed.Add(1)
	select {
	case r.epochs.miss <- struct{}{}:
	default: // it was told and has yet to be heard
	}
}

// hotOwed reports whether some daemon may go on under an epoch in which hot has
// missed a write.
func (r *core) hotOwed() bool { return r.epochs.missed.Load() != r.epochs.heard.Load() }

// followEpochs keeps hot under the epoch that stands in warm, until the router
// is closed.
func (r *core) followEpochs() {
	tick := time.NewTicker(r.epochs.every)
	defer tick.Stop()
	r.readEpoch()
	// Hot may be out of this daemon's reach alone: the others must not go on under
	// the epoch, and hear of it through warm; now and then, while hot goes on
	// missing writes.
	var tried time.Time
	var ended int64 // writes whose epoch was ended in warm
	var due, heard <-chan time.Time
	settleMissed := func() {
		due = nil
		missed := r.epochs.missed.Load()
		if r.endEpoch(r.hotEpoch()) {
			ended, heard = missed, time.After(heardWithin*r.epochs.every)
		}
		tried = time.Now()
		if r.epochs.missed.Load() != ended {
			due = time.After(r.epochs.every)
		}
	}
	for {
		select {
		case <-r.closing.Done():
			return
		case over := <-r.epochs.store.Ended():
			r.endEpoch(over)
		case <-r.epochs.miss:
			if wait := r.epochs.every - time.Since(tried); due == nil && wait > 0 {
				due = time.After(wait)
			} else if due == nil {
				settleMissed()
			}
		case <-due:
			settleMissed()
		case <-heard:
			heard = nil
			r.epochs.heard.Store(ended)
		case <-tick.C:
			r.readEpoch()
			r.forgetEpochs(time.Now())
		}
	}
}

// readEpoch goes on to what stands in warm. Where warm does not answer nobody
// can have bumped it.
func (r *core) readEpoch() {
	ctx, cancel := context.WithTimeout(r.closing, r.CommitTimeout)
	defer cancel()
	if e, err := r.Warm.HotEpoch(ctx); err == nil {
		r.advance(e)
	}
}

// endEpoch bumps an epoch that is over, unless another daemon was faster, or it
// was heard of before. It reports whether it is over in warm.
func (r *core) endEpoch(old tiering.HotEpoch) bool {
	ctx, cancel := context.WithTimeout(r.closing, r.CommitTimeout)
	defer cancel()
	next, err := r.Warm.BumpHotEpoch(ctx, old)
	if err != nil {
		if r.closing.Err() == nil {
			r.Logger.Warn("the hot tier may have lost writes, and its next epoch could not be begun: reads go to warm", "epoch", old, "err", err)
		}
		return false
	}
	heard := old != r.hotEpoch()
	r.advance(next)
	if old.IsZero() || heard {
		return true
	}
	r.Logger.Warn("the hot tier lives another life and may have lost writes: it begins anew", "epoch", old, "next", next)
	r.epochs.left = append(r.epochs.left, leftEpoch{old, time.Now().Add(forgetAfter)})
	return true
}

// forgetEpochs removes what is left of epochs that ended a while ago, beside the
// one who follows them: it looks at all of hot. What it cannot remove goes with its
// TTLs.
func (r *core) forgetEpochs(now time.Time) {
	for len(r.epochs.left) > 0 && now.After(r.epochs.left[0].due) {
		e := r.epochs.left[0].HotEpoch
		r.epochs.left = r.epochs.left[1:]
		r.background.Go(func() {
			ctx, cancel := context.WithTimeout(r.closing, forgetAfter)
			defer cancel()
			if err := r.epochs.store.Forget(ctx, e); err != nil && r.closing.Err() == nil {
				r.Logger.Warn("what hot holds of an epoch that is over goes by its TTLs alone", "epoch", e, "err", err)
			}
		})
	}
}
