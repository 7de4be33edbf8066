package postgres

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/tierd/tierd/internal/jsondoc"
	"github.com/tierd/tierd/warm"
)

// maxContains bounds the containments that one look into an index asks for.
const maxContains = 64

// contains is what a document has to contain to match a filter: a value of its
// own shape, or all or any of others. The zero value asks for nothing. What
// contains it may match all the same: jsonb's @> is wider than every term.
type contains struct {
	value string // JSON
	any   bool   // of parts; else all
	parts []contains
}

func (c *contains) nothing() bool { return c.value == "" && len(c.parts) == 0 }

func (c *contains) size() int {
	n := len(c.value[:min(len(c.value), 1)])
	for i := range c.parts {
		n += c.parts[i].size()
	}
	return n
}

// containsOf translates what of a term an index of paths and values can tell.
func containsOf(t *warm.FilterTerm) contains {
	switch t.Op {
	case warm.FilterAnd:
		var out contains
		for _, term := range t.Terms {
			if c := containsOf(term); !c.nothing() && out.size()+c.size() <= maxContains {
				out.parts = append(out.parts, c)
			}
		}
		return out
	case warm.FilterOr:
		out := contains{any: true}
		for _, term := range t.Terms {
			out.parts = append(out.parts, containsOf(term))
		}
		return whole(out)
	case warm.FilterEq:
		return at(t.Path, t.Value)
	case warm.FilterIn:
		out := contains{any: true}
		for element := range jsondoc.Elements(t.Value) {
			out.parts = append(out.parts, at(t.Path, element))
		}
		return whole(out)
	case warm.FilterContains:
		element := at(t.Path, append(append([]byte{'['}, t.Value...), ']'))
		switch jsondoc.KindOf(t.Value) {
		case jsondoc.String: // also a part of a string, which no index finds
			return contains{}
		case jsondoc.Object:
			return whole(contains{any: true, parts: []contains{element, at(t.Path, t.Value)}})
		}
		return element
	}
	return contains{}
}

// whole is an alternative of which every part can be told, or nothing.
func whole(c contains) contains {
	for i := range c.parts {
		if c.parts[i].nothing() {
			return contains{}
		}
	}
	if c.size() > maxContains {
		return contains{}
	}
	return c
}

// at is value under a path of names. A name that may count into an array asks
// for nothing, and so does a value without a scalar: the index has no entry
// for it.
func at(path []string, value []byte) contains {
	if !hasScalar(value) {
		return contains{}
	}
	var open, end strings.Builder
	for _, name := range path {
		if _, err := strconv.ParseUint(name, 10, 64); err == nil {
			return contains{}
		}
		quoted, err := json.Marshal(name)
		if err != nil {
			return contains{}
		}
		open.WriteByte('{')
		open.Write(quoted)
		open.WriteByte(':')
		end.WriteByte('}')
	}
	return contains{value: open.String() + string(value) + end.String()}
}

func hasScalar(value []byte) bool {
	switch jsondoc.KindOf(value) {
	case jsondoc.Array:
		for element := range jsondoc.Elements(value) {
			if hasScalar(element) {
				return true
			}
		}
		return false
	case jsondoc.Object:
		for _, member := range jsondoc.Members(value) {
			if hasScalar(member) {
				return true
			}
		}
		return false
	}
	return true
}

// sql writes the condition. arg takes an argument and names it.
func (c *contains) sql(arg func(any) string) string {
	if c.value != "" {
		return indexedDoc + ` @> ` + arg(c.value) + `::text::jsonb`
	}
	parts := make([]string, len(c.parts))
	for i := range c.parts {
		parts[i] = c.parts[i].sql(arg)
	}
	return "(" + strings.Join(parts, pick(c.any, " OR ", " AND ")) + ")"
}
