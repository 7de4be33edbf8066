package warm

import (
	"bytes"
	"strings"

	"github.com/tierd/tierd/internal/jsondoc"
	"github.com/tierd/tierd/tiering"
)

// Match reports whether doc, a document as it was compacted, matches. Only an
// empty doc is an error (corrupt).
//
// Values of different types are never equal and never compare. Numbers compare
// exactly, as decimals; strings bytewise, once unescaped; false is below true;
// arrays and objects are equal when their JSON is. Where nothing is, only $ne
// and $exists: false hold. NUL counts as U+FFFD.
//
//   - $contains: an array has an equal element, a string has the operand as a
//     part, an object has every member of the operand, equal.
//   - $text: every word of the operand is a word of a string at the place or
//     below it. A word is a run of letters, digits and marks, without regard
//     to case; a Han or Hiragana character is a word by itself.
func (f *Filter) Match(doc []byte) (bool, error) {
	if f == nil {
		return true, nil
	}
	if len(doc) == 0 {
		return false, tiering.Errorf(tiering.CodeCorrupt, "a document of no bytes")
	}
	return f.Root.match(jsondoc.WithoutNUL(doc)), nil
}

func (t *FilterTerm) match(doc []byte) bool {
	switch t.Op {
	case FilterAnd:
		for _, term := range t.Terms {
			if !term.match(doc) {
				return false
			}
		}
		return true
	case FilterOr:
		for _, term := range t.Terms {
			if term.match(doc) {
				return true
			}
		}
		return false
	case FilterNot:
		return !t.Terms[0].match(doc)
	}
	value, found := jsondoc.Pointer(t.Path).Find(doc)
	switch {
	case t.Op == FilterExists:
		return found == (t.Value[0] == 't')
	case !found:
		return t.Op == FilterNe
	}
	return t.holds(value)
}

// holds evaluates a comparison with a value that is there.
func (t *FilterTerm) holds(value []byte) bool {
	switch t.Op {
	case FilterEq:
		return jsondoc.Equal(value, t.Value)
	case FilterNe:
		return !jsondoc.Equal(value, t.Value)
	case FilterIn:
		return hasEqual(t.elements, value)
	case FilterContains:
		return t.contained(value)
	case FilterText:
		return hasWords(value, t.words)
	}
	order, ok := compareValues(value, t.Value)
	if !ok {
		return false
	}
	switch t.Op {
	case FilterGt:
		return order > 0
	case FilterGte:
		return order >= 0
	case FilterLt:
		return order < 0
	default: // $lte: the parser lets no other through
		return order <= 0
	}
}

func hasEqual(elements [][]byte, value []byte) bool {
	for _, element := range elements {
		if jsondoc.Equal(element, value) {
			return true
		}
	}
	return false
}

// compareValues orders two numbers, two strings or two booleans.
func compareValues(a, b []byte) (order int, ok bool) {
	kind := jsondoc.KindOf(a)
	if kind != jsondoc.KindOf(b) {
		return 0, false
	}
	switch kind {
	case jsondoc.Number:
		return jsondoc.CompareNumbers(a, b), true
	case jsondoc.String:
		return strings.Compare(jsondoc.Unquote(a), jsondoc.Unquote(b)), true
	case jsondoc.Bool:
		return bytes.Compare(a, b), true // "false" < "true"
	}
	return 0, false
}

// contained evaluates $contains.
func (t *FilterTerm) contained(value []byte) bool {
	operand := jsondoc.KindOf(t.Value)
	switch jsondoc.KindOf(value) {
	case jsondoc.String:
		return operand == jsondoc.String && strings.Contains(jsondoc.Unquote(value), t.text)
	case jsondoc.Array:
		for element := range jsondoc.Elements(value) {
			if jsondoc.Equal(element, t.Value) {
				return true
			}
		}
		return false
	case jsondoc.Object:
		if operand != jsondoc.Object {
			return false
		}
		for name, want := range jsondoc.Members(t.Value) {
			have, ok := jsondoc.Pointer{jsondoc.Unquote(name)}.Find(value)
			if !ok || !jsondoc.Equal(have, want) {
				return false
			}
		}
		return true
	}
	return false
}
