package jsondoc

import (
	"bytes"
	"iter"

	"github.com/go-json-experiment/json/jsontext"
)

// Kind is what a JSON value is.
type Kind uint8

// The kinds of JSON values. Invalid is the kind of no bytes.
const (
	Invalid Kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
)

// kinds is the kind of a value by its first byte.
var kinds = [256]Kind{
	'n': Null, 't': Bool, 'f': Bool, '"': String, '[': Array, '{': Object, '-': Number,
	'0': Number, '1': Number, '2': Number, '3': Number, '4': Number,
	'5': Number, '6': Number, '7': Number, '8': Number, '9': Number,
}

var kindNames = [...]string{"nothing", "null", "a boolean", "a number", "a string", "an array", "an object"}

// String names the kind with its article, for messages.
func (k Kind) String() string { return kindNames[k] }

// KindOf returns the kind of a value without leading space.
func KindOf(value []byte) Kind {
	if len(value) == 0 {
		return Invalid
	}
	return kinds[value[0]]
}

// Members yields the quoted name and the value of each member of an object,
// in order, as parts of object.
func Members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for c := enter(object); c.next(); {
			if !yield(c.name(), c.value()) {
				return
			}
		}
	}
}

// Elements yields the elements of an array, in order, as parts of array.
func Elements(array []byte) iter.Seq[[]byte] {
	return func(yield func(value []byte) bool) {
		for c := enter(array); c.next(); {
			if !yield(c.value()) {
				return
			}
		}
	}
}

// Unquote returns the text of a quoted JSON string.
func Unquote(quoted []byte) string {
	if inner, plain := plainText(quoted); plain {
		return string(inner)
	}
	text, _ := jsontext.AppendUnquote(nil, quoted) // the document was validated
	return string(text)
}

// plainText returns what stands between the quotes, and whether that is the
// text itself because no escape is in it.
func plainText(quoted []byte) (inner []byte, plain bool) {
	if len(quoted) < 2 {
		return nil, true
	}
	inner = quoted[1 : len(quoted)-1]
	return inner, bytes.IndexByte(inner, '\\') < 0
}

// isText reports whether the quoted string means text.
func isText(quoted []byte, text string) bool {
	inner, plain := plainText(quoted)
	if plain {
		return string(inner) == text
	}
	// An escape is longer than what it stands for.
	return len(inner) > len(text) && Unquote(quoted) == text
}

// sameText reports whether two quoted strings mean the same text.
func sameText(a, b []byte) bool {
	innerA, plainA := plainText(a)
	innerB, plainB := plainText(b)
	if plainA && plainB {
		return bytes.Equal(innerA, innerB)
	}
	return Unquote(a) == Unquote(b)
}

// quote appends text as a JSON string, with no more escapes than JSON asks for.
func quote(dst []byte, text string) []byte {
	dst, _ = jsontext.AppendQuote(dst, text) // an error means invalid UTF-8, replaced by U+FFFD
	return dst
}

// cursor walks the children of one container without allocating. nameAt,
// at and end are offsets of the current child in b.
type cursor struct {
	b       []byte
	from    int
	nameAt  int
	nameEnd int
	at      int
	end     int
	object  bool
}

// enter returns a cursor before the first child of a container; of any other
// value it has none.
func enter(container []byte) cursor {
	c := cursor{b: container, from: len(container)}
	switch KindOf(container) {
	case Object:
		c.object, c.from = true, 1
	case Array:
		c.from = 1
	}
	return c
}

// next moves to the next child, false at the end.
func (c *cursor) next() bool {
	i := skipSpace(c.b, c.from)
	if i < len(c.b) && c.b[i] == ',' {
		i = skipSpace(c.b, i+1)
	}
	if i >= len(c.b) || c.b[i] == ']' || c.b[i] == '}' {
		c.from = len(c.b)
		return false
	}
	c.nameAt, c.nameEnd = i, i
	if c.object {
		c.nameEnd = skipString(c.b, i)
		i = skipSpace(c.b, c.nameEnd)
		i = skipSpace(c.b, i+1) // the colon
	}
	c.at = min(i, len(c.b))
	c.end = skipValue(c.b, c.at)
	c.from = c.end
	if c.end == c.at { // not JSON: do not stand still
		c.from = c.end + 1
	}
	return true
}

func (c *cursor) name() []byte  { return c.b[c.nameAt:c.nameEnd] }
func (c *cursor) value() []byte { return c.b[c.at:c.end] }

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipString returns the offset behind the string that starts at i.
func skipString(b []byte, i int) int {
	start := i + 1
	for at := start; at < len(b); {
		n := bytes.IndexByte(b[at:], '"')
		if n < 0 {
			return len(b)
		}
		at += n
		slashes := 0
		for at-1-slashes >= start && b[at-1-slashes] == '\\' {
			slashes++
		}
		at++
		if slashes%2 == 0 {
			return at
		}
	}
	return len(b)
}

// skipValue returns the offset behind the value that starts at i. It counts
// brackets and does not recurse.
func skipValue(b []byte, i int) int {
	if i >= len(b) {
		return len(b)
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		for depth := 0; i < len(b); {
			switch b[i] {
			case '"':
				i = skipString(b, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
		return len(b)
	}
	for i < len(b) {
		switch b[i] {
		case ',', ']', '}', ':', ' ', '\n', '\t', '\r':
			return i
		}
		i++
	}
	return i
}

// depthOf returns how deep containers nest in value: 0 for a scalar.
func depthOf(value []byte) int {
	depth, deepest := 0, 0
	for i := 0; i < len(value); {
		switch value[i] {
		case '"':
			i = skipString(value, i)
			continue
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
		i++
	}
	return deepest
}
