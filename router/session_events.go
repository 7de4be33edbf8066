package router

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// Append adds events, and with a patch changes the session, in one commit.
func (s sessions) Append(ctx context.Context, id string, events []json.RawMessage, p *tiering.SessionPatch, o *tiering.SessionWrite) (*tiering.SessionAppended, error) {
	out, err := s.appendWith(ctx, id, events, p, orZero(o))
	return out, tiering.Wrap(err, "append events", "", s.docKey(id))
}

func (s sessions) appendWith(ctx context.Context, id string, events []json.RawMessage, p *tiering.SessionPatch, o tiering.SessionWrite) (*tiering.SessionAppended, error) {
	if err := s.admitSession(tiering.VerbWrite, id); err != nil {
		return nil, err
	}
	if len(events) == 0 && p.Empty() {
		return nil, tiering.Unprocessablef("", "neither events nor a change of the session")
	}
	if p.Empty() && o.IfVersion == nil && o.Fence == nil {
		out, life, err := s.appendAlone(ctx, id, events, o)
		if err == nil && life == makingLife {
			err = s.isMade(ctx, id)
		}
		if err != nil {
			return nil, err
		}
		return out, nil
	}
	c, err := s.change(ctx, id, "append", o.IdempotencyKey, struct {
		Events []json.RawMessage
		Patch  *tiering.SessionPatch
		Guard  tiering.SessionWrite
	}{events, p, o})
	if err != nil {
		return nil, err
	}
	c.guard = o
	if err := c.with(events, p, ""); err != nil {
		return nil, err
	}
	var of sharers
	err = c.commit(ctx, func(t *sessionTx) error {
		if err := t.patch(c); err != nil {
			return err
		}
		of = sharers{t.log.User, t.doc.App}
		c.answer = of
		return s.checkShared(c.shared, of)
	})
	if err := c.replay(err, &of); err != nil {
		return nil, err
	}
	if err := s.shareState(ctx, c.shared, of, o.IdempotencyKey); err != nil {
		return nil, err
	}
	return &c.result, nil
}

// appendAlone appends events and changes nothing else: through the queue, where it
// folds with others. That the session lives is a condition on its log. life is how long
// the log lives behind each use.
func (s sessions) appendAlone(ctx context.Context, id string, events []json.RawMessage, o tiering.SessionWrite) (out *tiering.SessionAppended, life time.Duration, err error) {
	p, err := s.sessionSpaces(ctx)
	if err != nil {
		return nil, 0, err
	}
	bodies, err := p.events(events)
	if err != nil {
		return nil, 0, err
	}
	if err := checkIdempotencyKey(o.IdempotencyKey); err != nil {
		return nil, 0, err
	}
	m := &mutation{key: s.logKey(id), cond: tiering.IfExists(), limit: s.who.Scope.User, row: warm.Row{
		Op: tiering.OpPut, User: s.who.Scope.User, Expiry: warm.Expiry{New: p.TTL.Std(), Slide: true},
	}}
	if o.ExpectSeq != nil {
		m.cond = tiering.IfVersion(*o.ExpectSeq)
	}
	m.fill(bodies)
	s.nameRequest(m, o.IdempotencyKey, "append events", bodies...)
	rc, err := s.writeLog(ctx, p, m)
	var e *tiering.Error
	switch {
	case errors.As(err, &e) && e.Code == tiering.CodeVersionConflict && e.CurrentVersion == 0:
		return nil, 0, noSession()
	case e != nil && e.Code == tiering.CodeForbidden:
		return nil, 0, noSession() // another user's
	case err != nil:
		return nil, 0, seqConflict(err)
	}
	a := m.appended(rc)
	return &tiering.SessionAppended{FirstSeq: a.FirstSeq, LastSeq: a.LastSeq, Time: a.Time, Replayed: a.Replayed}, rc.TTL, nil
}

// Events reads the log of a session.
func (s sessions) Events(ctx context.Context, id string, o *tiering.EntriesOptions) (*tiering.EntryPage, error) {
	page, err := s.events(ctx, id, orZero(o))
	return page, tiering.Wrap(err, "events", "", s.docKey(id))
}

func (s sessions) events(ctx context.Context, id string, o tiering.EntriesOptions) (*tiering.EntryPage, error) {
	cur, err := s.logHead(ctx, id)
	if err != nil {
		return nil, err
	}
	if cur.Head.TTL == makingLife { // it may be one that is being made
		if _, err := s.find(ctx, id); err != nil {
			return nil, err
		}
	}
	s.used(ctx, id, cur.Head)
	return s.entriesOf(ctx, cur.Head, o)
}
