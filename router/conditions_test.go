package router

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
)

// verb is one way to change a document.
type verb struct {
	name string
	run  func(ctx context.Context, r *Router, ns, id string, o tiering.WriteOptions) (*tiering.Receipt, error)
}

var increment = []tiering.EditOp{{Op: "increment", Pointer: "/n"}}

// verbs are all of them.
func verbs() []verb {
	return []verb{
		{"put", func(ctx context.Context, r *Router, ns, id string, o tiering.WriteOptions) (*tiering.Receipt, error) {
			return r.Put(ctx, ns, id, []byte(`{"n":9}`), &tiering.PutOptions{WriteOptions: o})
		}},
		{"merge patch", func(ctx context.Context, r *Router, ns, id string, o tiering.WriteOptions) (*tiering.Receipt, error) {
			return r.Patch(ctx, ns, id, tiering.MergePatch, []byte(`{"n":9}`), &o)
		}},
		{"JSON patch", func(ctx context.Context, r *Router, ns, id string, o tiering.WriteOptions) (*tiering.Receipt, error) {
			return r.Patch(ctx, ns, id, tiering.JSONPatch, []byte(`[{"op":"add","path":"/n","value":9}]`), &o)
		}},
		{"edit", func(ctx context.Context, r *Router, ns, id string, o tiering.WriteOptions) (*tiering.Receipt, error) {
			e, err := r.Apply(ctx, ns, id, increment, &o)
			if err != nil {
				return nil, err
			}
			return &e.Receipt, nil
		}},
		{"delete", func(ctx context.Context, r *Router, ns, id string, o tiering.WriteOptions) (*tiering.Receipt, error) {
			return r.Delete(ctx, ns, id, &o)
		}},
		{"rollback", func(ctx context.Context, r *Router, ns, id string, o tiering.WriteOptions) (*tiering.Receipt, error) {
			return r.Rollback(ctx, ns, id, 1, &o)
		}},
		{"touch", func(ctx context.Context, r *Router, ns, id string, o tiering.WriteOptions) (*tiering.Receipt, error) {
			o.TTL = &tiering.TTL{Life: time.Hour}
			return r.Touch(ctx, ns, id, &tiering.TouchOptions{WriteOptions: o})
		}},
		{"pin", func(ctx context.Context, r *Router, ns, id string, o tiering.WriteOptions) (*tiering.Receipt, error) {
			return r.Pin(ctx, ns, id, true, &o)
		}},
	}
}

// states are what may stand under a key, with the version that
// conditions compare with.
var states = []struct {
	name     string
	standing int64
	make     func(w *world, id string)
}{
	{"a document", 2, func(w *world, id string) { w.put(id, `{"n":1}`); w.put(id, `{"n":2}`) }},
	{"nothing yet", 0, func(w *world, _ string) { w.put("other", `1`) }},
	{"a tombstone", 0, func(w *world, id string) { w.put(id, `{"n":1}`); w.delete(id) }},
	{"an expired document", 0, func(w *world, id string) {
		_, err := w.r.Put(w.ctx, space, id, []byte(`{"n":1}`), &tiering.PutOptions{WriteOptions: tiering.WriteOptions{TTL: &tiering.TTL{Life: time.Minute}}})
		w.no(err)
		w.clock.advance(time.Minute)
	}},
}

// Every verb judges every condition on what stands, where a deleted and an
// expired document count as absent; a refusal names the version that stands.
func TestConditionsOfEveryVerb(t *testing.T) {
	conditions := map[string]tiering.Condition{
		"no condition": {}, "absent": tiering.IfAbsent(), "exists": tiering.IfExists(),
		"version 1": tiering.IfVersion(1), "version 2": tiering.IfVersion(2), "version 7": tiering.IfVersion(7),
	}
	for _, state := range states {
		for name, c := range conditions {
			t.Run(state.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				w := open(t, setup{})
				for _, v := range verbs() {
					state.make(w, v.name)
					_, err := v.run(w.ctx, w.r, space, v.name, tiering.WriteOptions{If: c})
					if got, want := tiering.CodeOf(err), expected(v.name, state.name, c, state.standing); got != want {
						t.Errorf("%s answers %q (%v), want %q", v.name, got, err, want)
					} else if p := tiering.ProblemOf(err); got == tiering.CodeVersionConflict && *p.CurrentVersion != state.standing {
						t.Errorf("%s names version %d as current, want %d", v.name, *p.CurrentVersion, state.standing)
					}
				}
			})
		}
	}
}

