package server

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tierd/tierd/tiering"
)

// alsoByQuery marks an operation on a document in the OpenAPI document with its
// second form, where the id is in the query.
const alsoByQuery = "x-tierd-also"

const introduction = `tierd keeps the state of AI agents: documents with every version, over a hot, a warm and a cold tier.

**Ids.** An id is the rest of the path, slashes as they are; ` + "`%2F`" + ` and ` + "`/`" + ` are the same. A path with an empty, "." or ".." segment is refused.
Where an id is in the path, ` + "`?id=`" + ` is accepted in its place.

**Versions.** An ETag is the version in quotes. ` + "`If-Match: \"3\"`" + ` guards a write, ` + "`If-None-Match: *`" + ` creates, ` + "`If-Match: \"0\"`" + ` means absent.

**Retries.** A write with an Idempotency-Key happens once in 24 hours; a repeat answers the first result with ` + "`Idempotent-Replayed: true`" + `.
A key is the whole tenant's, whichever API key it comes with: the same key with another request is 422. A batch that is not atomic is replayed
operation by operation, and says so as a whole when every mutation in it was.

**Guards.** If-Match, If-None-Match, Idempotency-Key and Tierd-Fence are taken where they are listed, and refused (400 unsupported, which says what to use instead)
where they are not: nothing is written past a guard that was sent. Reads pass over an If-None-Match or an Idempotency-Key that they have no use for.

**Errors** are problem documents (RFC 9457) with a code; faults of a body carry JSON Pointers. Unknown query parameters and unknown fields are refused.
A method that a path does not have is 405, with Allow; a path that is none is 404.
What is no HTTP request, such as a path with a broken % escape, a request line that cannot be read or headers over the limit (431), is answered in plain text before it gets here.

**Lifetimes** are whole seconds, or 30m, 12h, 7d; none clears. A write without ttl keeps the expiry of what stands, a put too; a new key takes its namespace's.
In a namespace of class session writes and reads slide the expiry; a read answers the one from before its own slide.`

// describe builds the OpenAPI document from the table.
func describe(o Options, ops []*operation) *huma.OpenAPI {
	registry := huma.NewMapRegistry(schemaPrefix, huma.DefaultSchemaNamer)
	maps.Copy(registry.Map(), components())
	security := []map[string][]string{{"bearer": {}}, {"apiKey": {}}}
	if o.Authenticate == nil {
		security = append(security, map[string][]string{})
	}
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{Title: "tierd", Version: o.Version, Description: introduction,
			License: &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"}},
		Servers: []*huma.Server{{URL: "/", Description: "This server."}},
		Components: &huma.Components{
			Schemas: registry, Headers: componentHeaders(), Responses: componentProblems(),
			SecuritySchemes: map[string]*huma.SecurityScheme{
				"bearer": {Type: "http", Scheme: "bearer", Description: "An API key."},
				"apiKey": {Type: "apiKey", In: "header", Name: "X-API-Key", Description: "An API key, for clients that cannot set Authorization."},
			},
		},
		Security: security,
		Tags: []*huma.Tag{
			{Name: "documents", Description: "One JSON value under a key."},
			{Name: "history", Description: "Every version of a document, and where it lies."},
			{Name: "logs", Description: "Append-only sequences of entries."},
			{Name: "sessions", Description: "State, events, checkpoints, steps and a lease under one id and with one life."},
			{Name: "batch", Description: "Many operations in one request."},
			{Name: "watch", Description: "Changes as they happen."},
			{Name: "memories", Description: "Long-term memories: documents that are recalled by meaning and by words."},
			{Name: "namespaces", Description: "Named groups of keys with one policy."},
			{Name: "keys", Description: "API keys of the tenant."},
			{Name: "operations", Description: "Moves by hand, erasing, and what else an operator asks of a node."},
			{Name: "node", Description: "The node itself."},
		},
	}
	for _, op := range ops {
		doc.AddOperation(op.describe())
	}
	return doc
}

// openPath is the path as OpenAPI writes it.
func (o *operation) openPath() string { return strings.Replace(o.path, "{id...}", "{id}", 1) }

