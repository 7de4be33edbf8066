package router

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
)

// withKey makes an API key and returns the router as its holder sees it.
func (w *world) withKey(k tiering.APIKey) (*Router, *tiering.APIKey) {
	w.Helper()
	made, err := w.r.CreateKey(w.ctx, k)
	w.no(err)
	who, err := w.r.Authenticate(w.ctx, made.Secret)
	w.no(err)
	return w.r.As(who), made
}

// ends fails the test unless the stream ends as unauthenticated, for good.
func (w *world) ends(s tiering.Watcher) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	for range 2 {
		if e, err := s.Next(ctx); !errors.Is(err, tiering.ErrUnauthenticated) {
			w.Fatalf("got %+v, %v, want the stream to end as unauthenticated", e, err)
		}
	}
}

// A watch ends with the API key that opened it, wherever in the feed it reads.
func TestWatchEndsWithItsKey(t *testing.T) {
	t.Run("a quiet stream when the key is revoked", func(t *testing.T) {
		w := open(t, setup{})
		r, key := w.withKey(tiering.APIKey{})
		s, err := r.Watch(w.ctx, nil)
		w.no(err)
		wait := call(w, func() (tiering.Event, error) { return s.Next(w.ctx) })
		w.no(w.r.RevokeKey(w.ctx, key.ID))
		if _, err := wait(); !errors.Is(err, tiering.ErrUnauthenticated) {
			t.Fatalf("Next returned %v", err)
		}
		w.put("after", `1`)
		w.ends(s)
	})
	t.Run("changes before the revocation are told, none behind it", func(t *testing.T) {
		w := open(t, setup{})
		r, key := w.withKey(tiering.APIKey{})
		s, err := r.Watch(w.ctx, nil)
		w.no(err)
		w.put("before", `1`)
		w.no(w.r.RevokeKey(w.ctx, key.ID))
		w.put("after", `1`)
		if e := w.next(s); e.Key != "before" {
			t.Fatalf("got %+v", e)
		}
		w.ends(s)
	})
	t.Run("a reader far behind the revocation", func(t *testing.T) {
		w := open(t, setup{})
		r, key := w.withKey(tiering.APIKey{})
		w.put("a", `1`)
		w.put("b", `1`)
		s, err := r.Watch(w.ctx, &tiering.WatchOptions{From: "start"})
		w.no(err)
		if e := w.next(s); e.Key != "a" {
			t.Fatalf("got %+v", e)
		}
		w.no(w.r.RevokeKey(w.ctx, key.ID))
		w.clock.advance(rejudge)
		w.ends(s)
	})
	t.Run("revoked between the authentication and the watch", func(t *testing.T) {
		w := open(t, setup{})
		r, key := w.withKey(tiering.APIKey{})
		w.no(w.r.RevokeKey(w.ctx, key.ID))
		if _, err := r.Watch(w.ctx, nil); !errors.Is(err, tiering.ErrUnauthenticated) {
			t.Fatalf("the watch opened: %v", err)
		}
	})
	t.Run("a quiet stream when the key expires", func(t *testing.T) {
		w := open(t, setup{})
		r, _ := w.withKey(tiering.APIKey{ExpiresAt: w.clock.Now().Add(5 * time.Millisecond)})
		s, err := r.Watch(w.ctx, nil)
		w.no(err)
		wait := call(w, func() (tiering.Event, error) { return s.Next(w.ctx) })
		w.clock.advance(10 * time.Millisecond)
		if _, err := wait(); !errors.Is(err, tiering.ErrUnauthenticated) {
			t.Fatalf("Next returned %v", err)
		}
		w.ends(s)
	})
	t.Run("the revocation of another key ends nothing", func(t *testing.T) {
		w := open(t, setup{})
		r, _ := w.withKey(tiering.APIKey{})
		_, other := w.withKey(tiering.APIKey{})
		s, err := r.Watch(w.ctx, nil)
		w.no(err)
		w.no(w.r.RevokeKey(w.ctx, other.ID))
		w.put("after", `1`)
		if e := w.next(s); e.Key != "after" {
			t.Fatalf("got %+v", e)
		}
	})
}