// expected is the code that a verb answers.
func expected(verb, state string, c tiering.Condition, standing int64) tiering.Code {
	switch {
	case verb == "rollback" && state == "nothing yet":
		return tiering.CodeNotFound // there is no version to go back to
	case !c.Holds(standing):
		return tiering.CodeVersionConflict
	case standing != 0:
		return ""
	case verb == "JSON patch", verb == "touch", verb == "pin":
		return tiering.CodeNotFound
	}
	return ""
}

// Whatever is wrong with a request has its code, its status and, in a body, its
// place.
func TestErrorsOfRequests(t *testing.T) {
	w := open(t, setup{})
	w.put("k", `{"n":1,"s":"x"}`)
	w.policy("log", tiering.Policy{Kind: tiering.KindLog})
	w.policy("unqueried", tiering.Policy{Query: new(bool)})
	r, ctx := w.r, w.ctx
	put := func(ns, id, body string, o *tiering.PutOptions) error {
		_, err := r.Put(ctx, ns, id, []byte(body), o)
		return err
	}
	get := func(o tiering.GetOptions) error {
		_, err := r.Get(ctx, space, "k", &o)
		return err
	}
	patch := func(kind tiering.PatchKind, body string) error {
		_, err := r.Patch(ctx, space, "k", kind, []byte(body), nil)
		return err
	}
	edit := func(ops ...tiering.EditOp) error {
		_, err := r.Apply(ctx, space, "k", ops, nil)
		return err
	}
	batch := func(b tiering.Batch) error {
		_, err := r.Batch(ctx, &b)
		return err
	}
	list := func(o tiering.ListOptions) error {
		_, err := r.List(ctx, space, &o)
		return err
	}
	query := func(ns string, q tiering.Query) error {
		_, err := r.Query(ctx, ns, &q)
		return err
	}
	negative := int64(-1)
	for _, c := range []struct {
		name    string
		err     error
		code    tiering.Code
		status  int
		pointer string
	}{
		{"a namespace with a capital", put("Docs", "k", `1`, nil), tiering.CodeInvalid, 400, ""},
		{"a reserved namespace", put("_policy", "k", `1`, nil), tiering.CodeInvalid, 400, ""},
		{"an empty id", put(space, "", `1`, nil), tiering.CodeInvalid, 400, ""},
		{"an id with a dot segment", put(space, "a/../b", `1`, nil), tiering.CodeInvalid, 400, ""},
		{"a long id", put(space, strings.Repeat("x", tiering.MaxIDLength+1), `1`, nil), tiering.CodeInvalid, 400, ""},
		{"no JSON", put(space, "k", `{`, nil), tiering.CodeInvalid, 400, ""},
		{"a duplicate name", put(space, "k", `{"a":1,"a":2}`, nil), tiering.CodeInvalid, 422, "/a"},
		{"a user with a control character", put(space, "k", `1`, &tiering.PutOptions{User: "a\nb"}), tiering.CodeInvalid, 400, ""},
		{"another user", put(space, "k", `1`, &tiering.PutOptions{User: "ann"}), tiering.CodeWrongKind, 409, ""},
		{"an idempotency key with a space", put(space, "k", `1`, &tiering.PutOptions{WriteOptions: tiering.WriteOptions{IdempotencyKey: "a b"}}), tiering.CodeInvalid, 400, ""},
		{"a long idempotency key", put(space, "k", `1`, &tiering.PutOptions{WriteOptions: tiering.WriteOptions{IdempotencyKey: strings.Repeat("k", 256)}}), tiering.CodeInvalid, 400, ""},
		{"a put into a log", put("log", "k", `1`, nil), tiering.CodeWrongKind, 409, ""},
		{"a document over 8 MiB", put(space, "k", `"`+strings.Repeat("x", tiering.MaxBody)+`"`, nil), tiering.CodeTooLarge, 413, ""},

		{"a pointer that leads nowhere", get(tiering.GetOptions{Pointer: "/m"}), tiering.CodeNotFound, 404, "/m"},
		{"a negative version", get(tiering.GetOptions{Version: -1}), tiering.CodeInvalid, 400, ""},
		{"two versions", get(tiering.GetOptions{Version: 1, AsOf: time.Now()}), tiering.CodeInvalid, 400, ""},
		{"min_version of an old version", get(tiering.GetOptions{Version: 1, MinVersion: 1}), tiering.CodeInvalid, 400, ""},
		{"a default that is no JSON", get(tiering.GetOptions{Default: []byte(`{`)}), tiering.CodeInvalid, 400, ""},
		{"a min_version above the head", get(tiering.GetOptions{MinVersion: 2}), tiering.CodeVersionConflict, 412, ""},
		{"a strong min_version above the head", get(tiering.GetOptions{MinVersion: 2, Strong: true}), tiering.CodeVersionConflict, 412, ""},
		{"a version that never was", get(tiering.GetOptions{Version: 2}), tiering.CodeNotFound, 404, ""},
		{"a time before the document", get(tiering.GetOptions{AsOf: time.Unix(1, 0)}), tiering.CodeNotFound, 404, ""},

		{"an unknown patch", patch("text/plain", `1`), tiering.CodeInvalid, 400, ""},
		{"a JSON patch that is none", patch(tiering.JSONPatch, `{}`), tiering.CodeInvalid, 422, ""},
		{"a JSON patch whose test fails", patch(tiering.JSONPatch, `[{"op":"test","path":"/n","value":2}]`), tiering.CodeInvalid, 422, "/n"},
		{"no edit operations", edit(), tiering.CodeInvalid, 422, "/ops"},
		{"an unknown edit operation", edit(tiering.EditOp{Op: "multiply", Pointer: "/n"}), tiering.CodeInvalid, 422, "/ops/0/op"},
		{"an increment of a string", edit(tiering.EditOp{Op: "increment", Pointer: "/s"}), tiering.CodeInvalid, 422, "/s"},

		{"an empty batch", batch(tiering.Batch{}), tiering.CodeInvalid, 422, "/ops"},
		{"a batch of 1001", batch(tiering.Batch{Ops: make([]tiering.BatchOp, 1001)}), tiering.CodeInvalid, 422, "/ops"},
		{"an unknown operation", batch(tiering.Batch{Ops: []tiering.BatchOp{{Op: "move", Namespace: space, ID: "k"}}}), tiering.CodeInvalid, 422, "/ops/0/op"},
		{"an append to a document", batch(tiering.Batch{Atomic: true, Ops: []tiering.BatchOp{{Op: "append", Namespace: space, ID: "k", Data: []byte(`1`)}}}), tiering.CodeWrongKind, 409, ""},
		{"a negative if_version", batch(tiering.Batch{Atomic: true, Ops: []tiering.BatchOp{{Op: "get", Namespace: space, ID: "k", IfVersion: &negative}}}), tiering.CodeInvalid, 422, "/if_version"},
		{"a ttl of nothing", batch(tiering.Batch{Atomic: true, Ops: []tiering.BatchOp{{Op: "put", Namespace: space, ID: "k", Data: []byte(`1`), TTL: "0"}}}), tiering.CodeInvalid, 400, ""},

		{"a negative limit", list(tiering.ListOptions{Limit: -1}), tiering.CodeInvalid, 400, ""},
		{"a limit over 1000", list(tiering.ListOptions{Limit: 1001}), tiering.CodeInvalid, 400, ""},
		{"a made-up cursor", list(tiering.ListOptions{Cursor: "xyz"}), tiering.CodeInvalid, 400, ""},
		{"an unknown operator", query(space, tiering.Query{Filter: []byte(`{"n":{"$near":1}}`)}), tiering.CodeInvalid, 400, "/n/$near"},
		{"a query where there is none", query("unqueried", tiering.Query{}), tiering.CodeUnsupported, 400, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := tiering.ProblemOf(c.err)
			if c.err == nil || p.Code != c.code || p.Status != c.status {
				t.Fatalf("the answer is %v: want %s, %d", c.err, c.code, c.status)
			}
			if c.pointer != "" && p.Pointer != c.pointer {
				t.Errorf("the fault is at %q, want %q", p.Pointer, c.pointer)
			}
			if p.Detail == "" {
				t.Error("it does not say what is wrong")
			}
		})
	}
	if got := w.strong("k"); got != `{"n":1,"s":"x"}` {
		t.Errorf("a refused request left %s", got)
	}
}