func (o *operation) describe() *huma.Operation {
	out := &huma.Operation{
		OperationID: o.id, Method: o.method, Path: o.openPath(), Tags: []string{o.tag},
		Summary: o.summary, Description: o.about, Responses: map[string]*huma.Response{},
	}
	if o.access == open {
		out.Security = []map[string][]string{}
	}
	if strings.Contains(o.path, "{ns}") {
		out.Parameters = append(out.Parameters, pathParam("ns", "The namespace.", "runs"))
	}
	if o.onDocument() {
		out.Parameters = append(out.Parameters, pathParam("id", "The document's id, which may hold slashes.", "run/7"))
		out.Extensions = map[string]any{alsoByQuery: o.method + " " + strings.TrimSuffix(o.path, idSuffix) + "?id="}
	} else if strings.Contains(o.path, "{id}") {
		out.Parameters = append(out.Parameters, pathParam("id", "The id.", "k_01JF"))
	}
	if strings.Contains(o.path, "{name}") {
		out.Parameters = append(out.Parameters, pathParam("name", "The name, without slashes.", "before-tool-call"))
	}
	for _, p := range o.query {
		out.Parameters = append(out.Parameters, p.describe("query"))
	}
	for _, p := range o.headers {
		out.Parameters = append(out.Parameters, p.describe("header"))
	}
	out.RequestBody = o.body.describe()
	for _, a := range o.answers {
		out.Responses[strconv.Itoa(a.status)] = a.describe()
	}
	for _, status := range o.problemStatuses() {
		out.Responses[strconv.Itoa(status)] = &huma.Response{Ref: "#/components/responses/" + problemName(status)}
	}
	return out
}

// problemStatuses are the statuses of the problems that the operation may
// answer: its own, and those that any may.
func (o *operation) problemStatuses() []int {
	set := map[int]bool{}
	add := func(codes ...tiering.Code) {
		for _, c := range codes {
			set[c.Status()] = true
		}
	}
	add(o.codes...)
	add(tiering.CodeInvalid)
	if o.access != open {
		add(tiering.CodeUnauthenticated, tiering.CodeForbidden)
	}
	if o.access == keyed {
		add(tiering.CodeRateLimited, tiering.CodeUnavailable, tiering.CodeCorrupt)
	}
	if o.id == "getReadiness" {
		add(tiering.CodeUnavailable)
	}
	if o.body != nil {
		add(tiering.CodeTooLarge)
		set[http.StatusRequestTimeout] = true
	}
	if o.body != nil || o.faults {
		set[http.StatusUnprocessableEntity] = true
	}
	return slices.Sorted(maps.Keys(set))
}

func pathParam(name, about string, example any) *huma.Param {
	return &huma.Param{Name: name, In: "path", Description: about, Required: true, Schema: str(), Example: example}
}

func (p param) describe(in string) *huma.Param {
	return &huma.Param{Name: p.name, In: in, Description: p.about, Required: p.required, Schema: p.schema, Example: p.example}
}

func (b *body) describe() *huma.RequestBody {
	if b == nil {
		return nil
	}
	out := &huma.RequestBody{Description: b.about, Required: !b.optional, Content: map[string]*huma.MediaType{}}
	for _, m := range b.media {
		out.Content[m.kind] = &huma.MediaType{Schema: m.schema, Example: m.example}
	}
	return out
}

func (a answer) describe() *huma.Response {
	out := &huma.Response{Description: a.about}
	for _, name := range a.headers {
		if out.Headers == nil {
			out.Headers = map[string]*huma.Param{}
		}
		out.Headers[name] = &huma.Param{Ref: "#/components/headers/" + name}
	}
	if a.media != nil {
		out.Content = map[string]*huma.MediaType{a.media.kind: {Schema: a.media.schema, Example: a.media.example}}
	}
	return out
}

func problemName(status int) string { return fmt.Sprintf("Problem%d", status) }

// componentProblems has one response per status that a problem may have.
func componentProblems() map[string]*huma.Response {
	codes := map[int][]string{
		http.StatusUnprocessableEntity: {string(tiering.CodeInvalid)},
		http.StatusRequestTimeout:      {string(tiering.CodeUnavailable)},
	}
	for _, c := range tiering.Codes() {
		codes[c.Status()] = append(codes[c.Status()], string(c))
	}
	out := map[string]*huma.Response{}
	for status, names := range codes {
		r := &huma.Response{
			Description: fmt.Sprintf("%s: %s.", http.StatusText(status), strings.Join(names, " or ")),
			Content: map[string]*huma.MediaType{problemType: {Schema: ref("Problem"), Example: map[string]any{
				"type": "urn:tierd:problem:" + names[0], "title": names[0], "status": status, "code": names[0], "detail": "what is wrong and what to do"}}},
		}
		r.Headers = map[string]*huma.Param{"Tierd-Code": {Ref: "#/components/headers/Tierd-Code"}}
		switch status {
		case http.StatusTooManyRequests, http.StatusServiceUnavailable:
			r.Headers["Retry-After"] = &huma.Param{Ref: "#/components/headers/Retry-After"}
		case http.StatusUnauthorized:
			r.Headers["WWW-Authenticate"] = &huma.Param{Ref: "#/components/headers/WWW-Authenticate"}
		}
		out[problemName(status)] = r
	}
	return out
}
