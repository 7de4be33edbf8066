package router

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/tierd/tierd/tiering"
)

// scoped is the router as a principal of the tenant sees it.
func (w *world) scoped(s tiering.Scope) *Router {
	return w.r.As(tiering.Principal{Tenant: tiering.DefaultTenant, Scope: s})
}

// request is one call of the service on a namespace and an id.
type request struct {
	name string
	verb tiering.Verb
	byID bool // it names an id
	run  func(ctx context.Context, r *Router, ns, id string) error
}

// requests are all calls that name a namespace.
func requests() []request {
	rs := []request{
		{"get", tiering.VerbRead, true, func(ctx context.Context, r *Router, ns, id string) error {
			_, err := r.Get(ctx, ns, id, nil)
			return err
		}},
		{"strong get", tiering.VerbRead, true, func(ctx context.Context, r *Router, ns, id string) error {
			_, err := r.Get(ctx, ns, id, &tiering.GetOptions{Strong: true})
			return err
		}},
		{"get of a version", tiering.VerbRead, true, func(ctx context.Context, r *Router, ns, id string) error {
			_, err := r.Get(ctx, ns, id, &tiering.GetOptions{Version: 1})
			return err
		}},
		{"head", tiering.VerbRead, true, func(ctx context.Context, r *Router, ns, id string) error {
			_, err := r.Head(ctx, ns, id, nil)
			return err
		}},
		{"versions", tiering.VerbRead, true, func(ctx context.Context, r *Router, ns, id string) error {
			_, err := r.History(ctx, ns, id, nil)
			return err
		}},
		{"diff", tiering.VerbRead, true, func(ctx context.Context, r *Router, ns, id string) error {
			_, err := r.Diff(ctx, ns, id, 1, 1)
			return err
		}},
		{"explain", tiering.VerbRead, true, func(ctx context.Context, r *Router, ns, id string) error {
			_, err := r.Explain(ctx, ns, id)
			return err
		}},
		{"list", tiering.VerbRead, false, func(ctx context.Context, r *Router, ns, _ string) error {
			_, err := r.List(ctx, ns, nil)
			return err
		}},
		{"query", tiering.VerbRead, false, func(ctx context.Context, r *Router, ns, _ string) error {
			_, err := r.Query(ctx, ns, nil)
			return err
		}},
		{"watch", tiering.VerbRead, false, func(ctx context.Context, r *Router, ns, _ string) error {
			s, err := r.Watch(ctx, &tiering.WatchOptions{Namespace: ns})
			if err != nil {
				return err
			}
			return s.Close()
		}},
		{"namespace", tiering.VerbRead, false, func(ctx context.Context, r *Router, ns, _ string) error {
			_, err := r.Namespace(ctx, ns)
			return err
		}},
		{"set namespace", tiering.VerbAdmin, false, func(ctx context.Context, r *Router, ns, _ string) error {
			_, err := r.SetNamespace(ctx, ns, tiering.Policy{}, nil)
			return err
		}},
		{"patch namespace", tiering.VerbAdmin, false, func(ctx context.Context, r *Router, ns, _ string) error {
			_, err := r.PatchNamespace(ctx, ns, []byte(`{}`), nil)
			return err
		}},
	}
	for _, v := range verbs() {
		need := tiering.VerbWrite
		if v.name == "delete" {
			need = tiering.VerbDelete
		}
		rs = append(rs, request{v.name, need, true, func(ctx context.Context, r *Router, ns, id string) error {
			_, err := v.run(ctx, r, ns, id, tiering.WriteOptions{})
			return err
		}})
	}
	for _, op := range []tiering.BatchOp{
		{Op: "get"}, {Op: "check"}, {Op: "put", Data: []byte(`{"n":1}`)}, {Op: "patch", Data: []byte(`{"n":1}`)}, {Op: "edit", Ops: increment}, {Op: "delete"},
	} {
		need := map[string]tiering.Verb{"get": tiering.VerbRead, "check": tiering.VerbRead, "delete": tiering.VerbDelete}[op.Op]
		if need == "" {
			need = tiering.VerbWrite
		}
		for _, isAtomic := range []bool{false, true} {
			rs = append(rs, request{fmt.Sprintf("batch %s, atomic %t", op.Op, isAtomic), need, true, func(ctx context.Context, r *Router, ns, id string) error {
				op.Namespace, op.ID = ns, id
				res, err := r.Batch(ctx, &tiering.Batch{Atomic: isAtomic, Ops: []tiering.BatchOp{op}})
				if err == nil && res.Results[0].Error != nil {
					return res.Results[0].Error.Error()
				}
				return err
			}})
		}
	}
	return rs
}

