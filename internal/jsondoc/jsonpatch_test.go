package jsondoc

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	evanphx "github.com/evanphx/json-patch/v5"
	"pgregory.net/rapid"

	"github.com/tierd/tierd/tiering"
)

func TestJSONPatch(t *testing.T) {
	for _, c := range []struct{ name, doc, patch, want string }{
		// RFC 6902, appendix A.
		{"A.1 add a member", `{"foo":"bar"}`, `[{"op":"add","path":"/baz","value":"qux"}]`, `{"foo":"bar","baz":"qux"}`},
		{"A.2 add an element", `{"foo":["bar","baz"]}`, `[{"op":"add","path":"/foo/1","value":"qux"}]`, `{"foo":["bar","qux","baz"]}`},
		{"A.3 remove a member", `{"baz":"qux","foo":"bar"}`, `[{"op":"remove","path":"/baz"}]`, `{"foo":"bar"}`},
		{"A.4 remove an element", `{"foo":["bar","qux","baz"]}`, `[{"op":"remove","path":"/foo/1"}]`, `{"foo":["bar","baz"]}`},
		{"A.5 replace", `{"baz":"qux","foo":"bar"}`, `[{"op":"replace","path":"/baz","value":"boo"}]`, `{"baz":"boo","foo":"bar"}`},
		{"A.6 move a member", `{"foo":{"bar":"baz","waldo":"fred"},"qux":{"corge":"grault"}}`, `[{"op":"move","from":"/foo/waldo","path":"/qux/thud"}]`, `{"foo":{"bar":"baz"},"qux":{"corge":"grault","thud":"fred"}}`},
		{"A.7 move an element", `{"foo":["all","grass","cows","eat"]}`, `[{"op":"move","from":"/foo/1","path":"/foo/3"}]`, `{"foo":["all","cows","eat","grass"]}`},
		{"A.8 test", `{"baz":"qux","foo":["a",2,"c"]}`, `[{"op":"test","path":"/baz","value":"qux"},{"op":"test","path":"/foo/1","value":2}]`, `{"baz":"qux","foo":["a",2,"c"]}`},
		{"A.10 add a nested object", `{"foo":"bar"}`, `[{"op":"add","path":"/child","value":{"grandchild":{}}}]`, `{"foo":"bar","child":{"grandchild":{}}}`},
		{"A.11 unknown members", `{"foo":"bar"}`, `[{"op":"add","path":"/baz","value":"qux","xyz":123}]`, `{"foo":"bar","baz":"qux"}`},
		{"A.14 tilde", `{"/":9,"~1":10}`, `[{"op":"test","path":"/~01","value":10}]`, `{"/":9,"~1":10}`},
		{"A.16 add behind the end", `{"foo":["bar"]}`, `[{"op":"add","path":"/foo/-","value":["abc","def"]}]`, `{"foo":["bar",["abc","def"]]}`},

		{"no operation", `{"a":1.0}`, `[]`, `{"a":1.0}`},
		{"add over a member keeps its place", `{"a":1,"b":2}`, `[{"op":"add","path":"/a","value":3.10}]`, `{"a":3.10,"b":2}`},
		{"add the whole", `{"a":1}`, `[{"op":"add","path":"","value":[1.0]}]`, `[1.0]`},
		{"add null", `{}`, `[{"op":"add","path":"/a","value":null}]`, `{"a":null}`},
		{"add at the length", `[1]`, `[{"op":"add","path":"/1","value":2}]`, `[1,2]`},
		{"copy", `{"a":{"b":1e2}}`, `[{"op":"copy","from":"/a","path":"/c"},{"op":"add","path":"/c/b","value":2}]`, `{"a":{"b":1e2},"c":{"b":2}}`},
		{"copy the whole", `{"a":1}`, `[{"op":"copy","from":"","path":"/b"}]`, `{"a":1,"b":{"a":1}}`},
		{"move to itself", `{"a":1}`, `[{"op":"move","from":"/a","path":"/a"}]`, `{"a":1}`},
		{"move up", `{"a":{"b":{"c":1}}}`, `[{"op":"move","from":"/a/b","path":"/a"}]`, `{"a":{"c":1}}`},
		{"move out to the whole", `{"a":{"b":1}}`, `[{"op":"move","from":"/a","path":""}]`, `{"b":1}`},
		{"test in another spelling", `{"a":[1e2,"\u0061",{"x":1,"y":2}]}`, `[{"op":"test","path":"/a","value":[100.0,"a",{"y":2,"x":1}]}]`, `{"a":[1e2,"\u0061",{"x":1,"y":2}]}`},
		{"test what an operation made", `{"a":[]}`, `[{"op":"add","path":"/a/-","value":1},{"op":"test","path":"/a","value":[1]}]`, `{"a":[1]}`},
		{"the rest stays byte by byte", `{"n":1.10,"s":"<\/\u0000","l":[-0,1E5]}`, `[{"op":"remove","path":"/l/0"}]`, `{"n":1.10,"s":"<\/\u0000","l":[1E5]}`},
		{"a value as deep as it may be", `{}`, `[{"op":"add","path":"","value":` + nested(128) + `}]`, nested(128)},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := JSONPatch([]byte(c.doc), []byte(c.patch))
			if err != nil || string(got) != c.want {
				t.Errorf("got %s, %v, want %s", got, err, c.want)
			}
		})
	}
}

