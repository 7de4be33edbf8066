package jsondoc

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestMergePatch(t *testing.T) {
	for _, c := range []struct{ name, doc, patch, want string }{
		// RFC 7396, appendix A.
		{"A1", `{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{"A2", `{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{"A3", `{"a":"b"}`, `{"a":null}`, `{}`},
		{"A4", `{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{"A5", `{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{"A6", `{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{"A7", `{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{"A8", `{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{"A9", `["a","b"]`, `["c","d"]`, `["c","d"]`},
		{"A10", `{"a":"b"}`, `["c"]`, `["c"]`},
		{"A11", `{"a":"foo"}`, `null`, `null`},
		{"A12", `{"a":"foo"}`, `"bar"`, `"bar"`},
		{"A13", `{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{"A14", `[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{"A15", `{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},

		{"siblings stay byte by byte", `{"z":1.10,"a":{"x":"\u0061<","n":1e2},"m":-0}`, `{"a":{"n":3.0}}`, `{"z":1.10,"a":{"x":"\u0061<","n":3.0},"m":-0}`},
		{"text of the patch stays", `{}`, ` { "a" : 1.50 , "b" : "\/<" } `, `{"a":1.50,"b":"\/<"}`},
		{"name by escape", `{"\u0061":1,"b":2}`, `{"a":3}`, `{"\u0061":3,"b":2}`},
		{"null inside an array stays", `{}`, `{"a":[null,{"b":null}]}`, `{"a":[null,{"b":null}]}`},
		{"the word null in a string", `{}`, `{"a":{"b":"null"}}`, `{"a":{"b":"null"}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := MergePatch([]byte(c.doc), []byte(c.patch))
			if err != nil || string(got) != c.want {
				t.Errorf("got %s, %v, want %s", got, err, c.want)
			}
		})
	}
}

func TestMergePatchOfAnAbsentDocument(t *testing.T) {
	got, err := MergePatch(nil, []byte(`{"a":{"b":null,"c":1}}`))
	if err != nil || string(got) != `{"a":{"c":1}}` {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestMergePatchRefuses(t *testing.T) {
	_, err := MergePatch([]byte(`{}`), []byte(`{"a":`))
	wantError(t, err, 400, "")
	_, err = MergePatch([]byte(`{}`), []byte(`{"a":{"b":1,"b":2}}`))
	wantError(t, err, 422, "/a/b")
	_, err = MergePatch([]byte(`{}`), []byte(strings.Repeat(`{"a":`, 129)+"1"+strings.Repeat("}", 129)))
	wantError(t, err, 422, strings.Repeat("/a", 128))
}

// TestMergePatchAsTheRFCSays compares the meaning with the pseudo-code of RFC
// 7396, section 2, over decoded values.
func TestMergePatchAsTheRFCSays(t *testing.T) {
	var merge func(target, patch any) any
	merge = func(target, patch any) any {
		changes, ok := patch.(map[string]any)
		if !ok {
			return patch
		}
		object, ok := target.(map[string]any)
		if !ok {
			object = map[string]any{}
		}
		for name, value := range changes {
			if value == nil {
				delete(object, name)
			} else {
				object[name] = merge(object[name], value)
			}
		}
		return object
	}
	decode := func(t *rapid.T, s string) (v any) {
		d := json.NewDecoder(strings.NewReader(s))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	rapid.Check(t, func(t *rapid.T) {
		doc, patch := genValue(3).Draw(t, "doc"), genObject(3).Draw(t, "patch")
		got, err := MergePatch([]byte(doc), []byte(patch))
		if err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(merge(decode(t, doc), decode(t, patch)))
		if err != nil {
			t.Fatal(err)
		}
		if !Equal(got, want) {
			t.Fatalf("%s merged with %s is %s, want %s", doc, patch, got, want)
		}
		if again, err := Compact(got); err != nil || len(again) != len(got) {
			t.Fatalf("%s is not compact: %v", got, err)
		}
	})
}

func FuzzMergePatch(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"a":{"b":1}}`, `{"a":{"b":null,"c":[null]}}`}, {`[]`, `{"a":{"b":null}}`}, {`{"a":1}`, `null`},
		{`{"\u0061":1}`, ` {"a" : {"a":{}}} `}, {`{"a":1,"b":2,"c":3}`, `{"b":null,"d":4,"a":5}`}, {`x`, `{"a":1}`},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, doc, patch []byte) {
		compacted, err := Compact(doc)
		if err != nil {
			_, _ = MergePatch(doc, patch) // any answer, but one
			return
		}
		got, err := MergePatch(compacted, patch)
		if err != nil {
			return
		}
		if again, err := Compact(got); err != nil || len(again) != len(got) {
			t.Fatalf("%s merged with %s is %s, which is not a compact document: %v", compacted, patch, got, err)
		}
		twice, err := MergePatch(got, patch)
		if err != nil || !Equal(twice, got) {
			t.Fatalf("merging %s twice: %s, then %s, %v", patch, got, twice, err)
		}
	})
}
