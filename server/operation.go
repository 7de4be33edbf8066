package server

import (
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tierd/tierd/tiering"
)

// operation is one row of the table that the mux, the checks and the OpenAPI
// document are built from.
type operation struct {
	id      string // the OpenAPI operation id
	method  string
	path    string // a ServeMux pattern's path; {id...} is the rest of it
	tag     string
	summary string
	about   string
	access  access
	query   []param // the only query parameters that are let through
	headers []param // request headers that mean something here; of guards the only ones that are let through
	instead string  // what to do in place of a guard that it does not take
	reads   bool    // it changes nothing, whatever its method
	body    *body
	answers []answer
	codes   []tiering.Code // of the problems special to it
	faults  bool           // it may answer 422, although it has no body
	run     func(*call) error
}

// access is who may call an operation.
type access int

const (
	keyed   access = iota // with a valid key, where there are keys
	open                  // anyone: it holds no tenant's data
	metered               // with a key of the admin verb, unless metrics are open
)

// param is a query parameter or a header.
type param struct {
	name     string
	about    string
	schema   *huma.Schema
	required bool
	example  any
}

// body is a request body. One with a component is validated against it; one
// without is passed on as bytes.
type body struct {
	about     string
	component string
	optional  bool
	most      int64 // bytes; the server's limit where that is more
	media     []media
}

// media is one content type with its schema and example.
type media struct {
	kind    string
	schema  *huma.Schema
	example any
}

// answer is one success.
type answer struct {
	status  int
	about   string
	headers []string // names of component headers
	media   *media
}

// idSuffix ends the path of an operation on one document.
const idSuffix = "/{id...}"

// onDocument reports whether the path ends in a document's id.
func (o *operation) onDocument() bool { return strings.HasSuffix(o.path, idSuffix) }

// knows reports whether the query parameter is one of the operation's.
func (o *operation) knows(name string) bool {
	for i := range o.query {
		if o.query[i].name == name {
			return true
		}
	}
	return name == "id" && o.onDocument()
}

// takes reports whether the header is one that the operation declares.
func (o *operation) takes(header string) bool {
	for i := range o.headers {
		if o.headers[i].name == header {
			return true
		}
	}
	return false
}

// queryNames lists the operation's query parameters for people.
func (o *operation) queryNames() string {
	var names []string
	for _, p := range o.query {
		names = append(names, p.name)
	}
	if o.onDocument() {
		names = append(names, "id (in place of the path's)")
	}
	if len(names) == 0 {
		return "it takes none"
	}
	return "it takes " + strings.Join(names, ", ")
}

// operations is the table.
func (s *Server) operations() []*operation {
	var all []*operation
	for _, part := range [][]*operation{
		documentOperations(), editOperations(), listOperations(), historyOperations(), logOperations(), sessionOperations(), careOperations(),
		operateOperations(), batchOperations(), s.watchOperations(), consumerOperations(), memoryOperations(), embeddingOperations(), namespaceOperations(), keyOperations(),
		s.nodeOperations(),
	} {
		all = append(all, part...)
	}
	return all
}

// route registers the table. An operation on a document is reachable by
// "?id=" too, on the path without its last part; where that path has an
// operation of its own, the presence of "id" chooses.
func (s *Server) route(ops []*operation) {
	plain := map[string]*operation{}
	byQuery := map[string]*operation{}
	for _, op := range ops {
		if op.onDocument() {
			s.mux.Handle(op.method+" "+op.path, s.serve(op))
			s.direct.add(op)
			byQuery[op.method+" "+strings.TrimSuffix(op.path, idSuffix)] = op
			continue
		}
		plain[op.method+" "+op.path] = op
	}
	for pattern, op := range plain {
		if doc := byQuery[pattern]; doc != nil {
			s.mux.Handle(pattern, choose(s.serve(doc), s.serve(op)))
			delete(byQuery, pattern)
			continue
		}
		s.mux.Handle(pattern, s.serve(op))
	}
	for pattern, op := range byQuery {
		s.mux.Handle(pattern, s.serve(op))
	}
	s.mux.HandleFunc("/", s.noRoute)
}

// choose calls doc for a request with an id in its query, else other.
func choose(doc, other http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.RawQuery, "id=") && r.URL.Query().Has("id") {
			doc.ServeHTTP(w, r)
			return
		}
		other.ServeHTTP(w, r)
	})
}

// methods are what the API answers to, in the order of the Allow header.
var methods = [...]string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPatch, http.MethodPost, http.MethodDelete}

// noRoute answers what no operation matched: 405 with Allow where another
// method would have, else 404.
func (s *Server) noRoute(w http.ResponseWriter, r *http.Request) {
	var allow []string
	probe := *r
	for _, m := range methods {
		probe.Method = m
		if _, pattern := s.mux.Handler(&probe); pattern != "/" && pattern != "" {
			allow = append(allow, m)
		}
	}
	if len(allow) == 0 {
		s.refuse(w, r, tiering.Errorf(tiering.CodeNotFound, "no such route: %s; see /openapi.json", r.URL.Path))
		return
	}
	w.Header().Set("Allow", strings.Join(allow, ", "))
	s.refuse(w, r, &statusError{status: http.StatusMethodNotAllowed,
		err: tiering.Errorf(tiering.CodeUnsupported, "%s is not allowed here: use %s", r.Method, strings.Join(allow, ", "))})
}