// A user is fixed when the key is made; a delete frees it.
func TestUserIsFixed(t *testing.T) {
	w := open(t, setup{})
	put := func(user string) error {
		_, err := w.r.Put(w.ctx, space, "k", []byte(`1`), &tiering.PutOptions{User: user})
		return err
	}
	for i, step := range []struct {
		user string
		code tiering.Code
	}{{"ann", ""}, {"ann", ""}, {"", ""}, {"bob", tiering.CodeWrongKind}} {
		if got := tiering.CodeOf(put(step.user)); got != step.code {
			t.Fatalf("step %d, user %q: %q, want %q", i, step.user, got, step.code)
		}
	}
	m, err := w.r.Head(w.ctx, space, "k", nil)
	w.no(err)
	if m.User != "ann" {
		t.Errorf("the document belongs to %q", m.User)
	}
	w.delete("k")
	w.no(put("bob"))
}

// A rollback makes a version of an old content; a deletion has none, and what
// never was cannot come back.
func TestRollback(t *testing.T) {
	w := open(t, setup{})
	w.put("k", `{"v":1}`)
	w.put("k", `{"v":2}`)
	w.delete("k")
	for _, c := range []struct {
		name    string
		id      string
		version int64
		status  int
		code    tiering.Code
	}{
		{"to a deletion", "k", 3, 422, tiering.CodeInvalid},
		{"to what never was", "k", 4, 404, tiering.CodeNotFound},
		{"of a key that never was", "nobody", 1, 404, tiering.CodeNotFound},
		{"to version 0", "k", 0, 422, tiering.CodeInvalid},
		{"to a negative version", "k", -1, 422, tiering.CodeInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := w.r.Rollback(w.ctx, space, c.id, c.version, nil)
			if p := tiering.ProblemOf(err); err == nil || p.Status != c.status || p.Code != c.code {
				t.Errorf("the answer is %v, want %s %d", err, c.code, c.status)
			}
		})
	}
	_, err := w.r.Rollback(w.ctx, "unknown", "k", 1, nil)
	if tiering.CodeOf(err) != tiering.CodeNotFound {
		t.Errorf("in a namespace that is not there: %v", err)
	}
	if list, err := w.r.Namespaces(w.ctx); err != nil || len(list) != 1 {
		t.Errorf("a refused rollback made a namespace: %v, %v", list, err)
	}
	rc, err := w.r.Rollback(w.ctx, space, "k", 1, nil)
	w.no(err)
	if rc.Version != 4 || !rc.Created || w.get("k") != `{"v":1}` {
		t.Errorf("the undelete made version %d, created %t, of %s", rc.Version, rc.Created, w.get("k"))
	}
}

