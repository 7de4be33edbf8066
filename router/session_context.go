package router

import (
	"context"

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
	events, err := s.contextEvents(ctx, at)
	if err != nil {
		return nil, err
	}
	return window.Fit(events, window.Options{
		Budget: o.Budget, KeepTurns: o.KeepTurns, Shorten: o.Shorten, Shape: window.Shape(o.Shape), Count: count, Skipped: at.doc.Skipped,
	})
}

// contextEvents are the newest events of a session in order, behind the first
// ones where there are more.
func (s sessions) contextEvents(ctx context.Context, at *standingSession) ([]window.Event, error) {
	page, err := s.entriesOf(ctx, at.log, tiering.EntriesOptions{Descending: true, Limit: contextEvents})
	if err != nil {
		return nil, err
	}
	var first []tiering.Entry
	if n := len(page.Entries); page.More && n > 0 {
		head, err := s.entriesOf(ctx, at.log, tiering.EntriesOptions{Before: page.Entries[n-1].Seq, Limit: contextFirst})
		if err != nil {
			return nil, err
		}
		first = head.Entries
	}
	out := make([]window.Event, 0, len(first)+len(page.Entries))
	for _, e := range first {
		out = append(out, window.Event{Seq: e.Seq, Data: e.Data})
	}
	for i := len(page.Entries) - 1; i >= 0; i-- {
		out = append(out, window.Event{Seq: page.Entries[i].Seq, Data: page.Entries[i].Data})
	}
	return out, nil
}
