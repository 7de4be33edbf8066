package jsondoc

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestDiff(t *testing.T) {
	pad := strings.Repeat("x", 200) // so that replacing the whole is not shorter
	for _, c := range []struct{ name, from, to, want string }{
		{"equal in another spelling", `{"a":1.0,"b":["\u0061"]}`, `{"b":["a"],"a":1}`, `[]`},
		{"members", `{"p":"PAD","a":1,"b":2,"c":{"d":3}}`, `{"p":"PAD","b":2.5,"c":{"d":3,"e/f":4}}`,
			`[{"op":"remove","path":"/a"},{"op":"replace","path":"/b","value":2.5},{"op":"add","path":"/c/e~1f","value":4}]`},
		{"append", `{"l":["PAD",1]}`, `{"l":["PAD",1,{"n":1.10}]}`, `[{"op":"add","path":"/l/2","value":{"n":1.10}}]`},
		{"insert in front", `["PAD",2]`, `[1,"PAD",2]`, `[{"op":"add","path":"/0","value":1}]`},
		{"insert amid", `["PAD",1,3]`, `["PAD",1,2,3]`, `[{"op":"add","path":"/2","value":2}]`},
		{"remove amid", `["PAD",1,2,3,4]`, `["PAD",1,4]`, `[{"op":"remove","path":"/3"},{"op":"remove","path":"/2"}]`},
		{"change in an element", `["PAD",{"a":1,"b":2},3]`, `["PAD",{"a":1,"b":5},3]`, `[{"op":"replace","path":"/1/b","value":5}]`},
		{"another kind", `{"p":"PAD","a":[]}`, `{"p":"PAD","a":{}}`, `[{"op":"replace","path":"/a","value":{}}]`},
		{"the whole is shorter", `{"a":1,"b":2,"c":3,"d":4}`, `{"e":"<"}`, `[{"op":"replace","path":"","value":{"e":"<"}}]`},
		{"scalars", `1`, `2`, `[{"op":"replace","path":"","value":2}]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			from, to := strings.ReplaceAll(c.from, "PAD", pad), strings.ReplaceAll(c.to, "PAD", pad)
			got, err := Diff([]byte(from), []byte(to))
			if err != nil || string(got) != c.want {
				t.Errorf("got  %s, %v\nwant %s", got, err, c.want)
			}
		})
	}
}

func TestDiffLeadsFromOneToTheOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from, to := genValue(4).Draw(t, "from"), genValue(4).Draw(t, "to")
		// As a member of a large document, so that the patch is a real one.
		if rapid.Bool().Draw(t, "padded") {
			pad := strings.Repeat("x", 2000)
			from, to = `{"p":"`+pad+`","v":`+from+`}`, `{"p":"`+pad+`","v":`+to+`}`
		}
		patch, err := Diff([]byte(from), []byte(to))
		if err != nil {
			t.Fatal(err)
		}
		got, err := JSONPatch([]byte(from), patch)
		if err != nil {
			t.Fatalf("%s on %s: %v", patch, from, err)
		}
		if !Equal(got, []byte(to)) {
			t.Fatalf("%s on %s gives %s, want %s", patch, from, got, to)
		}
		if same := Equal([]byte(from), []byte(to)); same != (string(patch) == "[]") {
			t.Fatalf("equal: %v, patch %s", same, patch)
		}
	})
}
