package router

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// dyingWarm takes a number of commits, and none behind them.
type dyingWarm struct {
	warm.Store
	left *atomic.Int64
}

var errDead = errors.New("the daemon is dead")

func (d dyingWarm) Commit(ctx context.Context, b *warm.Batch) ([][]warm.Result, error) {
	if d.left.Add(-1) < 0 {
		return nil, errDead
	}
	return d.Store.Commit(ctx, b)
}

func (d dyingWarm) Atomic(ctx context.Context, id uuid.UUID, keys []tiering.Key, idem *warm.Idempotency, decide func([]warm.Current) ([]warm.Change, error)) ([][]warm.Result, bool, error) {
	if d.left.Add(-1) < 0 {
		return nil, false, errDead
	}
	return d.Store.Atomic(ctx, id, keys, idem, decide)
}

// A branch and an import take many commits. Cut off behind any of them, nobody finds a
// part of the session; the same request makes it whole, or its id is free again soon.
func TestASessionIsMadeWholeOrNotAtAll(t *testing.T) {
	for _, how := range []string{"branch", "import"} {
		t.Run(how, func(t *testing.T) {
			after := int64(0)
			for !cutOffMaking(t, how, "ab", after) {
				after++
			}
			if after < 5 { // the log, the events, two steps, the document
				t.Errorf("it was made in %d commits", after)
			}
			// Between two runs of events: a branch copies the steps first.
			if cutOffMaking(t, how, strings.Repeat("x", tiering.MaxBody/2), map[string]int64{"branch": 4, "import": 2}[how]) {
				t.Error("the second run of events was no commit of its own")
			}
		})
	}
}

// cutOffMaking cuts the making of a session, with two events of that text, off behind so
// many commits, and reports whether it was made before that.
func cutOffMaking(t *testing.T, how, text string, after int64) (made bool) {
	var left atomic.Int64
	left.Store(1 << 40)
	w := open(t, setup{warm: func(s warm.Store) warm.Store { return dyingWarm{s, &left} }})
	all := w.r.Sessions()
	event := json.RawMessage(`"` + text + `"`)
	s := w.session(tiering.NewSession{ID: "s", User: "ada", State: []byte(`{"n":1,"user:seat":"aisle"}`), Events: []json.RawMessage{json.RawMessage(`1`), event}})
	for _, name := range []string{"a", "b"} {
		_, err := all.Step(w.ctx, s.ID, name, nil, nil)
		w.no(err)
		_, err = all.Step(w.ctx, s.ID, name, &tiering.StepRequest{Output: []byte(`"done"`)}, nil)
		w.no(err)
	}
	_, err := all.Append(w.ctx, s.ID, []json.RawMessage{event, json.RawMessage(`2`)}, nil, nil)
	w.no(err)
	_, err = all.Checkpoint(w.ctx, s.ID, "c", nil)
	w.no(err)
	e, err := all.Export(w.ctx, s.ID)
	w.no(err)
	e.Session.ID = "t"
	makeIt := func() (*tiering.Session, error) {
		if how == "branch" {
			return all.Branch(w.ctx, s.ID, "c", &tiering.NewSession{ID: "t", IdempotencyKey: "once", Events: numbers(3, 3)})
		}
		return all.Import(w.ctx, e)
	}

	left.Store(after)
	got, err := makeIt()
	left.Store(1 << 40)
	if made = err == nil; !made {
		w.noSession("t")
		_, err := all.Create(w.ctx, &tiering.NewSession{ID: "t"})
		if after > 0 {
			code(t, fmt.Sprintf("a session of its id, behind %d commits", after), err, tiering.CodeUnavailable)
		} else {
			w.no(err)
			w.no(all.Delete(w.ctx, "t", nil))
		}
		if how == "import" || after%2 == 1 { // a branch goes on under its key, or begins anew
			if after > 0 {
				_, err := all.Append(w.ctx, "t", numbers(7, 7), nil, nil)
				code(t, "an append to what is not made", err, tiering.CodeUnavailable)
			}
			w.clock.advance(makingLife)
			w.noSession("t")
		}
		got, err = makeIt()
		w.no(err)
	}
	w.wholeSession(how, text, got)
	again, err := makeIt()
	if how == "import" {
		code(t, "an import of a session that stands", err, tiering.CodeVersionConflict)
	} else {
		w.no(err)
		w.wholeSession(how, text, again)
	}
	w.clock.advance(2 * makingLife)
	_, err = all.Get(w.ctx, "t")
	w.no(err)
	return made
}

// noSession checks that nobody finds a session of this id.
func (w *world) noSession(id string) {
	w.Helper()
	all := w.r.Sessions()
	page, err := all.List(w.ctx, nil)
	w.no(err)
	for _, s := range page.Sessions {
		if s.ID == id {
			w.Errorf("listed: %+v", s)
		}
	}
	for what, err := range map[string]error{
		"it":         second(all.Get(w.ctx, id)),
		"its events": second(all.Events(w.ctx, id, nil)),
		"its steps":  second(all.Steps(w.ctx, id)),
		"a change":   second(all.Patch(w.ctx, id, &tiering.SessionPatch{State: []byte(`{"x":1}`)}, nil)),
	} {
		if tiering.CodeOf(err) != tiering.CodeNotFound {
			w.Errorf("%s: %v", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// wholeSession checks what was made.
func (w *world) wholeSession(how, text string, s *tiering.Session) {
	w.Helper()
	all := w.r.Sessions()
	e, err := all.Export(w.ctx, s.ID)
	w.no(err)
	want, checkpoints := []string{"1", text, text, "2"}, 1
	if how == "branch" {
		want, checkpoints = append(want, "3"), 0
	}
	var got []string
	for _, one := range e.Events {
		if whatOf(one.Data) == "event" {
			got = append(got, strings.Trim(string(one.Data), `"`))
		}
	}
	done := 0
	for _, st := range e.Steps {
		if st.Status == tiering.StepDone {
			done++
		}
	}
	if s.ID != "t" || s.User != "ada" || string(s.State) != `{"n":1,"user:seat":"aisle"}` || !slices.Equal(got, want) || done != 2 || len(e.Checkpoints) != checkpoints {
		w.Errorf("made %+v with %d events, %d steps done, %d checkpoints", s, len(got), done, len(e.Checkpoints))
	}
	for _, c := range e.Checkpoints {
		if c.Version != s.Version {
			w.Errorf("the checkpoint is of version %d, the session has %d", c.Version, s.Version)
		}
	}
}