// A key limited to verbs may do those alone, whatever the call.
func TestScopeOfVerbs(t *testing.T) {
	w := open(t, setup{})
	for _, allowed := range []tiering.Verb{tiering.VerbRead, tiering.VerbWrite, tiering.VerbDelete, tiering.VerbAdmin} {
		r := w.scoped(tiering.Scope{Verbs: []tiering.Verb{allowed}})
		for _, q := range requests() {
			w.put("k", `{"n":1}`)
			err := q.run(w.ctx, r, space, "k")
			if forbidden := tiering.CodeOf(err) == tiering.CodeForbidden; forbidden != (q.verb != allowed) {
				t.Errorf("%s with a key that may %s answers %v", q.name, allowed, err)
			}
		}
	}
}

// A key limited to namespaces or to prefixes of ids reaches nothing else.
func TestScopeOfNamespacesAndPrefixes(t *testing.T) {
	w := open(t, setup{})
	for name, c := range map[string]struct {
		scope    tiering.Scope
		inNS, in string
		outNS    string
		out      string
	}{
		"namespaces": {tiering.Scope{Namespaces: []string{space, "more"}}, space, "k", "other", "k"},
		"prefixes":   {tiering.Scope{Prefixes: []string{"a/", "b/"}}, space, "b/k", space, "c/k"},
	} {
		t.Run(name, func(t *testing.T) {
			r := w.scoped(c.scope)
			for _, q := range requests() {
				if q.verb == tiering.VerbAdmin {
					if err := q.run(w.ctx, r, c.inNS, c.in); tiering.CodeOf(err) != tiering.CodeForbidden {
						t.Errorf("%s of a limited key answers %v", q.name, err)
					}
					continue
				}
				for _, place := range [][2]string{{c.inNS, c.in}, {c.outNS, c.out}} {
					_, err := w.r.Put(w.ctx, place[0], place[1], []byte(`{"n":1}`), nil)
					w.no(err)
				}
				if err := q.run(w.ctx, r, c.inNS, c.in); err != nil {
					t.Errorf("%s inside answers %v", q.name, err)
				}
				if err := q.run(w.ctx, r, c.outNS, c.out); tiering.CodeOf(err) != tiering.CodeForbidden && (q.byID || name == "namespaces") {
					t.Errorf("%s outside answers %v", q.name, err)
				}
			}
		})
	}
}

// ids of a page.
func ids(t *testing.T, p *tiering.Page, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for _, it := range p.Items {
		out = append(out, it.ID)
	}
	return fmt.Sprint(out)
}

// What a limited key lists, queries and watches is what it may read.
func TestScopeOfListsAndWatches(t *testing.T) {
	w := open(t, setup{})
	put := func(ns, id, user string) {
		_, err := w.r.Put(w.ctx, ns, id, []byte(`{"n":1}`), &tiering.PutOptions{User: user})
		w.no(err)
	}
	put(space, "a/1", "ann")
	put(space, "b/1", "bob")
	put(space, "c", "")
	put("other", "a/2", "ann")
	for name, c := range map[string]struct {
		scope      tiering.Scope
		list       string
		watch      string
		namespaces int
	}{
		"none":       {tiering.Scope{}, "[a/1 b/1 c]", "[a/1 b/1 c a/2]", 2},
		"namespaces": {tiering.Scope{Namespaces: []string{space}}, "[a/1 b/1 c]", "[a/1 b/1 c]", 1},
		"prefixes":   {tiering.Scope{Prefixes: []string{"a/", "b/"}}, "[a/1 b/1]", "[a/1 b/1 a/2]", 2},
		"user":       {tiering.Scope{User: "ann"}, "[a/1]", "[a/1 a/2]", 2},
		"all":        {tiering.Scope{Namespaces: []string{space}, Prefixes: []string{"b/"}, User: "bob"}, "[b/1]", "[b/1]", 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := w.scoped(c.scope)
			page, err := r.List(w.ctx, space, nil)
			if got := ids(t, page, err); got != c.list {
				t.Errorf("the list has %s, want %s", got, c.list)
			}
			page, err = r.Query(w.ctx, space, &tiering.Query{Filter: json.RawMessage(`{"n":1}`)})
			if got := ids(t, page, err); got != c.list {
				t.Errorf("the query finds %s, want %s", got, c.list)
			}
			var seen []string
			for _, e := range w.watched(r, &tiering.WatchOptions{From: "start"}) {
				seen = append(seen, e.Key)
			}
			if got := fmt.Sprint(seen); got != c.watch {
				t.Errorf("the watch sees %s, want %s", got, c.watch)
			}
			nss, err := r.Namespaces(w.ctx)
			w.no(err)
			if len(nss) != c.namespaces {
				t.Errorf("it sees %d namespaces, want %d", len(nss), c.namespaces)
			}
		})
	}
	ann := w.scoped(tiering.Scope{User: "ann"})
	_, err := ann.List(w.ctx, space, &tiering.ListOptions{User: "bob"})
	if tiering.CodeOf(err) != tiering.CodeForbidden {
		t.Errorf("a list of another user's answers %v", err)
	}
	_, err = ann.Watch(w.ctx, &tiering.WatchOptions{User: "bob"})
	if tiering.CodeOf(err) != tiering.CodeForbidden {
		t.Errorf("a watch of another user's answers %v", err)
	}
	_, err = ann.Put(w.ctx, space, "new", []byte(`1`), &tiering.PutOptions{User: "bob"})
	if tiering.CodeOf(err) != tiering.CodeForbidden {
		t.Errorf("a put for another user answers %v", err)
	}
	rc, err := ann.Put(w.ctx, space, "new", []byte(`1`), nil)
	w.no(err)
	if rc.User != "ann" {
		t.Errorf("a key limited to ann made a document of %q", rc.User)
	}
}

