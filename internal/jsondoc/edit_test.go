package jsondoc

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tierd/tierd/tiering"
)

func editOps(t testing.TB, ops string) []tiering.EditOp {
	t.Helper()
	var parsed []tiering.EditOp
	if err := json.Unmarshal([]byte(ops), &parsed); err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestEdit(t *testing.T) {
	for _, c := range []struct{ name, doc, ops, want, values string }{
		{"set a member", `{"b":1.0,"a":"\u0061"}`, `[{"op":"set","pointer":"/b","value":2.50}]`, `{"b":2.50,"a":"\u0061"}`, `[2.50]`},
		{"set keeps the rest byte by byte", `{"a":1e2,"x":"<&\/>","z":[1.0,{"q":-0}]}`, `[{"op":"set","pointer":"/z/1/q","value":"é<"}]`, `{"a":1e2,"x":"<&\/>","z":[1.0,{"q":"é<"}]}`, `["é<"]`},
		{"set a new member", `{"b":1}`, `[{"op":"set","pointer":"/a\"\n","value":null}]`, `{"b":1,"a\"\n":null}`, `[null]`},
		{"set makes parents", `{}`, `[{"op":"set","pointer":"/a/b~1/0","value":[]}]`, `{"a":{"b/":{"0":[]}}}`, `[[]]`},
		{"set compacts the value", `{}`, `[{"op":"set","pointer":"/a","value":{ "b" : [ 1 ] }}]`, `{"a":{"b":[1]}}`, `[{"b":[1]}]`},
		{"set the whole", `{"a":1}`, `[{"op":"set","pointer":"","value":[1]}]`, `[1]`, `[[1]]`},
		{"set an element", `[1,2,3]`, `[{"op":"set","pointer":"/1","value":9}]`, `[1,9,3]`, `[9]`},
		{"set behind the end", `[1]`, `[{"op":"set","pointer":"/1","value":2},{"op":"set","pointer":"/-","value":3}]`, `[1,2,3]`, `[2,3]`},
		{"set below a new element", `[]`, `[{"op":"set","pointer":"/-/a","value":1}]`, `[{"a":1}]`, `[1]`},
		{"set by escaped name", `{"\u0061":1}`, `[{"op":"set","pointer":"/a","value":2}]`, `{"\u0061":2}`, `[2]`},
		{"remove a member", `{"a":1,"b":2,"c":3}`, `[{"op":"remove","pointer":"/b"}]`, `{"a":1,"c":3}`, `[null]`},
		{"remove the only member", `{"a":{"b":2}}`, `[{"op":"remove","pointer":"/a/b"}]`, `{"a":{}}`, `[null]`},
		{"remove an element", `[1,2,3]`, `[{"op":"remove","pointer":"/0"}]`, `[2,3]`, `[2]`},
		{"remove what is not there", `{"a":[]}`, `[{"op":"remove","pointer":"/x/y"},{"op":"remove","pointer":"/a/7"}]`, `{"a":[]}`, `[null,null]`},
		{"remove, then set again", `{"a":1,"b":2}`, `[{"op":"remove","pointer":"/a"},{"op":"set","pointer":"/a","value":3}]`, `{"b":2,"a":3}`, `[3,3]`},
		{"increment beyond 2^53", `{"n":9007199254740993}`, `[{"op":"increment","pointer":"/n"}]`, `{"n":9007199254740994}`, `[9007199254740994]`},
		{"increment by a decimal", `{"n":0.1}`, `[{"op":"increment","pointer":"/n","by":0.2}]`, `{"n":0.3}`, `[0.3]`},
		{"increment keeps places", `{"n":1.10}`, `[{"op":"increment","pointer":"/n","by":-0.1}]`, `{"n":1.00}`, `[1.00]`},
		{"increment writes plainly", `{"n":1e3}`, `[{"op":"increment","pointer":"/n","by":2E2}]`, `{"n":1200}`, `[1200]`},
		{"increment to nothing", `{"n":5}`, `[{"op":"increment","pointer":"/n","by":-5.0}]`, `{"n":0}`, `[0]`},
		{"increment small and large", `{"n":1e100}`, `[{"op":"increment","pointer":"/n","by":1e-5}]`, `{"n":1` + strings.Repeat("0", 100) + `.00001}`, `[1` + strings.Repeat("0", 100) + `.00001]`},
		{"increment what is missing", `{}`, `[{"op":"increment","pointer":"/a/n"},{"op":"increment","pointer":"/b","by":-2.5}]`, `{"a":{"n":1},"b":-2.5}`, `[1,-2.5]`},
		{"append", `{"l":[1,2]}`, `[{"op":"append","pointer":"/l","value":{"a":1}}]`, `{"l":[1,2,{"a":1}]}`, `[[1,2,{"a":1}]]`},
		{"append an array is one element", `[]`, `[{"op":"append","pointer":"","value":[1,2]}]`, `[[1,2]]`, `[[[1,2]]]`},
		{"append makes the array", `{}`, `[{"op":"append","pointer":"/a/l","value":1},{"op":"append","pointer":"/a/l","value":2}]`, `{"a":{"l":[1,2]}}`, `[[1,2],[1,2]]`},
		{"add to a set", `{"s":["a"]}`, `[{"op":"add_to_set","pointer":"/s","value":"b"}]`, `{"s":["a","b"]}`, `[["a","b"]]`},
		{"add an equal number", `{"s":[1e2]}`, `[{"op":"add_to_set","pointer":"/s","value":100.0}]`, `{"s":[1e2]}`, `[[1e2]]`},
		{"add an equal object", `{"s":[{"a":1,"b":2}]}`, `[{"op":"add_to_set","pointer":"/s","value":{"b":2,"a":1.0}}]`, `{"s":[{"a":1,"b":2}]}`, `[[{"a":1,"b":2}]]`},
		{"add what was just added", `{}`, `[{"op":"add_to_set","pointer":"/s","value":1},{"op":"add_to_set","pointer":"/s","value":1.0}]`, `{"s":[1]}`, `[[1],[1]]`},
		{"remove from a set", `{"s":[1,"a",1.0,2]}`, `[{"op":"remove_from_set","pointer":"/s","value":1}]`, `{"s":["a",2]}`, `[["a",2]]`},
		{"remove from a set that is not there", `{}`, `[{"op":"remove_from_set","pointer":"/a/s","value":1}]`, `{}`, `[null]`},
		{"max", `{"n":9.5}`, `[{"op":"max","pointer":"/n","value":10},{"op":"max","pointer":"/n","value":9}]`, `{"n":10}`, `[10,10]`},
		{"max keeps an equal one", `{"n":1.0}`, `[{"op":"max","pointer":"/n","value":1}]`, `{"n":1.0}`, `[1.0]`},
		{"min", `{"n":9007199254740993}`, `[{"op":"min","pointer":"/n","value":9007199254740992}]`, `{"n":9007199254740992}`, `[9007199254740992]`},
		{"max and min of what is missing", `{}`, `[{"op":"max","pointer":"/a","value":-1e2},{"op":"min","pointer":"/b","value":5}]`, `{"a":-1e2,"b":5}`, `[-1e2,5]`},
		{"edit below what an edit made", `{"a":1}`, `[{"op":"set","pointer":"/x","value":{"l":[1,{"y":2}],"k":3}},{"op":"increment","pointer":"/x/l/1/y"},{"op":"remove","pointer":"/x/l/0"}]`, `{"a":1,"x":{"l":[{"y":3}],"k":3}}`, `[{"l":[{"y":3}],"k":3},null,{"y":3}]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			next, values, err := Edit([]byte(c.doc), editOps(t, c.ops))
			if err != nil {
				t.Fatal(err)
			}
			if string(next) != c.want {
				t.Errorf("next\n %s, want\n %s", next, c.want)
			}
			if got, _ := json.Marshal(rawTexts(values)); string(got) != mustTexts(t, c.values) {
				t.Errorf("values %s, want %s", values, c.values)
			}
		})
	}
}

// rawTexts and mustTexts show values with their text, which json.Marshal of a
// RawMessage would change.
func rawTexts(values []json.RawMessage) []string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = string(v)
	}
	return texts
}

func mustTexts(t *testing.T, values string) string {
	var texts []string
	for e := range Elements([]byte(values)) {
		texts = append(texts, string(e))
	}
	out, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestEditOfAnAbsentDocument(t *testing.T) {
	next, _, err := Edit(nil, editOps(t, `[{"op":"increment","pointer":"/n"}]`))
	if err != nil || string(next) != `{"n":1}` {
		t.Fatalf("%s, %v", next, err)
	}
}

func TestEditWithoutEffectReturnsTheDocument(t *testing.T) {
	doc := []byte(`{"n":5,"s":[1]}`)
	next, _, err := Edit(doc, editOps(t, `[{"op":"max","pointer":"/n","value":3},{"op":"add_to_set","pointer":"/s","value":1},{"op":"remove","pointer":"/x"}]`))
	if err != nil || &next[0] != &doc[0] {
		t.Fatalf("%s, %v: not the same bytes", next, err)
	}
}

func TestEditRefuses(t *testing.T) {
	hundredAndOne := make([]string, 101)
	for i := range hundredAndOne {
		hundredAndOne[i] = `{"op":"remove","pointer":"/a"}`
	}
	for _, c := range []struct {
		name, doc, ops string
		status         int
		pointer        string
	}{
		{"no operation", `{}`, `[]`, 422, "/ops"},
		{"101 operations", `{}`, "[" + strings.Join(hundredAndOne, ",") + "]", 422, "/ops"},
		{"unknown operation", `{}`, `[{"op":"remove","pointer":"/a"},{"op":"push","pointer":"/a","value":1}]`, 422, "/ops/1/op"},
		{"no operation named", `{}`, `[{"pointer":"/a"}]`, 422, "/ops/0/op"},
		{"bad pointer", `{}`, `[{"op":"remove","pointer":"a"}]`, 422, "/ops/0/pointer"},
		{"remove the whole", `{}`, `[{"op":"remove","pointer":""}]`, 422, "/ops/0/pointer"},
		{"no value", `{}`, `[{"op":"set","pointer":"/a"}]`, 422, "/ops/0"},
		{"value where by belongs", `{}`, `[{"op":"increment","pointer":"/a","value":1}]`, 422, "/ops/0"},
		{"value of remove", `{}`, `[{"op":"remove","pointer":"/a","value":1}]`, 422, "/ops/0"},
		{"by is no number", `{}`, `[{"op":"increment","pointer":"/a","by":"1"}]`, 422, "/ops/0/by"},
		{"max of a string", `{}`, `[{"op":"max","pointer":"/a","value":"z"}]`, 422, "/ops/0/value"},
		{"duplicate in a value", `{}`, `[{"op":"set","pointer":"/a","value":{"x":{"k":1,"k":2}}}]`, 422, "/ops/0/value/x/k"},
		{"exponent of by", `{}`, `[{"op":"increment","pointer":"/a","by":1e401}]`, 422, "/ops/0/by"},

		{"increment a string", `{"a":{"b":"1"}}`, `[{"op":"increment","pointer":"/a/b"}]`, 422, "/a/b"},
		{"append to an object", `{"a":{}}`, `[{"op":"append","pointer":"/a","value":1}]`, 422, "/a"},
		{"append to null", `{"a":null}`, `[{"op":"append","pointer":"/a","value":1}]`, 422, "/a"},
		{"add to a string", `{"a":"x"}`, `[{"op":"add_to_set","pointer":"/a","value":1}]`, 422, "/a"},
		{"remove from a number", `{"a":1}`, `[{"op":"remove_from_set","pointer":"/a","value":1}]`, 422, "/a"},
		{"max with a string", `{"a":"x"}`, `[{"op":"max","pointer":"/a","value":1}]`, 422, "/a"},
		{"set below a string", `{"a":"x"}`, `[{"op":"set","pointer":"/a/b/c","value":1}]`, 422, "/a/b"},
		{"remove below a string", `{"a":"x"}`, `[{"op":"remove","pointer":"/a/b"}]`, 422, "/a/b"},
		{"set beyond the end", `{"a":[1]}`, `[{"op":"set","pointer":"/a/2","value":1}]`, 422, "/a/2"},
		{"set a name in an array", `{"a":[1]}`, `[{"op":"set","pointer":"/a/b","value":1}]`, 422, "/a/b"},
		{"sum too long", `{"a":1e300}`, `[{"op":"increment","pointer":"/a","by":1e-300}]`, 422, "/a"},
		{"too deep", nested(100), `[{"op":"set","pointer":"` + strings.Repeat("/0", 99) + `/-","value":` + nested(29) + `}]`, 422, strings.Repeat("/0", 100)},
	} {
		t.Run(c.name, func(t *testing.T) {
			ops := editOps(t, c.ops)
			_, _, err := Edit([]byte(c.doc), ops)
			wantError(t, err, c.status, c.pointer)
			if early := ValidateEdit(ops) != nil; early != strings.HasPrefix(c.pointer, "/ops") {
				t.Errorf("ValidateEdit refuses: %v", early)
			}
		})
	}
}

func TestEditNamesTheSyntaxFaultOfAValue(t *testing.T) {
	_, _, err := Edit(nil, []tiering.EditOp{{Op: "set", Pointer: "/a", Value: json.RawMessage(`[1,]`)}})
	var e *tiering.Error
	if !errors.As(err, &e) || e.Status() != 400 || !strings.HasPrefix(e.Pointer, "/ops/0/value") {
		t.Errorf("err = %v", err)
	}
}

func TestEditNestsAsDeepAsADocumentMay(t *testing.T) {
	ops := `[{"op":"set","pointer":"` + strings.Repeat("/0", 99) + `/-","value":` + nested(28) + `}]`
	next, _, err := Edit([]byte(nested(100)), editOps(t, ops))
	if err != nil || string(next) != nested(128) {
		t.Fatalf("%s, %v", next, err)
	}
}

// TestEditManyMembers takes the way of objects that are looked up often, where
// names are indexed, against a plain map.
func TestEditManyMembers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := map[string]string{}
		var doc strings.Builder
		doc.WriteString("{")
		for i := range 20 {
			if i > 0 {
				doc.WriteByte(',')
			}
			fmt.Fprintf(&doc, `"k%d":%d`, i, i)
			want["k"+strconv.Itoa(i)] = strconv.Itoa(i)
		}
		doc.WriteString("}")
		var ops []tiering.EditOp
		for i := range rapid.IntRange(1, 60).Draw(t, "ops") {
			key := "k" + strconv.Itoa(rapid.IntRange(0, 24).Draw(t, "key"))
			if rapid.Bool().Draw(t, "remove") {
				ops = append(ops, tiering.EditOp{Op: "remove", Pointer: "/" + key})
				delete(want, key)
			} else {
				value := strconv.Itoa(1000 + i)
				ops = append(ops, tiering.EditOp{Op: "set", Pointer: "/" + key, Value: json.RawMessage(value)})
				want[key] = value
			}
		}
		next, values, err := Edit([]byte(doc.String()), ops)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for name, value := range Members(next) {
			got[Unquote(name)] = string(value)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("got %v, want %v", got, want)
		}
		for i, op := range ops {
			value, ok := want[op.Pointer[1:]]
			if !ok {
				value = "null"
			}
			if string(values[i]) != value {
				t.Fatalf("value %d is %s, want %s", i, values[i], value)
			}
		}
	})
}

func FuzzEdit(f *testing.F) {
	for _, seed := range [][3]string{
		{`{"a":[1,{"b":2}]}`, "/a/1/b", `3`}, {`{}`, "/x/-/y", `{"k":[1.0]}`}, {`[[],[1],"s"]`, "/1", `1`},
		{`{"\u0061":1e2}`, "/a", `0.5`}, {`null`, "", `null`}, {`{"a":{"b":{"c":1}}}`, "/a/b", `[{"d":0}]`},
	} {
		for op := range 8 {
			f.Add([]byte(seed[0]), uint8(op), seed[1], []byte(seed[2]), uint8(op*37))
		}
	}
	names := []string{opSet, opRemove, opIncrement, opAppend, opAddToSet, opRemoveFromSet, opMax, opMin}
	f.Fuzz(func(t *testing.T, doc []byte, op uint8, pointer string, value []byte, second uint8) {
		compacted, err := Compact(doc)
		var ops []tiering.EditOp
		for _, o := range []uint8{op, second} {
			e := tiering.EditOp{Op: names[o%8], Pointer: pointer, Value: value}
			switch e.Op {
			case opRemove:
				e.Value = nil
			case opIncrement:
				e.Value, e.By = nil, value
			}
			ops = append(ops, e)
		}
		if err != nil {
			_, _, _ = Edit(doc, ops) // no document: any answer, but one
			return
		}
		next, values, err := Edit(compacted, ops)
		if err != nil {
			var e *tiering.Error
			if !errors.As(err, &e) || e.Code != tiering.CodeInvalid {
				t.Fatalf("unexpected kind of error: %v", err)
			}
			return
		}
		again, err := Compact(next)
		if err != nil || len(again) != len(next) {
			t.Fatalf("%s with %v gives %s, which is not a compact document: %v", compacted, ops, next, err)
		}
		for i, v := range values {
			if _, err := Compact(v); err != nil {
				t.Fatalf("value %d %s: %v", i, v, err)
			}
		}
	})
}

func BenchmarkEdit64KB(b *testing.B) {
	doc := document(64 << 10)
	for name, ops := range map[string]string{
		"set":       `[{"op":"set","pointer":"/status","value":"closed"}]`,
		"increment": `[{"op":"increment","pointer":"/count","by":0.1}]`,
		"append":    `[{"op":"append","pointer":"/messages","value":{"role":"user","content":"hello"}}]`,
		"deep-set":  `[{"op":"set","pointer":"/messages/50/ok","value":false}]`,
	} {
		parsed := editOps(b, ops)
		b.Run("op="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := Edit(doc, parsed); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
