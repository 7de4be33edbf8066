package router

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tierd/tierd/tiering"
)

// Which events a context holds is what was said on the way to where the session
// stands: a resume of a later checkpoint takes back what one of an earlier one went
// over, and branches, exports and imports keep it.
func TestWhatResumesGoBackOver(t *testing.T) {
	w := open(t, setup{})
	all := w.r.Sessions()
	say := func(text string) {
		t.Helper()
		_, err := all.Append(w.ctx, "s", []json.RawMessage{[]byte(`{"role":"user","content":"` + text + `"}`)}, nil, nil)
		w.no(err)
		_, err = all.Checkpoint(w.ctx, "s", text, nil)
		w.no(err)
	}
	holds := func(id, want string) {
		t.Helper()
		got, err := all.Context(w.ctx, id, &tiering.ContextOptions{Budget: 1000})
		w.no(err)
		var said []string
		for _, word := range []string{"one", "two", "three", "four"} {
			if strings.Contains(fmt.Sprintf("%s", got.Messages), word) {
				said = append(said, word)
			}
		}
		if strings.Join(said, " ") != want {
			t.Errorf("the context of %s holds %s, want %s", id, strings.Join(said, " "), want)
		}
	}
	resume := func(name string) {
		t.Helper()
		_, err := all.Resume(w.ctx, "s", name, nil)
		w.no(err)
	}
	w.session(tiering.NewSession{ID: "s", User: "ann"})
	say("one")
	say("two")
	resume("one")
	say("three")
	holds("s", "one three")
	resume("two")
	holds("s", "one two")
	say("four")
	holds("s", "one two four")
	resume("three")
	holds("s", "one three")

	_, err := all.Branch(w.ctx, "s", "four", &tiering.NewSession{ID: "b"})
	w.no(err)
	holds("b", "one two four")
	e, err := all.Export(w.ctx, "s")
	w.no(err)
	e.Session.ID = "i"
	_, err = all.Import(w.ctx, e)
	w.no(err)
	holds("i", "one three")
	_, err = all.Resume(w.ctx, "i", "four", nil)
	w.no(err)
	holds("i", "one two four")
}