func TestJSONPatchRefuses(t *testing.T) {
	for _, c := range []struct {
		name, doc, patch string
		status           int
		pointer          string
	}{
		{"bad JSON", `{}`, `[{]`, 400, ""},
		{"no array", `{}`, `{"op":"remove","path":"/a"}`, 422, ""},
		{"no object", `{}`, `[1]`, 422, "/0"},
		{"no op", `{}`, `[{"path":"/a"}]`, 422, "/0"},
		{"unknown op", `{}`, `[{"op":"merge","path":"/a"}]`, 422, "/0/op"},
		{"op is no string", `{}`, `[{"op":1,"path":"/a"}]`, 422, "/0/op"},
		{"no path", `{"a":1}`, `[{"op":"remove"}]`, 422, "/0"},
		{"bad path", `{"a":1}`, `[{"op":"test","path":"","value":{"a":1}},{"op":"remove","path":"a"}]`, 422, "/1/path"},
		{"bad from", `{"a":1}`, `[{"op":"move","from":"/~","path":"/b"}]`, 422, "/0/from"},
		{"no value", `{}`, `[{"op":"add","path":"/a"}]`, 422, "/0"},
		{"no from", `{}`, `[{"op":"copy","path":"/a"}]`, 422, "/0"},
		{"op twice", `{}`, `[{"op":"add","path":"/a","op":"remove"}]`, 422, "/0/op"},

		{"failing test", `{"a":{"b":1}}`, `[{"op":"test","path":"/a/b","value":"1"}]`, 422, "/a/b"},
		{"test of nothing", `{"a":1}`, `[{"op":"test","path":"/b","value":null}]`, 422, "/b"},
		{"remove nothing", `{"a":{"b":1}}`, `[{"op":"remove","path":"/a/c"}]`, 422, "/a/c"},
		{"replace nothing", `{"a":{"b":1}}`, `[{"op":"replace","path":"/x/y","value":1}]`, 422, "/x"},
		{"remove the whole", `{}`, `[{"op":"remove","path":""}]`, 422, ""},
		{"add without a parent", `{"a":1}`, `[{"op":"add","path":"/x/y","value":1}]`, 422, "/x"},
		{"add below a number", `{"a":1}`, `[{"op":"add","path":"/a/y","value":1}]`, 422, "/a/y"},
		{"add beyond the end", `{"a":[1]}`, `[{"op":"add","path":"/a/2","value":1}]`, 422, "/a/2"},
		{"add at a leading zero", `{"a":[1]}`, `[{"op":"add","path":"/a/01","value":1}]`, 422, "/a/01"},
		{"remove behind the end", `[1]`, `[{"op":"remove","path":"/-"}]`, 422, "/-"},
		{"copy nothing", `{"a":1}`, `[{"op":"copy","from":"/b","path":"/a"}]`, 422, "/b"},
		{"move nothing to itself", `{"a":1}`, `[{"op":"move","from":"/b","path":"/b"}]`, 422, "/b"},
		{"move into itself", `{"a":{"b":1}}`, `[{"op":"move","from":"/a","path":"/a/b"}]`, 422, "/a/b"},
		{"too deep", nested(100), `[{"op":"copy","from":"/0","path":"` + strings.Repeat("/0", 99) + `/-"}]`, 422, strings.Repeat("/0", 99) + "/-"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := JSONPatch([]byte(c.doc), []byte(c.patch))
			if c.status == 400 {
				if tiering.CodeOf(err) != tiering.CodeInvalid {
					t.Fatal(err)
				}
				return
			}
			wantError(t, err, c.status, c.pointer)
		})
	}
}

