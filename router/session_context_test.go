package router

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tierd/tierd/tiering"
)

// says are n messages of a user.
func says(word string, n int) []json.RawMessage {
	out := make([]json.RawMessage, n)
	for i := range out {
		out[i] = fmt.Appendf(nil, `{"role":"user","content":"%s %d"}`, word, i)
	}
	return out
}

// What a context did not look at, between the first entries and the newest ones, it
// tells; and no entry is told twice.
func TestAContextTellsWhatItDidNotRead(t *testing.T) {
	w := open(t, setup{})
	w.session(tiering.NewSession{ID: "s", Events: says("early", contextFirst)})
	for range 3 {
		_, err := w.r.Sessions().Append(w.ctx, "s", says("late", contextEvents/2), nil, nil)
		w.no(err)
	}
	got, err := w.r.Sessions().Context(w.ctx, "s", &tiering.ContextOptions{Budget: 2000, KeepTurns: 10})
	w.no(err)
	last := int64(1 + contextFirst + 3*contextEvents/2)
	gap := tiering.Omitted{From: contextFirst + 1, To: last - contextEvents, How: "dropped"}
	to, told := int64(1), false // the first entry is tierd's own
	for _, o := range got.Omitted {
		if o.From != to+1 {
			t.Errorf("%+v follows %d", o, to)
		}
		to, told = o.To, told || o == gap
	}
	if !told || to != last-10 || len(got.Messages) != 11 {
		t.Errorf("omitted %+v, want %+v among them; %d messages", got.Omitted, gap, len(got.Messages))
	}
}

// However much a resume went back over, what the session goes on from is in its
// context.
func TestAContextBehindALongRunThatWasGoneBackOver(t *testing.T) {
	w := open(t, setup{})
	all := w.r.Sessions()
	w.session(tiering.NewSession{ID: "s", Events: says("kept", 40)})
	_, err := all.Checkpoint(w.ctx, "s", "c", nil)
	w.no(err)
	for range 3 {
		_, err := all.Append(w.ctx, "s", says("gone", contextEvents), nil, nil)
		w.no(err)
	}
	_, err = all.Resume(w.ctx, "s", "c", nil)
	w.no(err)
	got, err := all.Context(w.ctx, "s", &tiering.ContextOptions{Budget: 2000})
	w.no(err)
	text := fmt.Sprintf("%s", got.Messages)
	if !strings.Contains(text, "kept 39") || !strings.Contains(text, "Summary of 30") || strings.Contains(text, "gone") {
		t.Errorf("the context holds %s", text)
	}
	over := tiering.Omitted{From: 42, To: 3042, How: "resumed over"}
	if n := len(got.Omitted); n == 0 || got.Omitted[n-1] != over {
		t.Errorf("omitted: %+v, want %+v last", got.Omitted, over)
	}
}
