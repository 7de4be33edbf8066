package server

import "strings"

// directory finds the operations on one document, which are nearly all requests, by
// the only form that their paths have: /v1/WORD/{ns}/{id...}. The mux, which knows them
// too, walks its tree twice for a pattern that takes the rest of a path, and allocates at
// each step.
type directory map[place]*operation

// place is where an operation on a document stands.
type place struct{ method, word string }

const versionPrefix = "/v1/"

// add takes in op if its path has the form.
func (d directory) add(op *operation) {
	word, ok := strings.CutSuffix(op.path, "/{ns}"+idSuffix)
	word, begins := strings.CutPrefix(word, versionPrefix)
	if ok && begins && !strings.Contains(word, "/") {
		d[place{op.method, word}] = op
	}
}

// find returns the operation for a path that checkPath let through, and the path's
// namespace and id; nil where the mux has to look.
func (d directory) find(method, path string) (op *operation, ns, id string) {
	rest, ok := strings.CutPrefix(path, versionPrefix)
	if !ok {
		return nil, "", ""
	}
	word, rest, _ := strings.Cut(rest, "/")
	ns, id, ok = strings.Cut(rest, "/")
	if !ok {
		return nil, "", ""
	}
	return d[place{method, word}], ns, id
}