func TestJSONPatchSaysWhichOperationAndWhatIsThere(t *testing.T) {
	_, err := JSONPatch([]byte(`{"a":{"b":1,"c":2}}`), []byte(`[{"op":"remove","path":"/a/b"},{"op":"replace","path":"/a/x","value":0}]`))
	var e *tiering.Error
	if !errors.As(err, &e) || !strings.Contains(e.Detail, "operation 1 (replace)") || !slices.Equal(e.Siblings, []string{"c"}) {
		t.Errorf("err = %v, siblings %v", err, e.Siblings)
	}
}

// Each copy doubles the document: 64 of them would fill any memory.
func TestJSONPatchBoundsWork(t *testing.T) {
	ops := make([]string, 64)
	for i := range ops {
		ops[i] = fmt.Sprintf(`{"op":"copy","from":"","path":"/k%d"}`, i)
	}
	doc := `{"s":"` + strings.Repeat("x", 4<<20) + `"}`
	_, err := JSONPatch([]byte(doc), []byte("["+strings.Join(ops, ",")+"]"))
	if tiering.CodeOf(err) != tiering.CodeInvalid {
		t.Fatalf("err = %v", err)
	}
}

// The pointer "/" is the member with the empty name, not the whole document.
func TestJSONPatchOfTheEmptyName(t *testing.T) {
	for _, c := range []struct{ patch, want string }{
		{`[{"op":"move","from":"/","path":"/a"}]`, `{"a":1}`},
		{`[{"op":"copy","from":"/","path":"/a"}]`, `{"a":1,"":1}`},
		{`[{"op":"remove","path":"/"}]`, `{"a":0}`},
		{`[{"op":"replace","path":"/","value":2}]`, `{"a":0,"":2}`},
		{`[{"op":"replace","path":"/","value":{}},{"op":"add","path":"//b","value":2}]`, `{"a":0,"":{"b":2}}`},
	} {
		got, err := JSONPatch([]byte(`{"a":0,"":1}`), []byte(c.patch))
		if err != nil || !Equal(got, []byte(c.want)) {
			t.Errorf("%s gives %s, %v; want %s", c.patch, got, err, c.want)
		}
	}
}

// TestJSONPatchAsAnotherLibrary compares with an independent implementation. It
// draws no empty name: that library takes it for the value around it.
func TestJSONPatchAsAnotherLibrary(t *testing.T) {
	options := evanphx.NewApplyOptions()
	options.SupportNegativeIndices = false
	pointer := rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "0", "1", "2", "-", "a~1b", "m~0n"}), 1, 3),
		func(steps []string) string { return "/" + strings.Join(steps, "/") })
	rapid.Check(t, func(t *rapid.T) {
		doc := genObject(3).Draw(t, "doc")
		var ops []string
		for range rapid.IntRange(1, 4).Draw(t, "ops") {
			ops = append(ops, fmt.Sprintf(`{"op":%q,"path":%q,"from":%q,"value":%s}`,
				rapid.SampledFrom([]string{"add", "remove", "replace", "move", "copy"}).Draw(t, "op"),
				pointer.Draw(t, "path"), pointer.Draw(t, "from"), genValue(1).Draw(t, "value")))
		}
		patch := "[" + strings.Join(ops, ",") + "]"
		decoded, err := evanphx.DecodePatch([]byte(patch))
		if err != nil {
			t.Fatal(err)
		}
		want, wantErr := decoded.ApplyWithOptions([]byte(doc), options)
		got, err := JSONPatch([]byte(doc), []byte(patch))
		if err != nil {
			return // the other library lets more through; the tables say what must fail
		}
		if wantErr != nil {
			t.Fatalf("%s on %s gives %s; the other library: %v", patch, doc, got, wantErr)
		}
		if !Equal(got, want) {
			t.Fatalf("%s on %s gives %s, want %s", patch, doc, got, want)
		}
	})
}
