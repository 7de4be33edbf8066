package router

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
)

// Where a policy asks for a version, a write of content without a condition is
// refused with 428; a touch or a pin changes no content.
func TestRequireVersion(t *testing.T) {
	w := open(t, setup{})
	w.policy(space, tiering.Policy{RequireVersion: true})
	version := w.putIf("k", `{"n":1}`, tiering.IfAbsent()).Version
	for _, v := range verbs() {
		_, err := v.run(w.ctx, w.r, space, "k", tiering.WriteOptions{})
		if v.name == "touch" || v.name == "pin" {
			w.no(err)
			continue
		}
		if p := tiering.ProblemOf(err); err == nil || p.Status != http.StatusPreconditionRequired {
			t.Errorf("%s without a condition answers %v", v.name, err)
		}
		o := tiering.WriteOptions{If: tiering.IfVersion(version)}
		if version == 0 {
			o.If = tiering.IfAbsent()
		}
		rc, err := v.run(w.ctx, w.r, space, "k", o)
		w.no(err)
		version = rc.Version
		if v.name == "delete" {
			version = 0
		}
	}
	for _, isAtomic := range []bool{false, true} {
		res, err := w.r.Batch(w.ctx, &tiering.Batch{Atomic: isAtomic, Ops: []tiering.BatchOp{{Op: "put", Namespace: space, ID: "k", Data: []byte(`1`)}}})
		status := tiering.ProblemOf(err).Status
		if err == nil {
			status = res.Results[0].Status
		}
		if status != http.StatusPreconditionRequired {
			t.Errorf("a batch, atomic %t, answers %d", isAtomic, status)
		}
	}
}

const schema = `{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"n":{"type":"integer","maximum":5}},"additionalProperties":false}`

// A document that breaks the schema is refused with a pointer to each fault,
// by whatever verb it would come about.
func TestSchema(t *testing.T) {
	w := open(t, setup{})
	w.put("old", `{"name":7}`) // before the schema
	w.policy(space, tiering.Policy{Schema: json.RawMessage(schema)})
	w.put("k", `{"name":"x","n":5}`)
	put := func(body string) error {
		_, err := w.r.Put(w.ctx, space, "k", []byte(body), nil)
		return err
	}
	patch := func(kind tiering.PatchKind, body string) error {
		_, err := w.r.Patch(w.ctx, space, "k", kind, []byte(body), nil)
		return err
	}
	batch := func(op tiering.BatchOp) error {
		op.Namespace, op.ID = space, "k"
		_, err := w.r.Batch(w.ctx, &tiering.Batch{Atomic: true, Ops: []tiering.BatchOp{op}})
		return err
	}
	_, edited := w.r.Apply(w.ctx, space, "k", increment, nil)
	w.put("old", `{"name":"x"}`)
	_, back := w.r.Rollback(w.ctx, space, "old", 1, nil)
	for _, c := range []struct {
		name     string
		err      error
		pointers string
	}{
		{"put", put(`{"name":"x","n":6}`), "/n"},
		{"put with several faults", put(`{"name":1,"n":"a"}`), "/n /name"},
		{"put with a missing name", put(`{"n":1}`), ""},
		{"put of no object", put(`[]`), ""},
		{"merge patch", patch(tiering.MergePatch, `{"n":7}`), "/n"},
		{"JSON patch", patch(tiering.JSONPatch, `[{"op":"replace","path":"/name","value":null}]`), "/name"},
		{"edit", edited, "/n"},
		{"rollback", back, "/name"},
		{"batch put", batch(tiering.BatchOp{Op: "put", Data: []byte(`{"name":"x","n":6}`)}), "/n"},
		{"batch edit", batch(tiering.BatchOp{Op: "edit", Ops: increment}), "/n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := tiering.ProblemOf(c.err)
			if c.err == nil || p.Status != http.StatusUnprocessableEntity || p.Code != tiering.CodeInvalid {
				t.Fatalf("the answer is %v", c.err)
			}
			var at []string
			for _, f := range p.Errors {
				at = append(at, f.Pointer)
				if f.Detail == "" {
					t.Errorf("the fault at %q does not say what is wrong", f.Pointer)
				}
			}
			for want := range strings.FieldsSeq(c.pointers) {
				if !strings.Contains(" "+strings.Join(at, " ")+" ", " "+want+" ") {
					t.Errorf("no fault at %s among %q", want, at)
				}
			}
			if len(at) == 0 || p.Pointer != at[0] {
				t.Errorf("the faults are at %q, the first one said at %q", at, p.Pointer)
			}
		})
	}
	if got := w.strong("k"); got != `{"name":"x","n":5}` {
		t.Errorf("a refused write left %s", got)
	}
}

