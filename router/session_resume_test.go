package router

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

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

// A branch, and what is imported, lives as long as the session that it comes from,
// unless it is told otherwise.
func TestABranchAndAnImportLiveAsLong(t *testing.T) {
	w := open(t, setup{})
	all := w.r.Sessions()
	for _, c := range []struct {
		has, asks string
		want      time.Duration
	}{{"2h", "", 2 * time.Hour}, {"none", "", 0}, {"", "", tiering.DefaultSessionTTL}, {"2h", "5m", 5 * time.Minute}, {"2h", "none", 0}} {
		t.Run(c.has+"-"+c.asks, func(t *testing.T) {
			id := "s" + c.has + c.asks
			w.session(tiering.NewSession{ID: id, TTL: c.has})
			_, err := all.Checkpoint(w.ctx, id, "c", nil)
			w.no(err)
			b, err := all.Branch(w.ctx, id, "c", &tiering.NewSession{TTL: c.asks})
			w.no(err)
			made := map[string]*tiering.Session{"branch": b}
			if c.asks == "" {
				e, err := all.Export(w.ctx, id)
				w.no(err)
				e.Session.ID = id + "-imported"
				made["import"], err = all.Import(w.ctx, e)
				w.no(err)
			}
			for how, s := range made {
				if got := s.ExpiresAt.Sub(w.clock.Now()); c.want == 0 && !s.ExpiresAt.IsZero() || c.want > 0 && got != c.want {
					t.Errorf("the %s lives until %v", how, s.ExpiresAt)
				}
			}
		})
	}
}

// What a job did before the place where a branch begins stays done in the branch, and in
// branches of it and of its import; what was claimed, or done later, is not there.
func TestABranchKeepsTheStepsThatWereDone(t *testing.T) {
	w := open(t, setup{})
	all := w.r.Sessions()
	step := func(id, name, output, want string) *tiering.Step {
		t.Helper()
		q := &tiering.StepRequest{}
		if output != "" {
			q.Output = json.RawMessage(output)
		}
		st, err := all.Step(w.ctx, id, name, q, nil)
		w.no(err)
		if st.Status != want {
			t.Errorf("step %s of %s: %+v, want it %s", name, id, st, want)
		}
		return st
	}
	name := func(id, name string) {
		t.Helper()
		_, err := all.Checkpoint(w.ctx, id, name, nil)
		w.no(err)
	}
	branch := func(of, name, id string) {
		t.Helper()
		_, err := all.Branch(w.ctx, of, name, &tiering.NewSession{ID: id})
		w.no(err)
		steps, err := all.Steps(w.ctx, id)
		w.no(err)
		if len(steps) != 1 || steps[0].Name != "paid" || string(steps[0].Output) != "77" {
			t.Errorf("the branch %s has the steps %+v", id, steps)
		}
	}
	w.session(tiering.NewSession{ID: "s"})
	first := step("s", "paid", "", tiering.StepClaimed)
	step("s", "paid", "77", tiering.StepDone)
	step("s", "open", "", tiering.StepClaimed)
	name("s", "c") // at the same moment as what follows: their places in the log tell
	step("s", "later", "", tiering.StepClaimed)
	step("s", "later", "1", tiering.StepDone)
	branch("s", "c", "b")
	if again := step("b", "paid", "", tiering.StepDone); !again.Replayed || again.Key != first.Key {
		t.Errorf("a step of before, in the branch: %+v", again)
	}
	step("b", "open", "", tiering.StepClaimed)
	step("b", "later", "", tiering.StepClaimed)

	w.advance(time.Second)
	name("b", "d")
	branch("b", "d", "bb")
	e, err := all.Export(w.ctx, "b")
	w.no(err)
	e.Session.ID = "i"
	_, err = all.Import(w.ctx, e)
	w.no(err)
	branch("i", "d", "ib")
}
