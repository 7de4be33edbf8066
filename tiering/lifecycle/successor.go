package lifecycle

import (
	"context"
	"sync"
	"time"

	"github.com/tierd/tierd/tiering"
)

// A store that was rebuilt elsewhere while its daemons ran has a successor:
// what they archive from then on is of a life that is over, and a later rebuild
// leaves it out. So nothing is archived behind a successor's marker, and nothing
// leaves warm.

const (
	// successorEvery is how long an answer about a successor is good.
	successorEvery = 5 * time.Second
	// successorPatience is how long a bucket has to answer: one that hangs must
	// not keep the other from being written.
	successorPatience = 2 * time.Second
)

// succession is what the buckets said last about a successor.
type succession struct {
	mu    sync.Mutex
	asked time.Time
	err   error
}

// checkSuccessor fails with fenced when a bucket holds the marker of a life that followed
// this one. A bucket that does not answer says nothing.
func (e *Engine) checkSuccessor(ctx context.Context) error {
	s := &e.succession
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || time.Since(s.asked) < successorEvery {
		return s.err
	}
	epoch, err := e.Warm.Epoch(ctx)
	if err != nil {
		return tiering.Wrap(err, "", tiering.Warm, tiering.Key{})
	}
	for _, c := range bothCopies() {
		asked, cancel := context.WithTimeout(ctx, successorPatience)
		_, err := e.Archive.Bucket(c).Stat(asked, markerName(epoch))
		cancel()
		if err != nil {
			continue
		}
		s.err = tiering.Errorf(tiering.CodeFenced, "the store was rebuilt, and %s names its successor (%s): nothing is archived and nothing leaves warm here; stop this daemon", c, markerName(epoch))
		return s.err
	}
	s.asked = time.Now()
	return nil
}
