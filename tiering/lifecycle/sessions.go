package lifecycle

import (
	"context"

	"github.com/google/uuid"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// partition parts expired keys into logs of sessions, whose life is over, and
// others.
func partition(keys []tiering.Key) (sessions, others []tiering.Key) {
	for _, k := range keys {
		if k.Namespace == tiering.SessionEventsNamespace {
			sessions = append(sessions, k)
		} else {
			others = append(others, k)
		}
	}
	return sessions, others
}

// sessionParts is how many parts of a session one transaction takes.
const sessionParts = 500

// endSessions takes everything of sessions whose logs have expired, and returns
// how many it ended. The log goes last, so that a sweep which dies goes on.
func (s *sweeper) endSessions(ctx context.Context, logs []tiering.Key) (ended int, err error) {
	for _, log := range logs {
		done, err := s.endSession(ctx, log)
		s.Recorder.Moved(tiering.MoveExpire, done, err)
		if err != nil {
			return ended, err
		}
		if done {
			ended++
		}
	}
	return ended, nil
}

// endSession is one session. Its log is locked and judged again: a session that
// was made anew meanwhile keeps its parts.
func (s *sweeper) endSession(ctx context.Context, log tiering.Key) (bool, error) {
	for {
		parts, err := s.Warm.List(ctx, warm.List{Tenant: log.Tenant, Namespace: tiering.SessionPartsNamespace, Prefix: log.ID + "/", Limit: sessionParts})
		if err != nil {
			return false, err
		}
		doc := tiering.Key{Tenant: log.Tenant, Namespace: tiering.SessionNamespace, ID: log.ID}
		keys := []tiering.Key{log} // tierd.events, tierd.parts, tierd.sessions: in order
		for _, p := range parts {
			keys = append(keys, p.Head.Key)
		}
		keys = append(keys, doc)
		more := len(parts) == sessionParts
		results, committed, err := s.Warm.Atomic(ctx, uuid.New(), keys, nil, func(current []warm.Current) ([]warm.Change, error) {
			return endingOf(keys, current, more), nil
		})
		// Without a change there was nothing to end: the session lives.
		if ended := committed && len(results) > 0; err != nil || !ended || !more {
			return ended, err
		}
	}
}

// endingOf are the deletions of what stands of a session whose log has expired;
// the log itself only when nothing is left behind it.
func endingOf(keys []tiering.Key, current []warm.Current, more bool) (out []warm.Change) {
	if log := current[0]; log.Head.Version == 0 || log.Head.Op.Deleting() || log.Head.Live(log.Now) {
		return nil
	}
	for i, cur := range current {
		switch {
		case i == 0 && !more:
			out = append(out, warm.Change{Key: keys[i], Rows: []warm.Row{{Op: tiering.OpExpire}}})
		case i > 0 && cur.Head.Live(cur.Now):
			out = append(out, warm.Change{Key: keys[i], Rows: []warm.Row{{Op: tiering.OpDelete}}})
		}
	}
	return out
}
