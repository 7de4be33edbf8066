package replay_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd/client"
	"github.com/tierd/tierd/tiering"
)

// follower is a watcher that does not wait for a daemon that died: it goes on
// behind its last event at the other one.
type follower struct {
	mu    sync.Mutex
	seen  map[string][]int64
	count int
	moves int // from one daemon to the other
	done  chan struct{}
	err   error // read after done
}

// follow watches the namespace from the start, first at daemon at, until ctx
// ends.
func (f *fleet) follow(ctx context.Context, at int) *follower {
	w := &follower{seen: map[string][]int64{}, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		last := ""
		for ; ctx.Err() == nil; at = 1 - at {
			if last, w.err = w.at(f.life(ctx, at), f.clients[at], last); w.err != nil {
				return
			}
			w.mu.Lock()
			w.moves++
			w.mu.Unlock()
		}
	}()
	return w
}

// at watches at one daemon, behind the event last, until its life ends. It
// returns the last event seen.
func (w *follower) at(life context.Context, c *client.Client, last string) (string, error) {
	stream, err := c.Watch(life, &tiering.WatchOptions{Namespace: namespace, From: "start", After: last})
	for err != nil {
		if life.Err() != nil {
			return last, nil
		}
		if !tiering.Retryable(err) {
			return last, fmt.Errorf("watch behind %q: %w", last, err)
		}
		time.Sleep(20 * time.Millisecond)
		stream, err = c.Watch(life, &tiering.WatchOptions{Namespace: namespace, From: "start", After: last})
	}
	defer stream.Close()
	for {
		e, err := stream.Next(life)
		switch {
		case life.Err() != nil && err != nil:
			return last, nil
		case err != nil:
			return last, fmt.Errorf("next behind %q: %w", last, err)
		}
		last = e.ID
		w.mu.Lock()
		w.seen[e.Key] = append(w.seen[e.Key], e.Version)
		w.count++
		w.mu.Unlock()
	}
}

// await waits until the watcher has seen n changes, and a moment longer for
// those that it should not see.
func (w *follower) await(t *testing.T, n int) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		w.mu.Lock()
		count := w.count
		w.mu.Unlock()
		if count >= n || time.Since(began) > 30*time.Second {
			break
		}
		select {
		case <-w.done:
			t.Fatalf("a watcher ended: %v", w.err)
		default:
		}
	}
	time.Sleep(200 * time.Millisecond)
}
