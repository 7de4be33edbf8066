package warm

import (
	"encoding/json"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// modelMatch is the filter's meaning, written down over decoded values: slow,
// and without a thought for anything but what must hold.
func modelMatch(filter map[string]any, doc any) bool {
	for name, operand := range filter {
		var holds bool
		switch name {
		case "$and":
			holds = true
			for _, f := range operand.([]any) {
				holds = holds && modelMatch(f.(map[string]any), doc)
			}
		case "$or":
			for _, f := range operand.([]any) {
				holds = holds || modelMatch(f.(map[string]any), doc)
			}
		case "$not":
			holds = !modelMatch(operand.(map[string]any), doc)
		default:
			value, found := doc, true
			for step := range strings.SplitSeq(strings.TrimPrefix(name, "/"), "/") {
				object, ok := value.(map[string]any)
				if value, found = object[step]; !ok || !found {
					value, found = nil, false
					break
				}
			}
			holds = modelPlace(operand, value, found)
		}
		if !holds {
			return false
		}
	}
	return true
}

func modelPlace(operand, value any, found bool) bool {
	ops, ok := operand.(map[string]any)
	isOps := false
	for op := range ops {
		isOps = isOps || strings.HasPrefix(op, "$")
	}
	if !ok || !isOps {
		ops = map[string]any{"$eq": operand}
	}
	for op, want := range ops {
		if !modelOp(op, want, value, found) {
			return false
		}
	}
	return true
}

func modelOp(op string, want, value any, found bool) bool {
	switch op {
	case "$not":
		return !modelPlace(want, value, found)
	case "$exists":
		return found == want.(bool)
	case "$ne":
		return !found || !modelEqual(value, want)
	}
	if !found {
		return false
	}
	switch op {
	case "$eq":
		return modelEqual(value, want)
	case "$in":
		return modelHas(want.([]any), value)
	case "$contains":
		switch v := value.(type) {
		case []any:
			return modelHas(v, want)
		case string:
			w, ok := want.(string)
			return ok && strings.Contains(v, w)
		case map[string]any:
			w, ok := want.(map[string]any)
			for name, member := range w {
				have, there := v[name]
				ok = ok && there && modelEqual(have, member)
			}
			return ok
		}
		return false
	case "$text":
		var all []string
		modelStrings(value, &all)
		have := strings.Fields(strings.ToLower(strings.Join(all, " ")))
		for w := range strings.FieldsSeq(strings.ToLower(want.(string))) {
			if !slices.Contains(have, w) {
				return false
			}
		}
		return true
	}
	var order int
	switch v := value.(type) {
	case json.Number:
		w, ok := want.(json.Number)
		if !ok {
			return false
		}
		order = rational(v).Cmp(rational(w))
	case string:
		w, ok := want.(string)
		if !ok {
			return false
		}
		order = strings.Compare(v, w)
	case bool:
		w, ok := want.(bool)
		if !ok {
			return false
		}
		if v != w {
			order = -1
			if v {
				order = 1
			}
		}
	default:
		return false
	}
	return map[string]bool{"$gt": order > 0, "$gte": order >= 0, "$lt": order < 0, "$lte": order <= 0}[op]
}

func modelHas(list []any, value any) bool {
	for _, e := range list {
		if modelEqual(e, value) {
			return true
		}
	}
	return false
}

func modelStrings(v any, all *[]string) {
	switch v := v.(type) {
	case string:
		*all = append(*all, v)
	case []any:
		for _, e := range v {
			modelStrings(e, all)
		}
	case map[string]any:
		for _, e := range v {
			modelStrings(e, all)
		}
	}
}

func modelEqual(a, b any) bool { return reflect.DeepEqual(canonical(a), canonical(b)) }

// canonical gives equal numbers one form.
func canonical(v any) any {
	switch v := v.(type) {
	case json.Number:
		return "number " + rational(v).RatString()
	case string:
		return "string " + v
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = canonical(e)
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for name, e := range v {
			out[name] = canonical(e)
		}
		return out
	}
	return v
}

func rational(n json.Number) *big.Rat {
	r, _ := new(big.Rat).SetString(string(n))
	return r
}

func genScalar() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{
		"0", "-0.0", "1", "1.0", "2e0", "10e-1", "-1", "9007199254740993", "9007199254740992", "1e40", "null", "true", "false",
		`""`, `"a"`, `"\u0061"`, `"b a"`, `"A b"`, `"c"`, `"1"`,
	})
}

