package router

import (
	"context"
	"slices"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/window"
)

const (
	// summaryPart is the part of a session that holds what models made of its oldest
	// turns, so that it ends with the session, whatever ends it.
	summaryPart = "summaries"
	// summaryRanges is how many it holds: contexts of several budgets leave out other
	// turns.
	summaryRanges = 4
	// refreshTurns is how many turns a summary may lack before it is extended: until
	// then these stand behind it as lines.
	refreshTurns = 5
)

// summaryDoc is that part, the one that was made last behind the others.
type summaryDoc struct {
	Summaries []tiering.SessionSummary `json:"summaries"`
}

// best is the summary that covers most of what a context leaves out and nothing of
// what it holds, nor of what a resume went back over since.
func (d summaryDoc) best(older window.Older, skipped []tiering.Omitted) (out tiering.SessionSummary) {
	for _, m := range d.Summaries {
		if m.From <= older.From() && m.To <= older.To() && m.To > out.To && slices.Equal(m.Skipped, within(skipped, m.From, m.To)) {
			out = m
		}
	}
	return out
}

// within is the runs that begin between two entries.
func within(runs []tiering.Omitted, from, to int64) (out []tiering.Omitted) {
	for _, r := range runs {
		if r.From <= to && r.To >= from {
			out = append(out, r)
		}
	}
	return out
}

// put takes a summary in, in place of the one that it extends.
func (d *summaryDoc) put(m tiering.SessionSummary, extends int64) {
	d.Summaries = slices.DeleteFunc(d.Summaries, func(o tiering.SessionSummary) bool { return o.To == extends || o.To == m.To })
	d.Summaries = append(d.Summaries, m)
	if n := len(d.Summaries); n > summaryRanges {
		d.Summaries = d.Summaries[n-summaryRanges:]
	}
}

// summariesOf is the session's part as it stands.
func (s sessions) summariesOf(ctx context.Context, id string) (d summaryDoc, err error) {
	got, err := s.load(ctx, s.partKey(id, summaryPart), reservedPolicy(), 0)
	if err != nil || got.body == nil {
		return d, err
	}
	return d, decodeDoc(got.body, &d)
}

// summarise is what a context asks for summaries of what it leaves out; nil where no
// model is configured.
func (s sessions) summarise(ctx context.Context, id string, at *standingSession) func(window.Older) window.Made {
	if s.Summaries == nil {
		return nil
	}
	return func(older window.Older) (made window.Made) {
		made = s.madeOf(ctx, id, at, older)
		kind := tiering.SummaryExtractive
		if made.Text != "" {
			kind = tiering.SummaryModel
		}
		s.Recorder.ContextSummary(kind)
		return made
	}
}

// madeOf returns what there is, and has what is missing made. It waits only when there
// is nothing at all.
func (s sessions) madeOf(ctx context.Context, id string, at *standingSession, older window.Older) window.Made {
	stored, err := s.summariesOf(ctx, id)
	if err != nil {
		return window.Made{Reason: tiering.Told(err)}
	}
	best := stored.best(older, at.doc.Skipped)
	if !due(older, best) {
		return window.Made{Text: best.Text, To: best.To}
	}
	owner := s.everything()
	m, why := s.beginSummary(s.logKey(id), func(ctx context.Context) error { return owner.makeSummary(ctx, id, at, older) })
	if m != nil {
		patience := s.summaryPatience()
		if best.To > 0 {
			patience = 0
		}
		why = m.wait(ctx, patience)
	}
	if best.To == 0 && m != nil {
		// Also what was made of a part: the rest follows it as lines.
		if stored, err = s.summariesOf(ctx, id); err == nil {
			best = stored.best(older, at.doc.Skipped)
		}
	}
	if older.Behind(best.To).Turns() == 0 {
		why = ""
	}
	return window.Made{Text: best.Text, To: best.To, Reason: why}
}

// due reports whether a summary, the zero one for none, leaves out so much of older
// turns that it has to be made, or extended.
func due(older window.Older, best tiering.SessionSummary) bool {
	missing := older.Behind(best.To).Turns()
	return missing >= refreshTurns || missing > 0 && best.To == 0
}

// everything is sessions as the node itself sees them: a summary is made of what one
// caller may read, for all who may read the session.
func (s sessions) everything() sessions {
	return sessions{&Router{core: s.core, who: tiering.Principal{Tenant: s.who.Tenant}}}
}

// makeSummary extends the best summary that there is over older turns, and stores it
// after each request, so that what was paid for is kept. What its caller found missing
// may have been made by now.
func (s sessions) makeSummary(ctx context.Context, id string, at *standingSession, older window.Older) error {
	stored, err := s.summariesOf(ctx, id)
	if err != nil {
		return err
	}
	base := stored.best(older, at.doc.Skipped)
	if !due(older, base) {
		return nil
	}
	for rest := older.Behind(base.To); rest.Turns() > 0; rest = rest.Behind(base.To) {
		talk, to := rest.Talk(s.Summaries.MaxInput())
		next := tiering.SessionSummary{From: older.From(), To: to, Text: base.Text, Skipped: within(at.doc.Skipped, older.From(), to)}
		if base.From > 0 {
			next.From = base.From
			next.Skipped = within(at.doc.Skipped, base.From, to)
		}
		if talk != "" {
			began := time.Now()
			text, err := s.Summaries.Extend(ctx, base.Text, talk)
			s.Recorder.SummaryCall(time.Since(began), err)
			if err != nil {
				return errAsking{err}
			}
			next.Text = text
		}
		if err := s.storeSummary(ctx, id, at, next, base.To); err != nil {
			return err
		}
		base = next
	}
	return nil
}

// storeSummary puts a summary into the session that it is of, unless that ended: one
// that has its id by then is another.
func (s sessions) storeSummary(ctx context.Context, id string, at *standingSession, m tiering.SessionSummary, extends int64) error {
	now, err := s.Warm.Now(ctx)
	if err != nil {
		return tiering.Wrap(err, "", tiering.Warm, tiering.Key{})
	}
	m.MadeAt = now.UTC()
	return s.ownPart(ctx, id, at, summaryPart, func(stored []byte) (any, error) {
		var d summaryDoc
		if stored != nil {
			if err := decodeDoc(stored, &d); err != nil {
				return nil, err
			}
		}
		d.put(m, extends)
		return d, nil
	})
}

// ownPart changes a part that the node itself keeps of a session, in the life of it that
// was read: a session that has the id by then is another. change is given what is
// stored, nil for nothing.
func (s sessions) ownPart(ctx context.Context, id string, at *standingSession, part string, change func(stored []byte) (any, error)) error {
	c, err := s.partChange(ctx, id, "", part, part, nil, tiering.SessionWrite{})
	if err != nil {
		return err
	}
	return c.commit(ctx, func(t *sessionTx) error {
		if !t.log.CreatedAt.Equal(at.log.CreatedAt) {
			return noSession()
		}
		cur, ok := t.parts[part]
		if ok && cur.Body == nil {
			return errBaseInCold
		}
		next, err := change(cur.Body)
		if err != nil {
			return err
		}
		t.put[part], err = encodeDoc(next)
		return err
	})
}
