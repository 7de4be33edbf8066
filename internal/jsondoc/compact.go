package jsondoc

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tierd/tierd/tiering"
)

// Compact validates body and returns it without the space between tokens;
// body itself, not a copy, when there is none. Everything else stays: member
// order, number text, string escapes.
//
// A body that is not JSON is invalid (400): bad syntax, bad UTF-8, a byte
// order mark, nothing at all, something after the value. JSON that tierd does
// not keep is invalid (422) with the pointer to the fault: nesting deeper than
// tiering.MaxDepth, a number longer than tiering.MaxNumberLength or with an
// exponent beyond tiering.MaxExponent, two members of one name, and half of a
// surrogate pair.
func Compact(body []byte) ([]byte, error) {
	return compact(body, tiering.MaxDepth)
}

// compact is Compact with room for what a patch wraps around its values.
func compact(body []byte, maxDepth int) ([]byte, error) {
	// jsontext recurses into containers, so the bounds come first: measure
	// needs no valid JSON and no stack.
	m := measure(body)
	if m.depth > maxDepth || m.number || !jsontext.Value(body).IsValid() {
		if err := fault(body, maxDepth); err != nil {
			return nil, err
		}
	}
	if m.space == 0 {
		return body, nil
	}
	return strip(body, len(body)-m.space), nil
}

// measures is what one quick look at a body tells. For a body that is not
// JSON it may be off, but only in ways that fault then judges.
type measures struct {
	depth  int  // deepest nesting
	space  int  // bytes of space between tokens
	number bool // a number breaks a limit
}

// The classes of bytes outside strings that measure tells apart.
const (
	other = iota
	space
	opening
	closing
	quotes
	digit
)

var classes = [256]uint8{
	' ': space, '\n': space, '\t': space, '\r': space,
	'{': opening, '[': opening, '}': closing, ']': closing, '"': quotes, '-': digit,
	'0': digit, '1': digit, '2': digit, '3': digit, '4': digit,
	'5': digit, '6': digit, '7': digit, '8': digit, '9': digit,
}

func measure(b []byte) measures {
	var m measures
	depth := 0
	for i := 0; i < len(b); {
		switch classes[b[i]] {
		case quotes:
			i = skipString(b, i)
			continue
		case space:
			m.space++
		case opening:
			depth++
			m.depth = max(m.depth, depth)
		case closing:
			depth--
		case digit:
			end := skipNumber(b, i)
			m.number = m.number || numberFault(b[i:end]) != ""
			i = end
			continue
		}
		i++
	}
	return m
}

// skipNumber returns the offset behind the characters of a number.
func skipNumber(b []byte, i int) int {
	for i < len(b) && (b[i] >= '0' && b[i] <= '9' || b[i] == '.' || b[i] == '-' || b[i] == '+' || b[i] == 'e' || b[i] == 'E') {
		i++
	}
	return i
}

// strip copies valid JSON without the space between tokens.
func strip(b []byte, size int) []byte {
	out := make([]byte, 0, size)
	for i := 0; i < len(b); {
		start := i
		for i < len(b) && classes[b[i]] != space {
			if b[i] == '"' {
				i = skipString(b, i)
			} else {
				i++
			}
		}
		out = append(out, b[start:i]...)
		i = skipSpace(b, i)
	}
	return out
}
