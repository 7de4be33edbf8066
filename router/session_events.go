package router

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/tierd/tierd/internal/jsondoc"
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
		return s.appendAlone(ctx, id, events, o)
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
		return checkShared(c.shared, of)
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
// folds with others. That the session lives is a condition on its log.
func (s sessions) appendAlone(ctx context.Context, id string, events []json.RawMessage, o tiering.SessionWrite) (*tiering.SessionAppended, error) {
	p, err := s.sessionSpaces(ctx)
	if err != nil {
		return nil, err
	}
	bodies, err := p.entries(events)
	if err != nil {
		return nil, err
	}
	for _, b := range bodies {
		if err := systemType(b); err != nil {
			return nil, err
		}
	}
	if err := checkIdempotencyKey(o.IdempotencyKey); err != nil {
		return nil, err
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
		return nil, noSession()
	case err != nil:
		return nil, seqConflict(err)
	}
	a := m.appended(rc)
	return &tiering.SessionAppended{FirstSeq: a.FirstSeq, LastSeq: a.LastSeq, Time: a.Time, Replayed: a.Replayed}, nil
}

// Events reads the log of a session.
func (s sessions) Events(ctx context.Context, id string, o *tiering.EntriesOptions) (*tiering.EntryPage, error) {
	page, err := s.events(ctx, id, orZero(o))
	return page, tiering.Wrap(err, "events", "", s.docKey(id))
}

func (s sessions) events(ctx context.Context, id string, o tiering.EntriesOptions) (*tiering.EntryPage, error) {
	if err := s.admitSession(tiering.VerbRead, id); err != nil {
		return nil, err
	}
	cur, err := s.Warm.Head(ctx, s.logKey(id))
	if err != nil {
		return nil, tiering.Wrap(err, "", tiering.Warm, s.docKey(id))
	}
	if !cur.Head.Live(cur.Now) || !s.mayRead(cur.Head.User) {
		return nil, noSession()
	}
	return s.entriesOf(ctx, cur.Head, o)
}

// Timeline returns what happened to a session: its log, and between the entries
// the versions of state and attributes with what they changed.
func (s sessions) Timeline(ctx context.Context, id string, o *tiering.EntriesOptions) (*tiering.Timeline, error) {
	out, err := s.timeline(ctx, id, orZero(o))
	return out, tiering.Wrap(err, "timeline", "", s.docKey(id))
}

func (s sessions) timeline(ctx context.Context, id string, o tiering.EntriesOptions) (*tiering.Timeline, error) {
	o.Descending = false
	at, err := s.find(ctx, id)
	if err != nil {
		return nil, err
	}
	page, err := s.entriesOf(ctx, at.log, o)
	if err != nil {
		return nil, err
	}
	from, to := at.log.CreatedAt, time.Time{}
	if n := len(page.Entries); n > 0 {
		if o.After > 0 {
			from = page.Entries[0].Time
		}
		if page.More {
			to = page.Entries[n-1].Time
		}
	}
	versions, err := s.versionsBetween(ctx, id, from, to)
	if err != nil {
		return nil, err
	}
	out := &tiering.Timeline{Items: []tiering.TimelineItem{}, More: page.More}
	for _, e := range page.Entries {
		for len(versions) > 0 && versions[0].Time.Before(e.Time) {
			out.Items, versions = append(out.Items, versions[0]), versions[1:]
		}
		out.Items = append(out.Items, tiering.TimelineItem{Time: e.Time, What: whatOf(e.Data), Seq: e.Seq, Data: e.Data})
	}
	out.Items = append(out.Items, versions...)
	return out, nil
}

// whatOf names an entry: one of tierd's own by its type.
func whatOf(entry json.RawMessage) string {
	var typed struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(entry, &typed) == nil && len(typed.Type) > len(tiering.SystemEvent) && typed.Type[:len(tiering.SystemEvent)] == tiering.SystemEvent {
		return typed.Type[len(tiering.SystemEvent):]
	}
	return "event"
}

// versionsBetween are the versions of a session's document that were committed
// from one time to another (zero: now), oldest first, each with its difference
// from the one before.
func (s sessions) versionsBetween(ctx context.Context, id string, from, to time.Time) ([]tiering.TimelineItem, error) {
	all, err := s.newest(ctx, s.docKey(id), 0, maxLimit)
	if err != nil {
		return nil, err
	}
	var out []tiering.TimelineItem
	var before []byte
	for i := len(all) - 1; i >= 0; i-- {
		v := all[i]
		if v.Op.Deleting() || v.CreatedAt.Before(from) || !to.IsZero() && v.CreatedAt.After(to) {
			before = nil
			continue
		}
		if before == nil && i+1 < len(all) && !all[i+1].Op.Deleting() {
			if before, err = s.bodyOf(ctx, id, all[i+1].Version); err != nil {
				return nil, err
			}
		}
		body, err := s.bodyOf(ctx, id, v.Version)
		if err != nil {
			return nil, err
		}
		item := tiering.TimelineItem{Time: v.CreatedAt, What: "version", Version: v.Version}
		if body != nil && before != nil {
			if item.Diff, err = jsondoc.Diff(before, body); err != nil {
				return nil, err
			}
		}
		before = body
		out = append(out, item)
	}
	return out, nil
}

// bodyOf is a version of a session's document, nil when it is no longer kept.
func (s sessions) bodyOf(ctx context.Context, id string, version int64) ([]byte, error) {
	v, err := s.version(ctx, s.docKey(id), version)
	if c := tiering.CodeOf(err); c == tiering.CodeGone || c == tiering.CodeNotFound {
		return nil, nil
	}
	return v.body, err
}
