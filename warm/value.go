package warm

import (
	"cmp"
	"strings"

	"github.com/tierd/tierd/internal/jsondoc"
)

// MaxSortText is how many bytes of a string take part in an order; strings
// that differ only behind them sort by id.
const MaxSortText = 256

// ValueKind is a value's place in the order of kinds. The numbers are part of
// cursors.
type ValueKind uint8

// The kinds, lowest first.
const (
	MissingValue ValueKind = iota
	NullValue
	FalseValue
	TrueValue
	NumberValue
	StringValue
	ArrayValue
	ObjectValue
)

// Value is what a query is ordered by. The zero Value is of
// MissingValue.
type Value struct {
	Kind ValueKind
	// Text is a number's text, or the first MaxSortText bytes of a string's
	// (they may end inside a character); "" for other kinds.
	Text string
}

// SortKey returns the value that pointer leads to in doc, a compacted
// document, with NUL as U+FFFD. A malformed pointer is invalid (400).
func SortKey(doc []byte, pointer string) (Value, error) {
	path, err := jsondoc.ParsePointer(pointer)
	if err != nil {
		return Value{}, err
	}
	for i, token := range path {
		path[i] = strings.ReplaceAll(token, "\x00", "\ufffd")
	}
	value, ok := path.Find(jsondoc.WithoutNUL(doc))
	if !ok {
		return Value{}, nil
	}
	switch jsondoc.KindOf(value) {
	case jsondoc.Null:
		return Value{Kind: NullValue}, nil
	case jsondoc.Bool:
		if value[0] == 't' {
			return Value{Kind: TrueValue}, nil
		}
		return Value{Kind: FalseValue}, nil
	case jsondoc.Number:
		return Value{Kind: NumberValue, Text: string(value)}, nil
	case jsondoc.String:
		text := jsondoc.Unquote(value)
		return Value{Kind: StringValue, Text: text[:min(len(text), MaxSortText)]}, nil
	case jsondoc.Array:
		return Value{Kind: ArrayValue}, nil
	case jsondoc.Object:
		return Value{Kind: ObjectValue}, nil
	}
	return Value{}, nil
}

// Compare is the total order of values: missing < null < false < true <
// numbers < strings < arrays < objects. Numbers compare exactly, as decimals;
// strings bytewise; all arrays are equal, and all objects. What is equal is
// ordered by id.
func (v Value) Compare(o Value) int {
	if c := cmp.Compare(v.Kind, o.Kind); c != 0 {
		return c
	}
	switch v.Kind {
	case NumberValue:
		return jsondoc.CompareNumbers([]byte(v.Text), []byte(o.Text))
	case StringValue:
		return strings.Compare(v.Text, o.Text)
	}
	return 0
}
