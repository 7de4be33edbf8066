package warm

import (
	"slices"
	"strings"
	"testing"

	"github.com/tierd/tierd/tiering"
)

func TestSortKey(t *testing.T) {
	long := strings.Repeat("é", MaxSortText)
	doc := `{"s":"\u0061\u0000","n":1.50,"t":true,"f":false,"z":null,"a":[1,2],"o":{"x":-1e400},"long":"` + long + `","k\u0000":1}`
	for pointer, want := range map[string]Value{
		"/s": {StringValue, "a\ufffd"}, "/n": {NumberValue, "1.50"}, "/t": {Kind: TrueValue}, "/f": {Kind: FalseValue},
		"/z": {Kind: NullValue}, "/a": {Kind: ArrayValue}, "/a/1": {NumberValue, "2"}, "/o": {Kind: ObjectValue},
		"/o/x": {NumberValue, "-1e400"}, "/long": {StringValue, long[:MaxSortText]}, "/x": {}, "/a/9": {}, "": {Kind: ObjectValue},
		"/k\x00": {NumberValue, "1"}, "/k\ufffd": {NumberValue, "1"},
	} {
		if got, err := SortKey([]byte(doc), pointer); err != nil || got != want {
			t.Errorf("SortKey(%q) = %v, %v, want %v", pointer, got, err, want)
		}
	}
	if _, err := SortKey([]byte(doc), "s"); tiering.CodeOf(err) != tiering.CodeInvalid {
		t.Errorf("a pointer without a slash: err = %v", err)
	}
}

func TestValuesHaveOneOrder(t *testing.T) {
	// Each group sorts before the next; the documents of a group are equal.
	groups := [][]string{
		{`{}`, `{"b":1}`}, {`{"a":null}`}, {`{"a":false}`}, {`{"a":true}`},
		{`{"a":-1e400}`}, {`{"a":-10}`, `{"a":-1.0e1}`}, {`{"a":-9}`}, {`{"a":0}`, `{"a":-0.00}`}, {`{"a":1e-400}`},
		{`{"a":9}`}, {`{"a":10}`}, {`{"a":9007199254740992}`}, {`{"a":9007199254740993}`}, {`{"a":1e400}`},
		{`{"a":""}`}, {`{"a":"10"}`}, {`{"a":"9"}`}, {`{"a":"B"}`}, {`{"a":"a"}`, `{"a":"\u0061"}`}, {`{"a":"ab"}`}, {`{"a":"é"}`}, {`{"a":"😀"}`},
		{`{"a":[]}`, `{"a":[1]}`}, {`{"a":{}}`, `{"a":{"b":1}}`},
	}
	key := func(doc string) Value {
		v, err := SortKey([]byte(doc), "/a")
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for i, group := range groups {
		for j, other := range groups {
			for _, a := range group {
				for _, b := range other {
					if got, want := key(a).Compare(key(b)), min(1, max(-1, i-j)); got != want {
						t.Errorf("%s against %s: %d, want %d", a, b, got, want)
					}
				}
			}
		}
	}
	var values []Value
	for _, group := range slices.Backward(groups) {
		values = append(values, key(group[0]))
	}
	slices.SortFunc(values, Value.Compare)
	if values[0].Kind != MissingValue || values[len(values)-1].Kind != ObjectValue {
		t.Errorf("sorted from %v to %v", values[0], values[len(values)-1])
	}
}
