package router

import (
	"context"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// A watch outlives the request that was authenticated, so it keeps judging the
// API key that opened it. The feed tells a revocation in its place among the
// changes; a watch that has changes from long before it still to hand out looks
// the key up now and then; and the key's expiry bounds every wait.

// rejudge is how often a watch that hands out changes looks its key up.
const rejudge = time.Second

// longestWait bounds one wait of a key that expires, because the wait is by the
// local clock and the expiry by warm's.
const longestWait = time.Minute

func errRevoked() error {
	return tiering.Errorf(tiering.CodeUnauthenticated, "the API key was revoked: the stream has ended")
}

func errKeyExpired() error {
	return tiering.Errorf(tiering.CodeUnauthenticated, "the API key has expired: the stream has ended")
}

// revokes reports whether c is the end of the watch's own API key.
func (w *watcher) revokes(c warm.FeedChange) bool {
	who := w.r.who
	return who.KeyID != "" && c.Op.Deleting() && c.Key == apiKeyKey(who.Tenant, who.KeyID)
}

// admitted looks the key up, unless it was a moment ago.
func (w *watcher) admitted(ctx context.Context) error {
	who := w.r.who
	now := w.r.Clock()
	if who.KeyID == "" || !w.judged.IsZero() && now.Sub(w.judged) < rejudge {
		return nil
	}
	cur, err := w.r.Warm.Head(ctx, apiKeyKey(who.Tenant, who.KeyID))
	if err != nil {
		return tiering.Wrap(err, "", tiering.Warm, tiering.Key{})
	}
	w.r.warmTime.learn(cur.Now, now)
	if !cur.Head.Live(cur.Now) {
		return errRevoked()
	}
	w.judged = now
	return nil
}

// expired judges the key's own expiry.
func (w *watcher) expired(ctx context.Context) error {
	over, err := w.r.over(ctx, w.r.who.ExpiresAt)
	if err == nil && over {
		err = errKeyExpired()
	}
	return err
}

// await waits until the feed has grown, and no longer than the key lives.
func (w *watcher) await(ctx context.Context) error {
	at := w.r.who.ExpiresAt
	if at.IsZero() {
		return w.r.watchers.wait(ctx, w.pos)
	}
	for {
		if err := w.expired(ctx); err != nil {
			return err
		}
		wait := longestWait
		if now, ok := w.r.warmTime.read(w.r.Clock()); ok {
			// warm's clock is read a little behind: a wait that ends at once would spin.
			wait = min(wait, max(at.Sub(now), time.Millisecond))
		}
		brief, cancel := context.WithTimeout(ctx, wait)
		err := w.r.watchers.wait(brief, w.pos)
		waited := brief.Err() != nil
		cancel()
		if err == nil || ctx.Err() != nil || !waited {
			return err
		}
	}
}
