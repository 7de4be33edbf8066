package warm

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/tierd/tierd/internal/jsondoc"
	"github.com/tierd/tierd/tiering"
)

// The bounds of a filter.
const (
	MaxFilterDepth = 32   // nested $and, $or and $not
	MaxFilterTerms = 256  // comparisons and combinations together
	MaxFilterIn    = 1000 // values of one $in
)

// FilterOp is an operator of a filter.
type FilterOp string

// The operators. The first three combine terms; the others look at one place
// of a document.
const (
	FilterAnd      FilterOp = "$and"
	FilterOr       FilterOp = "$or"
	FilterNot      FilterOp = "$not"
	FilterEq       FilterOp = "$eq"
	FilterNe       FilterOp = "$ne"
	FilterGt       FilterOp = "$gt"
	FilterGte      FilterOp = "$gte"
	FilterLt       FilterOp = "$lt"
	FilterLte      FilterOp = "$lte"
	FilterIn       FilterOp = "$in"
	FilterExists   FilterOp = "$exists"
	FilterContains FilterOp = "$contains"
	FilterText     FilterOp = "$text"
)

// Filter is a parsed filter, safe for concurrent use. The nil Filter matches
// every document.
type Filter struct {
	// Root is the tree that Match evaluates, for drivers that translate it.
	// It is shared: do not change it.
	Root *FilterTerm

	source string
}

// FilterTerm is one node of a filter.
type FilterTerm struct {
	Op FilterOp
	// Terms are what $and, $or and $not combine: any number for $and (none is
	// true), at least one for $or, exactly one for $not.
	Terms []*FilterTerm
	// Path is the place that the other operators look at, a parsed JSON
	// Pointer; nil is the whole document. NUL is replaced by U+FFFD.
	Path []string
	// Value is the operand as compacted JSON, NUL replaced by U+FFFD: an array
	// for $in, a boolean for $exists, a string for $text.
	Value json.RawMessage

	elements [][]byte // $in
	text     string   // $contains: the operand when it is a string
	words    []string // $text: folded, each once
}

// String returns the filter as compacted JSON, "" for the nil Filter.
func (f *Filter) String() string {
	if f == nil {
		return ""
	}
	return f.source
}

// ParseFilter parses a filter such as
//
//	{"/user/age": {"$gte": 18}, "status": "open", "$or": [{"a": 1}, {"b": {"$exists": true}}]}
//
// A name that starts with a slash is a JSON Pointer, "" is the whole document,
// and any other name is that member of the document. The members of an object
// must all hold. A bare value means $eq. $not takes a filter or, among the
// operators of one place, an object of operators. No bytes, null and {} give
// the nil Filter. Errors are invalid (400) with the pointer to the place in
// filter; what Compact refuses keeps its own status.
func ParseFilter(filter []byte) (*Filter, error) { return parseFilter(filter, nil) }

// ParseFilterOf is ParseFilter where a name that is no pointer is a member of
// the document's own member of that name, such as its metadata.
func ParseFilterOf(filter []byte, member string) (*Filter, error) {
	return parseFilter(filter, jsondoc.Pointer{member})
}

func parseFilter(filter []byte, names jsondoc.Pointer) (*Filter, error) {
	if len(filter) == 0 {
		return nil, nil
	}
	compacted, err := jsondoc.Compact(filter)
	if err != nil {
		return nil, err
	}
	if string(compacted) == "null" || string(compacted) == "{}" {
		return nil, nil
	}
	p := filterParser{names: names}
	root, err := p.filter(jsondoc.WithoutNUL(compacted), nil, 1)
	if err != nil {
		return nil, err
	}
	return &Filter{Root: root, source: string(compacted)}, nil
}

// filterParser counts the terms of one filter. What its methods call at is
// where in the filter they are.
type filterParser struct {
	terms int
	names jsondoc.Pointer // where bare names begin
}

func (p *filterParser) term(t FilterTerm, at jsondoc.Pointer) (*FilterTerm, error) {
	if p.terms++; p.terms > MaxFilterTerms {
		return nil, filterError(at, "a filter has at most %d terms", MaxFilterTerms)
	}
	return &t, nil
}

// all returns the term that holds when all of terms do.
func (p *filterParser) all(terms []*FilterTerm, at jsondoc.Pointer) (*FilterTerm, error) {
	if len(terms) == 1 {
		return terms[0], nil
	}
	return p.term(FilterTerm{Op: FilterAnd, Terms: terms}, at)
}

// filter parses an object of places and combinations.
func (p *filterParser) filter(value []byte, at jsondoc.Pointer, depth int) (*FilterTerm, error) {
	if kind := jsondoc.KindOf(value); kind != jsondoc.Object {
		return nil, filterError(at, "a filter is an object, not %s", kind)
	}
	if depth > MaxFilterDepth {
		return nil, filterError(at, "a filter nests at most %d levels", MaxFilterDepth)
	}
	var terms []*FilterTerm
	for quoted, operand := range jsondoc.Members(value) {
		name := jsondoc.Unquote(quoted)
		here := below(at, name)
		var t *FilterTerm
		var err error
		switch {
		case name == string(FilterAnd) || name == string(FilterOr):
			t, err = p.list(FilterOp(name), operand, here, depth+1)
		case name == string(FilterNot):
			if t, err = p.filter(operand, here, depth+1); err == nil {
				t, err = p.term(FilterTerm{Op: FilterNot, Terms: []*FilterTerm{t}}, here)
			}
		case strings.HasPrefix(name, "$"):
			err = filterError(here, "unknown operator %q: use $and, $or, $not, or a place (one whose name starts with $ as a pointer, /%s)", name, name)
		default:
			t, err = p.place(name, operand, here, depth)
		}
		if err != nil {
			return nil, err
		}
		terms = append(terms, t)
	}
	return p.all(terms, at)
}

