package client_test

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/tierd/tierd/tiering"
)

// step is one call that an embedded node and a client must answer alike.
type step struct {
	name string
	do   func(ctx context.Context, s tiering.Service) (any, error)
}

// The steps run in order against one store: later ones see what earlier ones
// wrote.
var steps = []step{
	// Documents.
	{"get of an unknown namespace", get("docs", "none", nil)},
	{"head of nothing", head("docs", "none", nil)},
	{"delete of nothing in an unknown namespace", del("docs", "none", nil)},
	{"create", put("docs", "a", `{ "z": 1.10, "a": 9007199254740993, "s": "<&>\u0000\u2028" }`, &tiering.PutOptions{User: "ada ü/%"})},
	{"get", get("docs", "a", nil)},
	{"get strongly", get("docs", "a", &tiering.GetOptions{Strong: true})},
	{"head", head("docs", "a", nil)},
	{"a pointer", get("docs", "a", &tiering.GetOptions{Pointer: "/z"})},
	{"a pointer that leads nowhere names its neighbours", get("docs", "a", &tiering.GetOptions{Pointer: "/q"})},
	{"head of a pointer", head("docs", "a", &tiering.GetOptions{Pointer: "/z"})},
	{"a malformed pointer", get("docs", "a", &tiering.GetOptions{Pointer: "z"})},
	{"an own default for nothing", get("docs", "none", &tiering.GetOptions{Default: json.RawMessage(`{"d":1}`)})},
	{"an own default for something", get("docs", "a", &tiering.GetOptions{Default: json.RawMessage(`{"d":1}`)})},
	{"no default", get("docs", "none", &tiering.GetOptions{NoDefault: true})},
	{"an own default wins over no default", get("docs", "none", &tiering.GetOptions{Default: json.RawMessage(`1`), NoDefault: true})},
	{"a default that is no JSON", get("docs", "none", &tiering.GetOptions{Default: json.RawMessage(`{`)})},
	{"min_version above the head", get("docs", "a", &tiering.GetOptions{MinVersion: 1 << 40})},
	{"head with min_version above the head", head("docs", "a", &tiering.GetOptions{MinVersion: 1 << 40})},
	{"a negative version", get("docs", "a", &tiering.GetOptions{Version: -1})},
	{"version and as_of", get("docs", "a", &tiering.GetOptions{Version: 1, AsOf: time.Unix(1, 0)})},
	{"a version that never was", get("docs", "a", &tiering.GetOptions{Version: 77})},
	{"as of a time before", get("docs", "a", &tiering.GetOptions{AsOf: time.Unix(1, 0)})},
	{"replace", put("docs", "a", `{"n":1}`, nil)},
	{"an old version", get("docs", "a", &tiering.GetOptions{Version: 1})},
	{"create what is there", put("docs", "a", `1`, &tiering.PutOptions{WriteOptions: tiering.WriteOptions{If: tiering.IfAbsent()}})},
	{"a stale version", put("docs", "a", `1`, &tiering.PutOptions{WriteOptions: tiering.WriteOptions{If: tiering.IfVersion(1)}})},
	{"the version that stands", put("docs", "a", `{"n":2}`, &tiering.PutOptions{WriteOptions: tiering.WriteOptions{If: tiering.IfVersion(2)}})},
	{"replace what must exist and does not", put("docs", "none", `1`, &tiering.PutOptions{WriteOptions: tiering.WriteOptions{If: tiering.IfExists()}})},
	{"another user's", put("docs", "a", `1`, &tiering.PutOptions{User: "bob"})},
	{"an id of every kind", put("docs", "a/b.c/ü ?#%25&=+;:@", `1`, nil)},
	{"and its get", get("docs", "a/b.c/ü ?#%25&=+;:@", nil)},
	{"an id with a dot segment", put("docs", "a/../b", `1`, nil)},
	{"an empty id", get("docs", "", nil)},
	{"a namespace that is none", put("Docs", "a", `1`, nil)},
	{"a reserved namespace", get("_policy", "docs", nil)},

	// Bodies.
	{"no body", put("docs", "bad", ``, nil)},
	{"half a body", put("docs", "bad", `{"a":`, nil)},
	{"two values", put("docs", "bad", `1 2`, nil)},
	{"a key twice", put("docs", "bad", `{"a":{"b":1,"b":2}}`, nil)},
	{"a lone surrogate", put("docs", "bad", `"\ud800"`, nil)},
	{"bytes that are no UTF-8", put("docs", "bad", "\"\xff\"", nil)},
	{"too deep", put("docs", "bad", strings.Repeat("[", 129)+strings.Repeat("]", 129), nil)},
	{"a number too long", put("docs", "bad", "1"+strings.Repeat("0", 400), nil)},
	{"a body too large", put("docs", "bad", `"`+strings.Repeat("x", tiering.MaxBody)+`"`, nil)},
	{"null is a document", put("docs", "null", `null`, nil)},
	{"and comes back", get("docs", "null", nil)},

	// Idempotency.
	{"a first try", put("docs", "once", `{"n":1}`, &tiering.PutOptions{WriteOptions: tiering.WriteOptions{IdempotencyKey: "i1"}})},
	{"the same again", put("docs", "once", `{"n":1}`, &tiering.PutOptions{WriteOptions: tiering.WriteOptions{IdempotencyKey: "i1"}})},
	{"another under the same key", put("docs", "once", `{"n":2}`, &tiering.PutOptions{WriteOptions: tiering.WriteOptions{IdempotencyKey: "i1"}})},
	{"a key that is too long", put("docs", "once", `1`, &tiering.PutOptions{WriteOptions: tiering.WriteOptions{IdempotencyKey: strings.Repeat("k", 256)}})},

	// Patches and edits.
	{"merge", patch("docs", "a", tiering.MergePatch, `{"m":{"x":1,"y":null},"n":null}`)},
	{"merge into nothing", patch("docs", "merged", tiering.MergePatch, `{"m":1.10}`)},
	{"JSON patch", patch("docs", "a", tiering.JSONPatch, `[{"op":"add","path":"/l","value":[1]}]`)},
	{"a JSON patch whose test fails", patch("docs", "a", tiering.JSONPatch, `[{"op":"test","path":"/l","value":[2]}]`)},
	{"a JSON patch of nothing", patch("docs", "none", tiering.JSONPatch, `[]`)},
	{"a patch that is no JSON", patch("docs", "a", tiering.MergePatch, `{`)},
	{"an unknown kind of patch", patch("docs", "a", "text/plain", `{}`)},
	{"edit", edit("docs", "count", nil,
		tiering.EditOp{Op: "increment", Pointer: "/n", By: json.RawMessage(`0.1`)}, tiering.EditOp{Op: "append", Pointer: "/l", Value: json.RawMessage(`"<&>"`)})},
	{"edit again", edit("docs", "count", nil, tiering.EditOp{Op: "increment", Pointer: "/n", By: json.RawMessage(`0.2`)}, tiering.EditOp{Op: "remove", Pointer: "/l"})},
	{"edit a stale version", edit("docs", "count", &tiering.WriteOptions{If: tiering.IfVersion(1)}, tiering.EditOp{Op: "increment", Pointer: "/n"})},
	{"an edit of no number", edit("docs", "a", nil, tiering.EditOp{Op: "increment", Pointer: "/l"})},

	// Life.
	{"put with a ttl", put("docs", "brief", `1`, &tiering.PutOptions{WriteOptions: tiering.WriteOptions{TTL: &tiering.TTL{Life: time.Hour}}})},
	{"and its get", get("docs", "brief", nil)},
	{"clear the ttl", put("docs", "brief", `2`, &tiering.PutOptions{WriteOptions: tiering.WriteOptions{TTL: &tiering.TTL{None: true}}})},
	{"touch", touch("docs", "brief", &tiering.TouchOptions{WriteOptions: tiering.WriteOptions{TTL: &tiering.TTL{Life: 2 * time.Hour}}})},
	{"touch exactly", touch("docs", "brief", &tiering.TouchOptions{Exact: true, WriteOptions: tiering.WriteOptions{TTL: &tiering.TTL{Life: time.Hour}}})},
	{"touch nothing", touch("docs", "none", nil)},
	{"pin", pin("docs", "brief", true)},
	{"head of a pinned", head("docs", "brief", nil)},
	{"unpin", pin("docs", "brief", false)},
	{"pin nothing", pin("docs", "none", true)},
	{"delete a stale version", del("docs", "a", &tiering.WriteOptions{If: tiering.IfVersion(1)})},
	{"delete", del("docs", "a", nil)},
	{"get of a deleted", get("docs", "a", nil)},
	{"head of a deleted", head("docs", "a", nil)},
	{"delete again", del("docs", "a", nil)},
	{"delete what must exist", del("docs", "a", &tiering.WriteOptions{If: tiering.IfExists()})},

	// History.
	{"history", history("docs", "a", nil)},
	{"a page of it", history("docs", "a", &tiering.HistoryOptions{Limit: 2})},
	{"history of nothing", history("docs", "none", nil)},
	{"a limit below zero", history("docs", "a", &tiering.HistoryOptions{Limit: -1})},
	{"a cursor that is none", history("docs", "a", &tiering.HistoryOptions{Cursor: "x"})},
	{"diff", diff("docs", "a", 1, 2)},
	{"diff with what never was", diff("docs", "a", 1, 99)},
	{"rollback", rollback("docs", "a", 1)},
	{"rollback to a deletion", rollback("docs", "a", 6)},
	{"rollback to what never was", rollback("docs", "a", 99)},
	{"rollback to zero", rollback("docs", "a", 0)},
	{"explain", explain("docs", "a")},
	{"explain nothing", explain("docs", "none")},

	// Lists and queries.
	{"list", list("docs", nil)},
	{"list with bodies", list("docs", &tiering.ListOptions{Prefix: "a", Data: true})},
	{"list a user's", list("docs", &tiering.ListOptions{User: "ada ü/%"})},
	{"a page of a list", list("docs", &tiering.ListOptions{Limit: 2})},
	{"a list of too many", list("docs", &tiering.ListOptions{Limit: 1001})},
	{"a limit below zero", list("docs", &tiering.ListOptions{Limit: -1})},
	{"a cursor that is none", list("docs", &tiering.ListOptions{Cursor: "x"})},
	{"list an unknown namespace", list("none", nil)},
	{"query", query("docs", &tiering.Query{Filter: json.RawMessage(`{"n":{"$gte":0.3}}`)})},
	{"query everything, backwards", query("docs", &tiering.Query{OrderBy: "-/n", Limit: 3})},
	{"an unknown operator", query("docs", &tiering.Query{Filter: json.RawMessage(`{"n":{"$near":1}}`)})},
	{"a filter that is no JSON", query("docs", &tiering.Query{Filter: json.RawMessage(`{"n":`)})},
	{"a query of too many", query("docs", &tiering.Query{Limit: 1001})},

	// Batches.
	{"a batch", batch(false,
		op("put", "docs", "b1", `{"n":1}`, nil), op("get", "docs", "b1", ``, nil), op("put", "docs", "b1", `2`, new(int64(99))),
		op("patch", "docs", "b2", `{"x":"<&>"}`, new(int64(0))), op("delete", "docs", "b1", ``, nil), op("get", "docs", "b1", ``, nil), op("check", "docs", "b2", ``, nil))},
	{"an atomic batch", batch(true, op("put", "docs", "c1", `1`, new(int64(0))), op("put", "docs", "c2", `2`, new(int64(0))))},
	{"an atomic batch that fails", batch(true, op("put", "docs", "c1", `3`, nil), op("put", "docs", "c2", `4`, new(int64(0))))},
	{"and did nothing", get("docs", "c1", nil)},
	{"a batch of nothing", batch(false)},
	{"an atomic batch of something unknown", batch(true, op("frobnicate", "docs", "c1", ``, nil))},

	// Namespaces.
	{"namespaces", func(ctx context.Context, s tiering.Service) (any, error) { return s.Namespaces(ctx) }},
	{"a namespace", namespace("docs")},
	{"an unknown namespace", namespace("none")},
	{"set", setNamespace("kept", tiering.Policy{Default: json.RawMessage(`{"fresh":true}`), MaxSize: 100, RequireVersion: true,
		Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"},"s":{"type":"string"}}}`)}, &tiering.WriteOptions{If: tiering.IfAbsent()})},
	{"set it again", setNamespace("kept", tiering.Policy{}, &tiering.WriteOptions{If: tiering.IfAbsent()})},
	{"a policy that is none", setNamespace("bad", tiering.Policy{Class: "eternal"}, nil)},
	{"a schema that is none", setNamespace("bad", tiering.Policy{Schema: json.RawMessage(`{"type":7}`)}, nil)},
	{"patch a policy", patchNamespace("kept", `{"ttl":"2h"}`)},
	{"patch it with what is unknown", patchNamespace("kept", `{"colour":"red"}`)},
	{"a policy's default", get("kept", "k", nil)},
	{"head of a default", func(ctx context.Context, s tiering.Service) (any, error) {
		m, err := s.Head(ctx, "kept", "k", nil)
		if err != nil {
			return nil, err
		}
		return m.Version, nil
	}},
	{"which no typed get takes", func(ctx context.Context, s tiering.Service) (any, error) {
		v, version, err := tiering.GetAs[map[string]any](ctx, s, "kept", "k", nil)
		return []any{v, version}, err
	}},
	{"nor a strong one", get("kept", "k", &tiering.GetOptions{Strong: true})},
	{"a write without a version", put("kept", "k", `{}`, nil)},
	{"every fault of a body", put("kept", "k", `{"n":1.5,"s":2}`, &tiering.PutOptions{WriteOptions: tiering.WriteOptions{If: tiering.IfAbsent()}})},
	{"a body over the policy's size", put("kept", "k", `{"s":"`+strings.Repeat("x", 100)+`"}`, &tiering.PutOptions{WriteOptions: tiering.WriteOptions{If: tiering.IfAbsent()}})},
	{"a body near it", put("kept", "k", `{"s":"`+strings.Repeat("x", 80)+`"}`, &tiering.PutOptions{WriteOptions: tiering.WriteOptions{If: tiering.IfAbsent()}})},
	{"delete a namespace in use", deleteNamespace("kept")},
	{"delete an unknown one", deleteNamespace("none")},
	{"an empty namespace", setNamespace("empty", tiering.Policy{}, nil)},
	{"deleted", deleteNamespace("empty")},

	// Ephemeral documents.
	{"an ephemeral namespace", setNamespace("eph", tiering.Policy{Class: tiering.ClassEphemeral}, nil)},
	{"put there", put("eph", "k", `{"n":1}`, nil)},
	{"get there", get("eph", "k", nil)},
	{"head there", head("eph", "k", nil)},
	{"edit there", edit("eph", "k", nil, tiering.EditOp{Op: "increment", Pointer: "/n"})},
	{"strongly", get("eph", "k", &tiering.GetOptions{Strong: true})},
	{"with an idempotency key", put("eph", "k", `1`, &tiering.PutOptions{WriteOptions: tiering.WriteOptions{IdempotencyKey: "i2"}})},
	{"with a user", put("eph", "k", `1`, &tiering.PutOptions{User: "ada"})},
	{"history there", history("eph", "k", nil)},
	{"pin there", pin("eph", "k", true)},
	{"a batch there and elsewhere", batch(false, op("put", "eph", "b", `1`, nil), op("get", "eph", "b", ``, nil), op("put", "docs", "b3", `1`, nil))},
	{"an atomic batch there", batch(true, op("put", "eph", "b", `1`, nil))},
	{"delete there", del("eph", "k", nil)},
	{"gone there", get("eph", "k", nil)},

	// Typed verbs.
	{"Create", func(ctx context.Context, s tiering.Service) (any, error) {
		return tiering.Create(ctx, s, "typed", "k", map[string]any{"n": 1, "s": "<&>"})
	}},
	{"Create again", func(ctx context.Context, s tiering.Service) (any, error) {
		return tiering.Create(ctx, s, "typed", "k", 1)
	}},
	{"Merge", func(ctx context.Context, s tiering.Service) (any, error) {
		return tiering.Merge(ctx, s, "typed", "k", map[string]any{"m": true})
	}},
	{"Edit", func(ctx context.Context, s tiering.Service) (any, error) {
		return tiering.Edit(ctx, s, "typed", "k", func(v *map[string]any) error { (*v)["n"] = 2; return nil })
	}},
	{"Update a stale version", func(ctx context.Context, s tiering.Service) (any, error) {
		return tiering.Update(ctx, s, "typed", "k", 1, 1)
	}},
	{"GetAs", func(ctx context.Context, s tiering.Service) (any, error) {
		v, version, err := tiering.GetAs[map[string]any](ctx, s, "typed", "k", nil)
		return []any{v, version}, err
	}},
	{"GetAs of another type", func(ctx context.Context, s tiering.Service) (any, error) {
		v, version, err := tiering.GetAs[[]int](ctx, s, "typed", "k", nil)
		return []any{v, version}, err
	}},
	{"Edit of nothing", func(ctx context.Context, s tiering.Service) (any, error) {
		return tiering.Edit(ctx, s, "typed", "new", func(v *struct{ N int }) error { v.N++; return nil })
	}},

	// Watches.
	{"a watch from the start", func(ctx context.Context, s tiering.Service) (any, error) {
		return watched(ctx, s, &tiering.WatchOptions{Namespace: "typed", From: "start", Data: true, Previous: true}, 4)
	}},
	{"a watch behind an event", func(ctx context.Context, s tiering.Service) (any, error) {
		all, err := watched(ctx, s, &tiering.WatchOptions{Namespace: "typed", From: "start"}, 2)
		if err != nil {
			return nil, err
		}
		return watched(ctx, s, &tiering.WatchOptions{Namespace: "typed", After: all[1].ID}, 2)
	}},
	{"a watch behind what is no event", func(ctx context.Context, s tiering.Service) (any, error) {
		return watched(ctx, s, &tiering.WatchOptions{After: "x"}, 1)
	}},
	{"a watch behind an event of another life", func(ctx context.Context, s tiering.Service) (any, error) {
		return watched(ctx, s, &tiering.WatchOptions{After: "x.1.0"}, 1)
	}},
	{"a watch of an id without its namespace", func(ctx context.Context, s tiering.Service) (any, error) {
		return watched(ctx, s, &tiering.WatchOptions{ID: "k"}, 1)
	}},
	{"a watch from somewhere else", func(ctx context.Context, s tiering.Service) (any, error) {
		return watched(ctx, s, &tiering.WatchOptions{From: "here"}, 1)
	}},

	// Moves by hand, and erasing.
	{"something to move", put("moves", "a", `{"n":1.10}`, &tiering.PutOptions{User: "eve"})},
	{"demote", demote("moves", "a")},
	{"demote what is demoted", demote("moves", "a")},
	{"its history", history("moves", "a", nil)},
	{"it comes from cold", get("moves", "a", nil)},
	{"promote", promote("moves", "a")},
	{"demote nothing", demote("moves", "none")},
	{"promote nothing", promote("moves", "none")},
	{"demote an id that is none", demote("moves", "a//b")},
	{"pin it", func(ctx context.Context, s tiering.Service) (any, error) { return s.Pin(ctx, "moves", "a", true, nil) }},
	{"demote what is pinned", demote("moves", "a")},
	{"an erase is a dry run", erase(tiering.EraseRequest{User: "eve"})},
	{"an erase of nothing", erase(tiering.EraseRequest{})},
	{"an erase of two things", erase(tiering.EraseRequest{Namespace: "moves", ID: "a", User: "eve"})},
	{"an erase, and its receipt", func(ctx context.Context, s tiering.Service) (any, error) {
		run := false
		r, err := s.Erase(ctx, tiering.EraseRequest{User: "eve", DryRun: &run})
		if err != nil {
			return nil, err
		}
		return s.Erasure(ctx, r.ID)
	}},
	{"what was erased", get("moves", "a", nil)},
	{"its versions", history("moves", "a", nil)},
	{"a receipt that is none", func(ctx context.Context, s tiering.Service) (any, error) { return s.Erasure(ctx, "none") }},
	{"a receipt that is no id", func(ctx context.Context, s tiering.Service) (any, error) { return s.Erasure(ctx, "a//b") }},
	{"the clock is right", func(ctx context.Context, s tiering.Service) (any, error) { return nil, s.ConfirmClock(ctx) }},

	// Administration.
	{"create a key", func(ctx context.Context, s tiering.Service) (any, error) {
		return s.CreateKey(ctx, tiering.APIKey{Name: "planner", Scope: tiering.Scope{Verbs: []tiering.Verb{tiering.VerbRead}, Namespaces: []string{"docs"}}})
	}},
	{"a key for an unknown verb", func(ctx context.Context, s tiering.Service) (any, error) {
		return s.CreateKey(ctx, tiering.APIKey{Scope: tiering.Scope{Verbs: []tiering.Verb{"dance"}}})
	}},
	{"keys", func(ctx context.Context, s tiering.Service) (any, error) { return s.APIKeys(ctx) }},
	{"revoke a key", func(ctx context.Context, s tiering.Service) (any, error) {
		all, err := s.APIKeys(ctx)
		if err != nil {
			return nil, err
		}
		return len(all), s.RevokeKey(ctx, all[0].ID)
	}},
	{"revoke an unknown one", func(ctx context.Context, s tiering.Service) (any, error) { return nil, s.RevokeKey(ctx, "none") }},
	{"status", func(ctx context.Context, s tiering.Service) (any, error) {
		st, err := s.Status(ctx)
		if err != nil {
			return nil, err
		}
		return []any{st.Version, st.Epoch != "", st.Ready, len(st.Tiers), st.Feed.Tail > 0}, nil
	}},
}

type call = func(ctx context.Context, s tiering.Service) (any, error)

func get(ns, id string, o *tiering.GetOptions) call {
	return func(ctx context.Context, s tiering.Service) (any, error) {
		d, err := s.Get(ctx, ns, id, o)
		if err == nil && d.Default != "" {
			return []any{d.Default, d.Version, d.Body}, nil // there is nothing else to say of a default
		}
		return d, err
	}
}

// head reduces an error to its code: the answer to HEAD has no body to say more.
func head(ns, id string, o *tiering.GetOptions) call {
	return func(ctx context.Context, s tiering.Service) (any, error) {
		m, err := s.Head(ctx, ns, id, o)
		if err != nil {
			return nil, &tiering.Error{Code: tiering.CodeOf(err)}
		}
		return m, nil
	}
}

func put(ns, id, body string, o *tiering.PutOptions) call {
	return func(ctx context.Context, s tiering.Service) (any, error) { return s.Put(ctx, ns, id, []byte(body), o) }
}

func patch(ns, id string, kind tiering.PatchKind, body string) call {
	return func(ctx context.Context, s tiering.Service) (any, error) {
		return s.Patch(ctx, ns, id, kind, []byte(body), nil)
	}
}

func edit(ns, id string, o *tiering.WriteOptions, ops ...tiering.EditOp) call {
	return func(ctx context.Context, s tiering.Service) (any, error) { return s.Apply(ctx, ns, id, ops, o) }
}

func del(ns, id string, o *tiering.WriteOptions) call {
	return func(ctx context.Context, s tiering.Service) (any, error) { return s.Delete(ctx, ns, id, o) }
}

func touch(ns, id string, o *tiering.TouchOptions) call {
	return func(ctx context.Context, s tiering.Service) (any, error) { return s.Touch(ctx, ns, id, o) }
}

func pin(ns, id string, pinned bool) call {
	return func(ctx context.Context, s tiering.Service) (any, error) { return s.Pin(ctx, ns, id, pinned, nil) }
}

func history(ns, id string, o *tiering.HistoryOptions) call {
	return func(ctx context.Context, s tiering.Service) (any, error) { return s.History(ctx, ns, id, o) }
}

func diff(ns, id string, from, to int64) call {
	return func(ctx context.Context, s tiering.Service) (any, error) { return s.Diff(ctx, ns, id, from, to) }
}

func rollback(ns, id string, version int64) call {
	return func(ctx context.Context, s tiering.Service) (any, error) {
		return s.Rollback(ctx, ns, id, version, nil)
	}
}

func explain(ns, id string) call {
	return func(ctx context.Context, s tiering.Service) (any, error) { return s.Explain(ctx, ns, id) }
}

func list(ns string, o *tiering.ListOptions) call {
	return func(ctx context.Context, s tiering.Service) (any, error) { return s.List(ctx, ns, o) }
}

func demote(ns, id string) call {
	return func(ctx context.Context, s tiering.Service) (any, error) { return s.Demote(ctx, ns, id) }
}

func promote(ns, id string) call {
	return func(ctx context.Context, s tiering.Service) (any, error) { return s.Promote(ctx, ns, id) }
}

func erase(r tiering.EraseRequest) call {
	return func(ctx context.Context, s tiering.Service) (any, error) { return s.Erase(ctx, r) }
}

func query(ns string, q *tiering.Query) call {
	return func(ctx context.Context, s tiering.Service) (any, error) { return s.Query(ctx, ns, q) }
}

func namespace(ns string) call {
	return func(ctx context.Context, s tiering.Service) (any, error) { return s.Namespace(ctx, ns) }
}

func setNamespace(ns string, p tiering.Policy, o *tiering.WriteOptions) call {
	return func(ctx context.Context, s tiering.Service) (any, error) { return s.SetNamespace(ctx, ns, p, o) }
}

func patchNamespace(ns, body string) call {
	return func(ctx context.Context, s tiering.Service) (any, error) {
		return s.PatchNamespace(ctx, ns, []byte(body), nil)
	}
}

func deleteNamespace(ns string) call {
	return func(ctx context.Context, s tiering.Service) (any, error) { return nil, s.DeleteNamespace(ctx, ns, nil) }
}

func batch(atomic bool, ops ...tiering.BatchOp) call {
	return func(ctx context.Context, s tiering.Service) (any, error) {
		return s.Batch(ctx, &tiering.Batch{Atomic: atomic, Ops: ops})
	}
}

func op(name, ns, id, data string, ifVersion *int64) tiering.BatchOp {
	o := tiering.BatchOp{Op: name, Namespace: ns, ID: id, IfVersion: ifVersion}
	if data != "" {
		o.Data = json.RawMessage(data)
	}
	return o
}

// identified is an Event with its id, which its JSON leaves to the stream.
type identified struct {
	ID string
	tiering.Event
}

func watched(ctx context.Context, s tiering.Service, o *tiering.WatchOptions, n int) ([]identified, error) {
	w, err := s.Watch(ctx, o)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	var out []identified
	for len(out) < n {
		ev, err := w.Next(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, identified{ev.ID, ev})
	}
	return out, nil
}
