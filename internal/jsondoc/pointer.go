package jsondoc

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tierd/tierd/tiering"
)

// Pointer is a parsed JSON Pointer (RFC 6901): one unescaped token a step. The
// nil Pointer is the whole document.
type Pointer []string

// maxSiblings is how many names beside a missing step an error lists.
const maxSiblings = 20

// ParsePointer parses a pointer such as "/user/age". A malformed one is an
// invalid error (400).
func ParsePointer(s string) (Pointer, error) {
	p, fault := parsePointer(s)
	if fault != "" {
		return nil, tiering.Invalidf("%s", fault)
	}
	return p, nil
}

// parsePointer parses a pointer, or says what is wrong with it.
func parsePointer(s string) (p Pointer, fault string) {
	switch {
	case s == "":
		return nil, ""
	case s[0] != '/':
		return nil, fmt.Sprintf("pointer %q does not start with a slash: write %q, or \"\" for the whole document", s, "/"+s)
	case !utf8.ValidString(s):
		return nil, fmt.Sprintf("pointer %q is not valid UTF-8", s)
	}
	p = strings.Split(s[1:], "/")
	for i, token := range p {
		if strings.IndexByte(token, '~') < 0 {
			continue
		}
		for j := range len(token) {
			if token[j] == '~' && (j+1 == len(token) || token[j+1] != '0' && token[j+1] != '1') {
				return nil, fmt.Sprintf("pointer %q: write ~0 for a tilde and ~1 for a slash inside a name", s)
			}
		}
		p[i] = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
	}
	return p, ""
}

// String returns the pointer in the form that ParsePointer reads.
func (p Pointer) String() string {
	var b strings.Builder
	for _, token := range p {
		b.WriteByte('/')
		b.WriteString(escapeToken(token))
	}
	return b.String()
}

func escapeToken(token string) string {
	if strings.ContainsAny(token, "~/") {
		return strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1")
	}
	return token
}

// Find returns the value that p leads to, as a part of doc; ok is false when
// it leads nowhere.
func (p Pointer) Find(doc []byte) (value []byte, ok bool) {
	value, steps := p.follow(doc)
	return value, steps == len(p)
}

// follow goes as far as p leads: it returns the last value reached and how
// many steps led there.
func (p Pointer) follow(doc []byte) (value []byte, steps int) {
	value = doc[skipSpace(doc, 0):]
	value = value[:skipValue(value, 0)]
	for steps, token := range p {
		next, ok := child(value, token)
		if !ok {
			return value, steps
		}
		value = next
	}
	return value, len(p)
}

// child returns the member or element of value that token names.
func child(value []byte, token string) ([]byte, bool) {
	switch KindOf(value) {
	case Object:
		for c := enter(value); c.next(); {
			if isText(c.name(), token) {
				return c.value(), true
			}
		}
	case Array:
		index, ok := arrayIndex(token)
		if !ok {
			return nil, false
		}
		for c := enter(value); c.next(); index-- {
			if index == 0 {
				return c.value(), true
			}
		}
	}
	return nil, false
}

// arrayIndex reads an array index: digits without leading zeros.
func arrayIndex(token string) (int, bool) {
	if token == "" || len(token) > 10 || len(token) > 1 && token[0] == '0' {
		return 0, false
	}
	n := 0
	for i := range len(token) {
		if token[i] < '0' || token[i] > '9' {
			return 0, false
		}
		n = n*10 + int(token[i]-'0')
	}
	return n, true
}

// Lookup returns the value under pointer as a part of doc. When the pointer
// leads nowhere the error is not_found: Pointer ends with the step that is
// missing and Siblings names what is there in its place. A malformed pointer
// is invalid (400).
func Lookup(doc []byte, pointer string) (value []byte, err error) {
	p, err := ParsePointer(pointer)
	if err != nil {
		return nil, err
	}
	value, steps := p.follow(doc)
	if steps == len(p) {
		return value, nil
	}
	missing := p[:steps+1].String()
	e := tiering.Errorf(tiering.CodeNotFound, "nothing is at %q: %s", missing, whatIsAt(value))
	e.Pointer = missing
	e.Siblings = siblings(value)
	return nil, e
}

// whatIsAt says for people what a step failed on.
func whatIsAt(parent []byte) string {
	switch KindOf(parent) {
	case Object:
		return "the object has no such member"
	case Array:
		return "the array has no such index"
	}
	return "its parent is " + KindOf(parent).String()
}

// siblings names the members of an object, or gives the range of an array's
// indexes as "0..n".
func siblings(parent []byte) []string {
	var names []string
	n := 0
	for c := enter(parent); c.next(); n++ {
		if c.object {
			if n == maxSiblings {
				break
			}
			names = append(names, Unquote(c.name()))
		}
	}
	if KindOf(parent) == Array && n > 0 {
		names = append(names, "0.."+strconv.Itoa(n-1))
	}
	return names
}
