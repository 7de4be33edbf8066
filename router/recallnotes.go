package router

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tierd/tierd/tiering"
)

const (
	// recallsPart is the part of a session that holds what was recalled for it, and
	// recallsKept how many it holds, the newest ones.
	recallsPart = "recalls"
	recallsKept = 40
	// recallDelay is how long recalls of a session are gathered before they are
	// written together: a read of a context costs no write of its own.
	recallDelay = 5 * time.Second
	// mostNoting is for how many sessions recalls are gathered at once; those of
	// further ones are not noted.
	mostNoting = 1000
	// recallQuery is how much of a query is kept, in characters.
	recallQuery = 200
)

// recallNotes gathers recalls until they are written.
type recallNotes struct {
	mu sync.Mutex
	of map[tiering.Key]*noting // by the log of the session
}

// noting is what was recalled for one session and is not written yet.
type noting struct {
	recalls []tiering.SessionRecall
	now     chan struct{} // a reader waits: write at once
	asked   bool          // now is closed
	done    chan struct{} // all of it is written
}

// noteRecall has a recall for a session written to it, a little later and with others.
// One that cannot be written is not: what was recalled was answered already.
func (s sessions) noteRecall(id string, at *standingSession, query string, told *tiering.ContextRecall) {
	n, log := &s.recallNotes, s.logKey(id)
	note := tiering.SessionRecall{Time: at.now.UTC(), Query: shortText(query, recallQuery), Memories: told.Memories, LeftOut: told.LeftOut, Partial: told.Partial}
	n.mu.Lock()
	defer n.mu.Unlock()
	if one := n.of[log]; one != nil {
		one.recalls = newest(append(one.recalls, note))
		return
	}
	if len(n.of) >= mostNoting || s.enter() != nil {
		return
	}
	if n.of == nil {
		n.of = map[tiering.Key]*noting{}
	}
	one := &noting{recalls: []tiering.SessionRecall{note}, now: make(chan struct{}), done: make(chan struct{})}
	n.of[log] = one
	go func() {
		defer s.background.Done()
		wait := time.NewTimer(recallDelay)
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-one.now:
		case <-s.closing.Done():
		}
		s.everything().writeRecalls(id, at, one)
	}()
}

// writeRecalls writes what was gathered, and what comes meanwhile.
func (s sessions) writeRecalls(id string, at *standingSession, one *noting) {
	n := &s.recallNotes
	defer close(one.done)
	for {
		n.mu.Lock()
		recalls := one.recalls
		one.recalls = nil
		if len(recalls) == 0 {
			delete(n.of, s.logKey(id))
			n.mu.Unlock()
			return
		}
		n.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), s.CommitTimeout)
		noted, err := s.aliased(ctx, recalls)
		if err == nil {
			err = s.addRecalls(ctx, id, at, noted)
		}
		cancel()
		if err != nil {
			s.Logger.Debug("recalls were not noted", "session", id, "err", err)
		}
	}
}

// addRecalls adds recalls to what is stored.
func (s sessions) addRecalls(ctx context.Context, id string, at *standingSession, recalls []notedRecall) error {
	return s.ownPart(ctx, id, at, recallsPart, func(stored []byte) (any, error) {
		var d recallsDoc
		if stored != nil {
			if err := decodeDoc(stored, &d); err != nil {
				return nil, err
			}
		}
		d.Recalls = newest(append(d.Recalls, recalls...))
		return d, nil
	})
}

// recallsOf is what was recalled for a session, oldest first, also what is not written
// yet on this node.
func (s sessions) recallsOf(ctx context.Context, id string) ([]tiering.SessionRecall, error) {
	n := &s.recallNotes
	n.mu.Lock()
	one := n.of[s.logKey(id)]
	if one != nil && !one.asked {
		one.asked = true
		close(one.now)
	}
	n.mu.Unlock()
	if one != nil {
		select {
		case <-one.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	got, err := s.load(ctx, s.partKey(id, recallsPart), reservedPolicy(), 0)
	if err != nil || got.body == nil {
		return nil, err
	}
	var d recallsDoc
	if err := decodeDoc(got.body, &d); err != nil {
		return nil, err
	}
	return s.named(ctx, d.Recalls)
}

// newest is the recalls that are kept.
func newest[R any](all []R) []R {
	return slices.Clone(all[max(len(all)-recallsKept, 0):])
}

// shortText is a text of at most most characters.
func shortText(s string, most int) string {
	for i := range s {
		if most == 0 {
			return s[:i] + "…"
		}
		most--
	}
	return s
}
