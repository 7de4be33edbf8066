package router

import (
	"cmp"
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/tierd/tierd/internal/endpoint"
	"github.com/tierd/tierd/tiering"
)

const (
	// summaryWait is how long a context waits for the first summary of its session
	// from the moment it was begun; later ones are made behind its back.
	summaryWait = 3 * time.Second
	// summariesAtOnce is how many sessions' summaries are made at once.
	summariesAtOnce = 4
	// summaryTime is how long the making of one may take, with all its requests.
	summaryTime = 2 * time.Minute
	// firstPause is for how long a server that failed is left alone, twice as long
	// after each further failure, longestPause at most. A server that says how long
	// is left alone for that, an hour at most.
	firstPause   = 5 * time.Second
	longestPause = 5 * time.Minute
	longestAsked = time.Hour
	// refusedPause is for how long nothing is asked for a session whose talk the
	// server refused, mostRefused how many such sessions are known.
	refusedPause = 10 * time.Minute
	mostRefused  = 1000
)

// summaries keeps one making of a summary per session under way, and leaves alone a
// server that fails. It holds no text but of what is being made.
type summaries struct {
	mu       sync.Mutex
	making   map[tiering.Key]*making
	failures int
	pausedTo time.Time
	why      string                    // of the last failure
	refused  map[tiering.Key]time.Time // until when
}

// making is a summary that is being made. The fields behind done are set when it is
// closed.
type making struct {
	began time.Time
	done  chan struct{}
	why   string
}

// begin returns the making of a session's summary that is under way, or has work make
// one; nil, and why, where none may be made now.
func (r *core) beginSummary(log tiering.Key, work func(ctx context.Context) error) (m *making, why string) {
	s := &r.summaries
	s.mu.Lock()
	defer s.mu.Unlock()
	now := r.Clock()
	switch m := s.making[log]; {
	case m != nil:
		return m, ""
	case now.Before(s.pausedTo):
		return nil, "the chat server is left alone for a while: " + s.why
	case now.Before(s.refused[log]):
		return nil, "the chat server refused this conversation"
	case len(s.making) >= summariesAtOnce:
		return nil, "summaries of other sessions are being made"
	}
	if err := r.enter(); err != nil {
		return nil, tiering.Told(err)
	}
	m = &making{began: time.Now(), done: make(chan struct{})}
	if s.making == nil {
		s.making = map[tiering.Key]*making{}
	}
	s.making[log] = m
	go func() {
		defer r.background.Done()
		ctx, cancel := context.WithTimeout(r.closing, summaryTime)
		defer cancel()
		err := work(ctx)
		if err != nil {
			r.Logger.Debug("a summary was not made", "session", log.ID, "err", err)
		}
		s.settle(log, m, err, r.Clock())
	}()
	return m, ""
}

// errAsking marks what the chat server is to blame for.
type errAsking struct{ error }

func (e errAsking) Unwrap() error { return e.error }

// settle ends a making.
func (s *summaries) settle(log tiering.Key, m *making, err error, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.making, log)
	defer close(m.done)
	if err == nil {
		s.failures, s.pausedTo = 0, time.Time{}
		delete(s.refused, log)
		return
	}
	m.why = tiering.Told(err)
	var asking errAsking
	var refusal *endpoint.Refusal
	switch {
	case !errors.As(err, &asking) || errors.Is(err, context.Canceled): // warm, or the session, or the node ends
	case errors.As(err, &refusal):
		if len(s.refused) >= mostRefused {
			clear(s.refused)
		}
		if s.refused == nil {
			s.refused = map[tiering.Key]time.Time{}
		}
		s.refused[log] = now.Add(refusedPause)
	default:
		pause := time.Duration(float64(firstPause) * math.Pow(2, float64(min(s.failures, 10))))
		pause = min(pause, longestPause)
		var e *tiering.Error
		if errors.As(err, &e) {
			pause = max(pause, min(e.RetryAfter, longestAsked))
		}
		s.failures++
		s.pausedTo, s.why = now.Add(pause), m.why
	}
}

// wait waits for the making until it has taken longer than patience, or ctx ends. It
// returns why there is nothing to read, "" when it was made.
func (m *making) wait(ctx context.Context, patience time.Duration) string {
	timer := time.NewTimer(patience - time.Since(m.began))
	defer timer.Stop()
	select {
	case <-m.done:
		return m.why
	case <-timer.C:
	case <-ctx.Done():
	}
	return beingMade
}

const beingMade = "it is being made"

// summaryPatience is how long a context waits.
func (r *core) summaryPatience() time.Duration { return cmp.Or(r.SummaryWait, summaryWait) }