// What stood is read by version and by time, listed newest first, and compared.
func TestHistory(t *testing.T) {
	w := open(t, setup{})
	var times []time.Time
	for v := range 4 {
		w.clock.advance(time.Minute)
		w.put("k", fmt.Sprintf(`{"v":%d}`, v+1))
		times = append(times, w.clock.Now())
	}
	w.clock.advance(time.Minute)
	w.delete("k")
	deleted := w.clock.Now()

	if got := w.read("k", &tiering.GetOptions{Version: 2}); got != `{"v":2}` {
		t.Errorf("version 2 is %q", got)
	}
	for at, want := range map[time.Time]string{
		times[0].Add(-time.Second): "", times[0]: `{"v":1}`, times[1].Add(time.Second): `{"v":2}`, deleted: "",
	} {
		if got := w.read("k", &tiering.GetOptions{AsOf: at}); got != want {
			t.Errorf("as of %v it is %q, want %q", at, got, want)
		}
	}
	var seen []int64
	o := tiering.HistoryOptions{Limit: 2}
	for {
		h, err := w.r.History(w.ctx, space, "k", &o)
		w.no(err)
		for _, v := range h.Versions {
			seen = append(seen, v.Version)
		}
		if o.Cursor = h.NextCursor; o.Cursor == "" {
			break
		}
	}
	if fmt.Sprint(seen) != "[5 4 3 2 1]" {
		t.Errorf("the history is %v", seen)
	}
	diff, err := w.r.Diff(w.ctx, space, "k", 1, 4)
	w.no(err)
	if string(diff) != `[{"op":"replace","path":"/v","value":4}]` {
		t.Errorf("the difference is %s", diff)
	}
	for name, bad := range map[string]struct {
		from, to int64
		code     tiering.Code
	}{"a deletion": {1, 5, tiering.CodeInvalid}, "no version": {1, 9, tiering.CodeNotFound}, "zero": {0, 1, tiering.CodeInvalid}} {
		if _, err := w.r.Diff(w.ctx, space, "k", bad.from, bad.to); tiering.CodeOf(err) != bad.code {
			t.Errorf("a difference with %s answers %v", name, err)
		}
	}
	if _, err := w.r.History(w.ctx, space, "nobody", nil); tiering.CodeOf(err) != tiering.CodeNotFound {
		t.Errorf("the history of what never was answers %v", err)
	}
}
