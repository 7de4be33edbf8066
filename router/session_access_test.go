package router

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/tierd/tierd/tiering"
)

// Which sessions another user has is not to be found out by writes: they answer like
// those of a session that never was. That an id is taken is said, and no more.
func TestAnotherUsersSessionIsNotThere(t *testing.T) {
	w := open(t, setup{})
	w.session(tiering.NewSession{ID: "s", User: "ann"})
	_, err := w.r.Sessions().AcquireLease(w.ctx, "s", &tiering.LeaseRequest{Holder: "h"})
	w.no(err)
	bob := w.r.As(tiering.Principal{Tenant: w.tenant, Scope: tiering.Scope{User: "bob"}}).Sessions()
	one := int64(1)
	for name, write := range map[string]func(id string) error{
		"append": func(id string) error { _, err := bob.Append(w.ctx, id, numbers(1, 1), nil, nil); return err },
		"append behind": func(id string) error {
			_, err := bob.Append(w.ctx, id, numbers(1, 1), nil, &tiering.SessionWrite{ExpectSeq: &one})
			return err
		},
		"patch": func(id string) error {
			_, err := bob.Patch(w.ctx, id, &tiering.SessionPatch{State: json.RawMessage(`{}`)}, nil)
			return err
		},
		"step":   func(id string) error { _, err := bob.Step(w.ctx, id, "x", nil, nil); return err },
		"delete": func(id string) error { return bob.Delete(w.ctx, id, nil) },
		"lease": func(id string) error {
			_, err := bob.AcquireLease(w.ctx, id, &tiering.LeaseRequest{Holder: "b"})
			return err
		},
		"release": func(id string) error { return bob.ReleaseLease(w.ctx, id, 1) },
	} {
		if got, want := tiering.CodeOf(write("s")), tiering.CodeOf(write("never")); got != want {
			t.Errorf("%s of ann's session: %q, of none: %q", name, got, want)
		}
	}
	_, err = bob.Create(w.ctx, &tiering.NewSession{ID: "s"})
	var e *tiering.Error
	if !errors.As(err, &e) || e.Code != tiering.CodeVersionConflict || e.CurrentVersion != 0 || strings.Contains(e.Error(), "user") {
		t.Errorf("a session under the id: %v", err)
	}
	if s, err := w.r.Sessions().Get(w.ctx, "s"); err != nil || s.LastSeq != 1 {
		t.Errorf("ann's session: %+v, %v", s, err)
	}
}

// Callers write tierd's own namespaces by calls on sessions alone, whether or not
// there are any yet; they read them.
func TestCallersDoNotWriteTierdsNamespaces(t *testing.T) {
	one := json.RawMessage(`{"x":1}`)
	for _, made := range []bool{false, true} {
		w := open(t, setup{})
		if made {
			w.session(tiering.NewSession{ID: "ann", User: "ann", App: "ann", State: json.RawMessage(`{"user:x":1,"app:x":1}`)})
		}
		for _, ns := range []string{tiering.SessionNamespace, tiering.SessionEventsNamespace, tiering.SessionPartsNamespace, tiering.UserStateNamespace, tiering.AppStateNamespace, "tierd.else"} {
			for name, write := range map[string]func() error{
				"put":      func() error { _, err := w.r.Put(w.ctx, ns, "ann", one, nil); return err },
				"patch":    func() error { _, err := w.r.Patch(w.ctx, ns, "ann", tiering.MergePatch, one, nil); return err },
				"edit":     func() error { _, err := w.r.Apply(w.ctx, ns, "ann", increment, nil); return err },
				"delete":   func() error { _, err := w.r.Delete(w.ctx, ns, "ann", nil); return err },
				"rollback": func() error { _, err := w.r.Rollback(w.ctx, ns, "ann", 1, nil); return err },
				"touch":    func() error { _, err := w.r.Touch(w.ctx, ns, "ann", nil); return err },
				"append":   func() error { _, err := w.r.Append(w.ctx, ns, "ann", numbers(1, 1), nil); return err },
				"batch": func() error {
					_, err := w.r.Batch(w.ctx, &tiering.Batch{Atomic: true, Ops: []tiering.BatchOp{{Op: "put", Namespace: ns, ID: "ann", Data: one}}})
					return err
				},
			} {
				if err := write(); tiering.CodeOf(err) != tiering.CodeWrongKind {
					t.Errorf("%s of %s: %v", name, ns, err)
				}
			}
			info, err := w.r.Namespace(w.ctx, ns)
			if stands := err == nil; stands != (made && ns != "tierd.else") {
				t.Errorf("%s: %+v, %v", ns, info, err)
			}
		}
		if made {
			d, err := w.r.Get(w.ctx, tiering.UserStateNamespace, "ann", nil)
			if err != nil || string(d.Body) != `{"x":1}` || d.Version != 1 {
				t.Errorf("a read: %+v, %v", d, err)
			}
		}
	}
}

// What sessions share is under the limits of API keys too: a prefix is of users'
// and apps' names, and a key of one user changes nothing of an app's.
func TestWhoSharesState(t *testing.T) {
	w := open(t, setup{})
	w.session(tiering.NewSession{ID: "team2-a", User: "zoe", App: "crm", State: json.RawMessage(`{"user:card":1,"app:cfg":1}`)})
	for _, c := range []struct {
		name     string
		limits   tiering.Scope
		id, user string
		sees     string
		user1    tiering.Code // of a change of a user: key
		app1     tiering.Code // of an app: key
	}{
		{"prefix of neither", tiering.Scope{Prefixes: []string{"team1-"}}, "team1-a", "zoe", `{}`, tiering.CodeForbidden, tiering.CodeForbidden},
		{"prefix of the user", tiering.Scope{Prefixes: []string{"team1-", "zo"}}, "team1-b", "zoe", `{"user:card":1}`, "", tiering.CodeForbidden},
		{"prefix of the app", tiering.Scope{Prefixes: []string{"team1-", "crm"}}, "team1-c", "zoe", `{"app:cfg":1}`, tiering.CodeForbidden, ""},
		{"another user", tiering.Scope{User: "bob"}, "b", "", `{"app:cfg":1}`, "", tiering.CodeForbidden},
		{"the user", tiering.Scope{User: "zoe"}, "z", "", `{"user:card":1,"app:cfg":1}`, "", tiering.CodeForbidden},
		{"no limits", tiering.Scope{}, "free", "zoe", `{"user:card":1,"app:cfg":1}`, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := w.scoped(c.limits).Sessions()
			s, err := all.Create(w.ctx, &tiering.NewSession{ID: c.id, User: c.user, App: "crm"})
			w.no(err)
			if string(s.State) != c.sees {
				t.Errorf("it sees %s, want %s", s.State, c.sees)
			}
			for patch, want := range map[string]tiering.Code{`{"user:card":1}`: c.user1, `{"app:cfg":1}`: c.app1} {
				_, err := all.Patch(w.ctx, c.id, &tiering.SessionPatch{State: json.RawMessage(patch)}, nil)
				code(t, patch, err, want)
			}
			_, err = all.Create(w.ctx, &tiering.NewSession{ID: c.id + "2", User: c.user, App: "crm", State: json.RawMessage(`{"app:cfg":1}`)})
			code(t, "a new session that shares", err, c.app1)
		})
	}
}
