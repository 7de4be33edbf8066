package postgres

import "github.com/tierd/tierd/warm"

// narrow lets the server leave out documents that can not match: those whose
// projection does not contain what the filter says must be there. What comes
// through is matched in Go, which alone says what a filter means; so only
// terms are used that PostgreSQL decides the same way, and a document without
// a projection of its version always comes through.
func (sc *scan) narrow(f *warm.Filter) {
	if f == nil {
		return
	}
	for _, t := range required(f.Root) {
		sc.where += pick(sc.where == "", "", " AND ") + `(p.doc IS NULL OR p.version IS DISTINCT FROM h.version OR (p.doc #> ` + "\x00" + `::text[]) = ` + "\x00" + `::jsonb)`
		sc.args = append(sc.args, t.Path, string(t.Value))
	}
}

// required are the equalities that every match has: with a string, a boolean
// or null. Numbers are left to Go, for the size of what PostgreSQL makes of
// them.
func required(t *warm.FilterTerm) (out []*warm.FilterTerm) {
	switch t.Op {
	case warm.FilterAnd:
		for _, term := range t.Terms {
			out = append(out, required(term)...)
		}
	case warm.FilterEq:
		if len(t.Path) > 0 && len(t.Value) > 0 && (t.Value[0] == '"' || t.Value[0] == 't' || t.Value[0] == 'f' || t.Value[0] == 'n') {
			out = append(out, t)
		}
	}
	return out
}