// A policy that cannot be in force is refused with a pointer to its fault.
func TestPolicyFaults(t *testing.T) {
	w := open(t, setup{})
	for _, c := range []struct{ name, patch, pointer string }{
		{"an unknown class", `{"class":"eternal"}`, "/class"},
		{"an ephemeral log", `{"class":"ephemeral","kind":"log"}`, "/class"},
		{"a schema that is none", `{"schema":{"type":"texts"}}`, "/schema/type"},
		{"a default that its schema refuses", `{"schema":{"type":"object"},"default":[1]}`, "/default"},
		{"a default over the size of a document", `{"max_size":4,"default":"12345"}`, "/default"},
		{"a number where a word is asked for", `{"class":1.0}`, "/class"},
		{"a schema that reads elsewhere", `{"schema":{"$ref":"file:///etc/passwd"}}`, "/schema"},
		{"a share above 1", `{"warn_at":1.5}`, "/warn_at"},
		{"a document over the limit", `{"max_size":9000000}`, "/max_size"},
		{"an unknown field", `{"colour":"red"}`, "/colour"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := w.r.PatchNamespace(w.ctx, space, []byte(c.patch), nil)
			if p := tiering.ProblemOf(err); err == nil || p.Status != http.StatusUnprocessableEntity || p.Pointer != c.pointer {
				t.Errorf("the answer is %v at %q", err, p.Pointer)
			}
		})
	}
	if _, err := w.r.Namespace(w.ctx, space); tiering.CodeOf(err) != tiering.CodeNotFound {
		t.Errorf("a refused policy made the namespace: %v", err)
	}
}

// A plain cached get answers the default where nothing stands, marked and
// without a version; no other read does, unless it names one itself.
func TestDefault(t *testing.T) {
	w := open(t, setup{})
	w.policy(space, tiering.Policy{Default: json.RawMessage(`{"n":0}`)})
	w.put("gone", `{"n":5}`)
	w.delete("gone")
	own := json.RawMessage(`{"n":7}`)
	for _, c := range []struct {
		name string
		o    tiering.GetOptions
		want string // "": not found
	}{
		{"a plain get", tiering.GetOptions{}, `{"n":0}`},
		{"its own default", tiering.GetOptions{Default: own}, `{"n":7}`},
		{"no default", tiering.GetOptions{NoDefault: true}, ""},
		{"a strong get", tiering.GetOptions{Strong: true}, ""},
		{"a strong get with its own", tiering.GetOptions{Strong: true, Default: own}, `{"n":7}`},
		{"a version", tiering.GetOptions{Version: 9, Default: own}, ""},
		{"a pointer into it", tiering.GetOptions{Pointer: "/n"}, `0`},
	} {
		for _, id := range []string{"nobody", "gone"} {
			d, err := w.r.Get(w.ctx, space, id, &c.o)
			switch {
			case c.want == "":
				if tiering.CodeOf(err) != tiering.CodeNotFound {
					t.Errorf("%s of %s answers %+v, %v", c.name, id, d, err)
				}
			case err != nil:
				t.Errorf("%s of %s: %v", c.name, id, err)
			case string(d.Body) != c.want || d.Default != "absent" || d.Version != 0 || d.ID != id:
				t.Errorf("%s of %s answers %+v", c.name, id, d)
			}
		}
	}
}

// A load that takes longer than the policy's load_deadline answers the default;
// a tier that is down is an error all the same, and no edit starts from it.
func TestLoadDeadline(t *testing.T) {
	w := open(t, setup{})
	w.policy(space, tiering.Policy{Default: json.RawMessage(`{"n":0}`), LoadDeadline: tiering.Duration(5 * time.Millisecond)})
	w.put("k", `{"n":5}`)
	w.evict("k")
	load := w.hold("warm.Load")
	d, err := w.r.Get(w.ctx, space, "k", nil)
	w.no(err)
	if string(d.Body) != `{"n":0}` || d.Default != "deadline" || d.Version != 0 {
		t.Errorf("a slow load is answered with %+v", d)
	}
	edit := call(w, func() (*tiering.Edited, error) { return w.r.Apply(w.ctx, space, "k", increment, nil) })
	patch := call(w, func() (*tiering.Receipt, error) {
		return w.r.Patch(w.ctx, space, "nobody", tiering.MergePatch, []byte(`{"m":1}`), nil)
	})
	load.release()
	e, err := edit()
	w.no(err)
	if string(e.Values[0]) != "6" {
		t.Errorf("the edit started from a default: %s", e.Values)
	}
	_, err = patch()
	w.no(err)
	if got := w.strong("nobody"); got != `{"m":1}` {
		t.Errorf("the patch of an absent key started from a default: %s", got)
	}
	w.policy(space, tiering.Policy{Default: json.RawMessage(`{"n":0}`), LoadDeadline: tiering.Duration(time.Minute)})
	w.evict("k")
	w.fail("warm.Load", func() error { return errHotLost })
	if d, err := w.r.Get(w.ctx, space, "k", nil); tiering.CodeOf(err) != tiering.CodeUnavailable {
		t.Errorf("a warm tier that is down is answered with %+v, %v", d, err)
	}
}

