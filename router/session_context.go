package router

import (
	"context"
	"slices"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/window"
)

// contextEvents is how many of the newest events a context looks at, and
// contextFirst how many of the first, where the system message is.
const (
	contextEvents = 1000
	contextFirst  = 20
)

// Context returns what fits a model's context window.
func (s sessions) Context(ctx context.Context, id string, o *tiering.ContextOptions) (*tiering.SessionContext, error) {
	out, err := s.contextOf(ctx, id, orZero(o))
	return out, tiering.Wrap(err, "context", "", s.docKey(id))
}

func (s sessions) contextOf(ctx context.Context, id string, o tiering.ContextOptions) (*tiering.SessionContext, error) {
	switch {
	case o.Budget < 1:
		return nil, tiering.Invalidf("budget %d: say how many tokens the context may take", o.Budget)
	case o.KeepTurns < 0 || o.Shorten < 0:
		return nil, tiering.Invalidf("keep_turns and shorten are positive numbers")
	}
	count, err := window.Counter(o.Tokenizer)
	if err != nil {
		return nil, err
	}
	at, err := s.find(ctx, id)
	if err != nil {
		return nil, err
	}
	events, unread, err := s.contextEvents(ctx, at)
	if err != nil {
		return nil, err
	}
	recalled, err := s.recallFor(ctx, at, o)
	if err != nil {
		return nil, err
	}
	fitted, err := window.Fit(events, window.Options{
		Recalled: recalled, Summarise: s.summarise(ctx, id, at),
		Budget: o.Budget, KeepTurns: o.KeepTurns, Shorten: o.Shorten, Shape: window.Shape(o.Shape), Count: count, Skipped: at.doc.Skipped, Unread: unread,
	})
	if err == nil && fitted.Recalled != nil {
		s.noteRecall(id, at, o.Recall, fitted.Recalled)
	}
	return fitted, err
}

// contextEvents are the newest events of a session in order, without those that
// resumes went back over, behind the first ones where there are more. unread is what
// lies between.
func (s sessions) contextEvents(ctx context.Context, at *standingSession) (events []window.Event, unread []tiering.Omitted, err error) {
	newest, before, err := s.newestEvents(ctx, at)
	if err != nil || before <= 1 {
		return newest, nil, err
	}
	page, err := s.entriesOf(ctx, at.log, tiering.EntriesOptions{Before: before, Limit: contextFirst})
	if err != nil {
		return nil, nil, err
	}
	for _, e := range page.Entries {
		events = append(events, window.Event{Seq: e.Seq, Data: e.Data})
	}
	if n := len(page.Entries); page.More && n > 0 {
		unread = []tiering.Omitted{{From: page.Entries[n-1].Seq + 1, To: before - 1, How: "dropped"}}
	}
	return append(events, newest...), unread, nil
}

// newestEvents reads backwards from the end of the log, over what resumes went back
// over, until it has contextEvents of them or a page of bytes. No entry below before
// was looked at; 1 means that all were.
func (s sessions) newestEvents(ctx context.Context, at *standingSession) (out []window.Event, before int64, err error) {
	before = at.log.Version + 1
	for size := 0; len(out) < contextEvents && size < tiering.MaxBody; {
		page, err := s.entriesOf(ctx, at.log, tiering.EntriesOptions{Descending: true, Before: before, Limit: contextEvents})
		if err != nil {
			return nil, 0, err
		}
		for _, e := range page.Entries {
			if len(out) == contextEvents {
				slices.Reverse(out)
				return out, before, nil
			}
			if before = e.Seq; inRuns(at.doc.Skipped, e.Seq) {
				continue
			}
			out, size = append(out, window.Event{Seq: e.Seq, Data: e.Data}), size+len(e.Data)
		}
		if !page.More {
			before = 1
			break
		}
		for _, r := range at.doc.Skipped {
			if before > r.From && before <= r.To+1 {
				before = r.From
			}
		}
	}
	slices.Reverse(out)
	return out, before, nil
}