// list parses the operand of $and and $or.
func (p *filterParser) list(op FilterOp, operand []byte, at jsondoc.Pointer, depth int) (*FilterTerm, error) {
	if kind := jsondoc.KindOf(operand); kind != jsondoc.Array {
		return nil, filterError(at, "%s takes an array of filters, not %s", op, kind)
	}
	var terms []*FilterTerm
	for element := range jsondoc.Elements(operand) {
		t, err := p.filter(element, below(at, strconv.Itoa(len(terms))), depth)
		if err != nil {
			return nil, err
		}
		terms = append(terms, t)
	}
	if len(terms) == 0 {
		return nil, filterError(at, "%s takes at least one filter", op)
	}
	return p.term(FilterTerm{Op: op, Terms: terms}, at)
}

// place parses what a name or pointer is compared with.
func (p *filterParser) place(name string, operand []byte, at jsondoc.Pointer, depth int) (*FilterTerm, error) {
	path := append(slices.Clone(p.names), name)
	if name == "" || name[0] == '/' {
		var err error
		if path, err = jsondoc.ParsePointer(name); err != nil {
			return nil, filterError(at, "write ~0 for a tilde and ~1 for a slash inside a name of a pointer")
		}
	}
	if !hasOperators(operand) {
		return p.comparison(FilterEq, path, operand, at)
	}
	return p.comparisons(path, operand, at, depth)
}

// hasOperators reports whether value is an object with a name that starts
// with $.
func hasOperators(value []byte) bool {
	if jsondoc.KindOf(value) != jsondoc.Object {
		return false
	}
	for name := range jsondoc.Members(value) {
		if strings.HasPrefix(jsondoc.Unquote(name), "$") {
			return true
		}
	}
	return false
}

// comparisons parses an object of operators for one place.
func (p *filterParser) comparisons(path jsondoc.Pointer, value []byte, at jsondoc.Pointer, depth int) (*FilterTerm, error) {
	if !hasOperators(value) {
		return nil, filterError(at, "want an object of operators such as {\"$gt\": 1}")
	}
	if depth > MaxFilterDepth {
		return nil, filterError(at, "a filter nests at most %d levels", MaxFilterDepth)
	}
	var terms []*FilterTerm
	for quoted, operand := range jsondoc.Members(value) {
		name := jsondoc.Unquote(quoted)
		here := below(at, name)
		var t *FilterTerm
		var err error
		if name == string(FilterNot) {
			if t, err = p.comparisons(path, operand, here, depth+1); err == nil {
				t, err = p.term(FilterTerm{Op: FilterNot, Terms: []*FilterTerm{t}}, here)
			}
		} else {
			t, err = p.comparison(FilterOp(name), path, operand, here)
		}
		if err != nil {
			return nil, err
		}
		terms = append(terms, t)
	}
	return p.all(terms, at)
}

// comparison checks the operand of one operator and prepares it for Match.
func (p *filterParser) comparison(op FilterOp, path jsondoc.Pointer, operand []byte, at jsondoc.Pointer) (*FilterTerm, error) {
	t := FilterTerm{Op: op, Path: path, Value: operand}
	kind := jsondoc.KindOf(operand)
	switch op {
	case FilterEq, FilterNe:
	case FilterGt, FilterGte, FilterLt, FilterLte:
		if kind != jsondoc.Number && kind != jsondoc.String && kind != jsondoc.Bool {
			return nil, filterError(at, "%s takes a number, a string or a boolean, not %s", op, kind)
		}
	case FilterIn:
		if kind != jsondoc.Array {
			return nil, filterError(at, "$in takes an array, not %s", kind)
		}
		for element := range jsondoc.Elements(operand) {
			if t.elements = append(t.elements, element); len(t.elements) > MaxFilterIn {
				return nil, filterError(at, "$in takes at most %d values", MaxFilterIn)
			}
		}
	case FilterExists:
		if kind != jsondoc.Bool {
			return nil, filterError(at, "$exists takes true or false, not %s", kind)
		}
	case FilterContains:
		if kind == jsondoc.String {
			t.text = jsondoc.Unquote(operand)
		}
	case FilterText:
		if kind != jsondoc.String {
			return nil, filterError(at, "$text takes a string, not %s", kind)
		}
		if t.words = distinctWords(jsondoc.Unquote(operand)); len(t.words) == 0 {
			return nil, filterError(at, "$text takes at least one word")
		}
	default:
		return nil, filterError(at, "unknown operator %q: use $eq, $ne, $gt, $gte, $lt, $lte, $in, $exists, $contains, $text or $not", string(op))
	}
	return p.term(t, at)
}

func filterError(at jsondoc.Pointer, format string, args ...any) error {
	e := tiering.Invalidf(format, args...)
	e.Pointer = at.String()
	return e
}

// below returns the pointer to a child, without sharing at's memory.
func below(at jsondoc.Pointer, token string) jsondoc.Pointer {
	return append(slices.Clip(at), token)
}