// A document from the warning size on carries a warning; one above the largest
// size is refused, also where a patch made it so.
func TestSizes(t *testing.T) {
	w := open(t, setup{})
	w.policy(space, tiering.Policy{ContextWindow: 100, WarnAt: 0.5, MaxSize: 80})
	body := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
	for size, want := range map[int]string{49: "[]", 50: "[size]", 80: "[size]"} {
		if rc := w.put("k", body(size)); fmt.Sprint(rc.Warnings) != want || rc.Size != int64(size) {
			t.Errorf("%d bytes are answered with %v, size %d", size, rc.Warnings, rc.Size)
		}
	}
	_, err := w.r.Put(w.ctx, space, "k", []byte(body(81)), nil)
	if tiering.CodeOf(err) != tiering.CodeTooLarge {
		t.Errorf("81 bytes answer %v", err)
	}
	w.put("list", `{"items":[]}`)
	_, err = w.r.Apply(w.ctx, space, "list", []tiering.EditOp{{Op: "append", Pointer: "/items", Value: []byte(body(78))}}, nil)
	if tiering.CodeOf(err) != tiering.CodeTooLarge {
		t.Errorf("an edit to more than that answers %v", err)
	}
	w.no(func() error {
		_, err := w.r.Put(w.ctx, space, "spaces", []byte(`[ `+strings.Repeat(" ", 100)+`]`), nil)
		return err
	}())
}

// What is wrong with a schema is said without a word of where the daemon runs.
func TestSchemaFaultsNameNoPlace(t *testing.T) {
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for schema, want := range map[string]string{
		`{"type":"texts"}`:                                        "value must be one of",
		`{"$ref":"#/$defs/x"}`:                                    `json-pointer in "#/$defs/x" not found`,
		`{"$ref":"#x"}`:                                           `anchor in "#x" not found`,
		`{"$ref":"other.json"}`:                                   `it refers to "other.json"`,
		`{"$ref":"http://e.com/x"}`:                               `it refers to "http://e.com/x"`,
		`{"$ref":"%zz"}`:                                          "not valid uri-reference",
		`{"$anchor":"a","$defs":{"b":{"$anchor":"a"}}}`:           `duplicate anchor "a"`,
		`{"$defs":{"a":{"$id":"x"},"b":{"$id":"x"}}}`:             `duplicate id "x"`,
		`{"properties":{"a":{"$ref":"#/properties/none"}}}`:       "not found",
		`{"$schema":"https://json-schema.org/draft/none/schema"}`: "it refers to",
	} {
		_, err := compileSchema([]byte(schema))
		p := tiering.ProblemOf(err)
		text := p.Detail + fmt.Sprint(p.Errors)
		if p.Status != 422 || !strings.HasPrefix(p.Pointer, "/schema") || !strings.Contains(text, want) {
			t.Errorf("%s: %s at %q, want %q", schema, text, p.Pointer, want)
		}
		for _, leak := range []string{wd, "file:", "tierd:", schemaURL} {
			if strings.Contains(text, leak) {
				t.Errorf("%s: %s names %s", schema, text, leak)
			}
		}
	}
	own, err := compileSchema([]byte(`{"$ref":"n.json","$defs":{"n":{"$id":"n.json","const":1}}}`))
	if err != nil {
		t.Fatalf("a schema that refers to a part of itself by name: %v", err)
	}
	p := &policy{Policy: tiering.Policy{}.WithDefaults(), schema: own}
	if err := p.check([]byte(`1`)); err != nil {
		t.Error(err)
	}
	if err := p.check([]byte(`2`)); err == nil || strings.Contains(err.Error(), "tierd:") {
		t.Errorf("a document that breaks it: %v", err)
	}
}