// To a key limited to a user another user's document is not there to read, and
// not to be written.
func TestScopeOfUser(t *testing.T) {
	w := open(t, setup{})
	ann := w.scoped(tiering.Scope{User: "ann"})
	for _, q := range requests() {
		if !q.byID {
			continue
		}
		t.Run(q.name, func(t *testing.T) {
			id := "of-bob/" + q.name
			for _, body := range []string{`{"n":1}`, `{"n":2}`} {
				_, err := w.r.Put(w.ctx, space, id, []byte(body), &tiering.PutOptions{User: "bob"})
				w.no(err)
			}
			want := tiering.CodeNotFound
			if q.verb != tiering.VerbRead && q.name != "rollback" { // what a rollback would read is not there
				want = tiering.CodeForbidden
			}
			if err := q.run(w.ctx, ann, space, id); tiering.CodeOf(err) != want {
				t.Errorf("the answer is %v, want %s", err, want)
			}
			if got := w.strong(id); got != `{"n":2}` {
				t.Errorf("it left %s", got)
			}
			mine := "of-ann/" + q.name
			_, err := ann.Put(w.ctx, space, mine, []byte(`{"n":1}`), nil)
			w.no(err)
			if err := q.run(w.ctx, ann, space, mine); err != nil {
				t.Errorf("on a document of its own: %v", err)
			}
		})
	}
}

// A write that is refused for its owner says nothing about what it would have
// been applied to.
func TestForeignDocumentsAreNotProbed(t *testing.T) {
	w := open(t, setup{})
	_, err := w.r.Put(w.ctx, space, "k", []byte(`{"secret":1}`), &tiering.PutOptions{User: "bob"})
	w.no(err)
	ann := w.scoped(tiering.Scope{User: "ann"})
	for _, guess := range []string{`1`, `2`} {
		patch := []byte(fmt.Sprintf(`[{"op":"test","path":"/secret","value":%s}]`, guess))
		_, err := ann.Patch(w.ctx, space, "k", tiering.JSONPatch, patch, nil)
		if tiering.CodeOf(err) != tiering.CodeForbidden {
			t.Errorf("a guess of %s answers %v", guess, err)
		}
		_, err = ann.Batch(w.ctx, &tiering.Batch{Atomic: true, Ops: []tiering.BatchOp{{Op: "patch", Namespace: space, ID: "k", Data: patch}}})
		if tiering.CodeOf(err) != tiering.CodeForbidden {
			t.Errorf("a guess of %s in a batch answers %v", guess, err)
		}
	}
	_, err = ann.Apply(w.ctx, space, "k", []tiering.EditOp{{Op: "append", Pointer: "/secret", Value: []byte(`1`)}}, nil)
	if tiering.CodeOf(err) != tiering.CodeForbidden {
		t.Errorf("an edit that cannot be done answers %v", err)
	}
}