func genJSON(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		kind := rapid.IntRange(0, 3).Draw(t, "kind")
		switch {
		case depth > 0 && kind == 1:
			return "[" + strings.Join(rapid.SliceOfN(genJSON(depth-1), 0, 3).Draw(t, "elements"), ",") + "]"
		case depth > 0 && kind >= 2:
			names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3, rapid.ID[string]).Draw(t, "names")
			for i, name := range names {
				names[i] = `"` + name + `":` + genJSON(depth-1).Draw(t, "member")
			}
			return "{" + strings.Join(names, ",") + "}"
		}
		return genScalar().Draw(t, "scalar")
	})
}

func genOps(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		from := []string{"$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$exists", "$contains", "$text", "$not"}
		if depth == 0 {
			from = from[:len(from)-1]
		}
		ops := rapid.SliceOfNDistinct(rapid.SampledFrom(from), 1, 2, rapid.ID[string]).Draw(t, "ops")
		for i, op := range ops {
			var operand string
			switch op {
			case "$gt", "$gte", "$lt", "$lte":
				operand = genScalar().Filter(func(s string) bool { return s != "null" }).Draw(t, "operand")
			case "$in":
				operand = "[" + strings.Join(rapid.SliceOfN(genJSON(1), 0, 3).Draw(t, "list"), ",") + "]"
			case "$exists":
				operand = rapid.SampledFrom([]string{"true", "false"}).Draw(t, "exists")
			case "$text":
				operand = rapid.SampledFrom([]string{`"a"`, `"B"`, `"a  C"`, `"1"`}).Draw(t, "words")
			case "$not":
				operand = genOps(depth-1).Draw(t, "not")
			default:
				operand = genJSON(1).Draw(t, "operand")
			}
			ops[i] = `"` + op + `":` + operand
		}
		return "{" + strings.Join(ops, ",") + "}"
	})
}

func genFilter(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "/a/b", "/b", "/a/c", "/c", "$and", "$or", "$not"}), 0, 3, rapid.ID[string]).Draw(t, "names")
		var members []string
		for _, name := range names {
			switch {
			case name[0] != '$' && rapid.Bool().Draw(t, "bare"):
				members = append(members, `"`+name+`":`+genJSON(1).Draw(t, "value"))
			case name[0] != '$':
				members = append(members, `"`+name+`":`+genOps(1).Draw(t, "comparison"))
			case depth > 0 && name == "$not":
				members = append(members, `"$not":`+genFilter(depth-1).Draw(t, "filter"))
			case depth > 0:
				members = append(members, `"`+name+`":[`+strings.Join(rapid.SliceOfN(genFilter(depth-1), 1, 3).Draw(t, "filters"), ",")+`]`)
			}
		}
		return "{" + strings.Join(members, ",") + "}"
	})
}

func TestFilterMatchesAsTheModel(t *testing.T) {
	decode := func(t *rapid.T, s string) (v any) {
		d := json.NewDecoder(strings.NewReader(s))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		return v
	}
	rapid.Check(t, func(t *rapid.T) {
		filter, doc := genFilter(2).Draw(t, "filter"), genJSON(3).Draw(t, "doc")
		parsed, err := ParseFilter([]byte(filter))
		if err != nil {
			t.Fatalf("%s: %v", filter, err)
		}
		got, err := parsed.Match([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		if want := modelMatch(decode(t, filter).(map[string]any), decode(t, doc)); got != want {
			t.Fatalf("%s on %s: %v, want %v", filter, doc, got, want)
		}
	})
}
