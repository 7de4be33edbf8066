package router

import (
	"encoding/json"
	"testing"

	"github.com/tierd/tierd/tiering"
)

// A creation, a branch and a patch that come again with their Idempotency-Key are
// done once, also in what they do behind their commit; whatever became of what they
// were taken from.
func TestSessionWritesHappenOnce(t *testing.T) {
	w := open(t, setup{})
	all := w.r.Sessions()
	state := func(id, want string) {
		t.Helper()
		s, err := all.Get(w.ctx, id)
		w.no(err)
		if string(s.State) != want {
			t.Errorf("%s has %s, want %s", id, s.State, want)
		}
	}
	patch := func(id, patch, key string) {
		t.Helper()
		_, err := all.Patch(w.ctx, id, &tiering.SessionPatch{State: json.RawMessage(patch)}, &tiering.SessionWrite{IdempotencyKey: key})
		w.no(err)
	}
	create := &tiering.NewSession{User: "ann", App: "desk", State: json.RawMessage(`{"user:n":1}`), IdempotencyKey: "create"}
	s, err := all.Create(w.ctx, create)
	w.no(err)
	patch(s.ID, `{"user:n":2,"app:n":2,"n":2}`, "two")
	patch(s.ID, `{"user:n":3,"app:n":3,"n":3}`, "three")
	patch(s.ID, `{"user:n":2,"app:n":2,"n":2}`, "two")
	again, err := all.Create(w.ctx, create)
	w.no(err)
	if again.ID != s.ID {
		t.Errorf("created %s, then %s", s.ID, again.ID)
	}
	state(s.ID, `{"n":3,"user:n":3,"app:n":3}`)

	_, err = all.Append(w.ctx, s.ID, numbers(1, 2), nil, nil)
	w.no(err)
	_, err = all.Checkpoint(w.ctx, s.ID, "c", nil)
	w.no(err)
	branch := &tiering.NewSession{IdempotencyKey: "branch"}
	b, err := all.Branch(w.ctx, s.ID, "c", branch)
	w.no(err)
	app := "another"
	_, err = all.Append(w.ctx, s.ID, numbers(3, 3), &tiering.SessionPatch{App: &app}, nil)
	w.no(err)
	_, err = all.Checkpoint(w.ctx, s.ID, "c", nil)
	w.no(err)
	second, err := all.Branch(w.ctx, s.ID, "c", branch)
	w.no(err)
	if second.ID != b.ID || w.sessionEvents(b.ID) != "2=1 3=2" {
		t.Errorf("branched to %s, then to %s with %s", b.ID, second.ID, w.sessionEvents(b.ID))
	}
	_, err = all.Branch(w.ctx, s.ID, "c", &tiering.NewSession{ID: "other", IdempotencyKey: "branch"})
	code(t, "another branch under the key", err, tiering.CodeIdempotencyMismatch)
}

// A key that may not read is refused what answers with a session before anything is
// written; what does not it may do.
func TestAWriterOfSessionsThatMayNotRead(t *testing.T) {
	w := open(t, setup{})
	all := w.r.Sessions()
	w.session(tiering.NewSession{ID: "s"})
	_, err := all.Checkpoint(w.ctx, "s", "c", nil)
	w.no(err)
	before, err := all.Get(w.ctx, "s")
	w.no(err)
	writer := w.r.As(tiering.Principal{Tenant: w.tenant, Scope: tiering.Scope{Verbs: []tiering.Verb{tiering.VerbWrite}}}).Sessions()
	status := "written"
	for name, write := range map[string]func() error{
		"create": func() error { _, err := writer.Create(w.ctx, &tiering.NewSession{ID: "t"}); return err },
		"patch": func() error {
			_, err := writer.Patch(w.ctx, "s", &tiering.SessionPatch{Status: &status}, nil)
			return err
		},
		"step":   func() error { _, err := writer.Step(w.ctx, "s", "x", nil, nil); return err },
		"resume": func() error { _, err := writer.Resume(w.ctx, "s", "c", nil); return err },
		"branch": func() error { _, err := writer.Branch(w.ctx, "s", "c", &tiering.NewSession{ID: "t"}); return err },
		"import": func() error {
			_, err := writer.Import(w.ctx, &tiering.SessionExport{Session: tiering.Session{ID: "t"}})
			return err
		},
	} {
		code(t, name, write(), tiering.CodeForbidden)
	}
	after, err := all.Get(w.ctx, "s")
	w.no(err)
	if after.Version != before.Version || after.LastSeq != before.LastSeq {
		t.Errorf("written: %+v, before: %+v", after, before)
	}
	_, err = all.Get(w.ctx, "t")
	code(t, "the session that was refused", err, tiering.CodeNotFound)
	if _, err := writer.Append(w.ctx, "s", numbers(1, 1), &tiering.SessionPatch{Status: &status}, nil); err != nil {
		t.Errorf("an append: %v", err)
	}
}