// A key that had another owner before it was deleted shows its new owner
// nothing of that life.
func TestEarlierOwnerStaysHidden(t *testing.T) {
	w := open(t, setup{})
	ann := w.scoped(tiering.Scope{User: "ann"})
	put := func(r *Router, body, user string) {
		_, err := r.Put(w.ctx, space, "k", []byte(body), &tiering.PutOptions{User: user})
		w.no(err)
	}
	put(w.r, `{"secret":1}`, "bob")
	put(w.r, `{"secret":2}`, "bob")
	w.delete("k") // version 3
	if _, err := ann.Rollback(w.ctx, space, "k", 1, nil); tiering.CodeOf(err) != tiering.CodeNotFound {
		t.Errorf("an undelete of another user's document answers %v", err)
	}
	put(ann, `{"mine":1}`, "") // version 4
	put(ann, `{"mine":2}`, "")
	if _, err := ann.Rollback(w.ctx, space, "k", 1, nil); tiering.CodeOf(err) != tiering.CodeNotFound {
		t.Errorf("a rollback to the other life answers %v", err)
	}
	if _, err := ann.Get(w.ctx, space, "k", &tiering.GetOptions{Version: 1}); tiering.CodeOf(err) != tiering.CodeNotFound {
		t.Errorf("a version of the other life answers %v", err)
	}
	if d, err := ann.Diff(w.ctx, space, "k", 1, 4); tiering.CodeOf(err) != tiering.CodeNotFound {
		t.Errorf("a difference with the other life answers %s, %v", d, err)
	}
	h, err := ann.History(w.ctx, space, "k", nil)
	w.no(err)
	if len(h.Versions) != 2 || h.Versions[1].Version != 4 {
		t.Errorf("the history shows %+v", h.Versions)
	}
	if _, err := ann.Rollback(w.ctx, space, "k", 4, nil); err != nil {
		t.Errorf("a rollback within its own life: %v", err)
	}
}

// A key limited to a user reads a default where it may see nothing, as if
// nothing stood.
func TestScopeOfUserTakesDefaults(t *testing.T) {
	w := open(t, setup{})
	w.policy(space, tiering.Policy{Default: json.RawMessage(`{"n":0}`)})
	_, err := w.r.Put(w.ctx, space, "k", []byte(`{"n":1}`), &tiering.PutOptions{User: "bob"})
	w.no(err)
	ann := w.scoped(tiering.Scope{User: "ann"})
	for _, id := range []string{"k", "nobody"} {
		d, err := ann.Get(w.ctx, space, id, nil)
		w.no(err)
		if string(d.Body) != `{"n":0}` || d.Default != "absent" || d.Version != 0 || d.ID != id {
			t.Errorf("%s is answered with %+v", id, d)
		}
	}
}

// In an atomic batch a key limited to a user sees what the batch itself made.
func TestScopeOfUserInAtomicBatch(t *testing.T) {
	w := open(t, setup{})
	w.put("other", `1`)
	ann := w.scoped(tiering.Scope{User: "ann"})
	res, err := ann.Batch(w.ctx, &tiering.Batch{Atomic: true, Ops: []tiering.BatchOp{
		{Op: "put", Namespace: space, ID: "k", Data: []byte(`{"n":1}`)},
		{Op: "edit", Namespace: space, ID: "k", Ops: increment},
		{Op: "get", Namespace: space, ID: "k"},
	}})
	w.no(err)
	d := res.Results[2].Document
	if d == nil || string(d.Body) != `{"n":2}` || d.Version != 2 || d.User != "ann" || res.Results[0].Status != http.StatusCreated {
		t.Errorf("the batch answers %+v, %+v", res.Results, d)
	}
}

// Tenants share no key, whatever its name.
func TestTenantsAreApart(t *testing.T) {
	w := open(t, setup{})
	w.put("k", `{"n":1}`)
	rival := w.r.As(tiering.Principal{Tenant: "rival"})
	for _, q := range requests() {
		if q.verb != tiering.VerbRead || !q.byID || q.name == "explain" {
			continue
		}
		if err := q.run(w.ctx, rival, space, "k"); tiering.CodeOf(err) != tiering.CodeNotFound {
			t.Errorf("%s of another tenant's key answers %v", q.name, err)
		}
	}
	e, err := rival.Explain(w.ctx, space, "k")
	w.no(err)
	if e.State != "absent" || e.Version != 0 {
		t.Errorf("another tenant's key is explained as %+v", e)
	}
	_, err = rival.Put(w.ctx, space, "k", []byte(`{"n":2}`), nil)
	w.no(err)
	if got := w.strong("k"); got != `{"n":1}` {
		t.Errorf("another tenant wrote %s", got)
	}
	page, err := rival.List(w.ctx, space, nil)
	if got := ids(t, page, err); got != "[k]" {
		t.Errorf("the other tenant lists %s", got)
	}
}
