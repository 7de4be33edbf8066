package server

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/tierd/tierd/tiering"
)

func withMetrics(o *Options) { o.Metrics = http.NotFoundHandler() }

// spec is the document as a caller sees it.
func spec(t *testing.T) (map[string]any, *Server) {
	t.Helper()
	s := newTest(t, newFake(), withMetrics)
	var doc map[string]any
	if err := json.Unmarshal([]byte(bodyOf(t, exchange(s.Handler(), "GET /openapi.json"))), &doc); err != nil {
		t.Fatal(err)
	}
	return doc, s
}

// eachOperation calls visit for every operation of the document.
func eachOperation(doc map[string]any, visit func(method, path string, op map[string]any)) {
	for path, item := range doc["paths"].(map[string]any) {
		for method, op := range item.(map[string]any) {
			visit(strings.ToUpper(method), path, op.(map[string]any))
		}
	}
}

// The document names every route of the mux, and the mux answers every
// operation of the document, by the operation that the document means.
func TestTheDocumentAndTheMuxAgree(t *testing.T) {
	doc, s := spec(t)
	documented := map[string]bool{}
	templates := map[string]bool{} // an id may be the word that another path has in its place
	eachOperation(doc, func(method, path string, op map[string]any) {
		templates[method+" "+path] = true
		documented[method+" "+strings.NewReplacer("{ns}", "runs", "{id}", "a").Replace(path)] = true
		if also, ok := op[alsoByQuery].(string); ok {
			form, _, _ := strings.Cut(also, "?")
			documented[strings.Replace(form, "{ns}", "runs", 1)] = true
		}
	})
	served := map[string]bool{}
	tried := map[string]bool{}
	for route := range documented {
		_, path, _ := strings.Cut(route, " ")
		if tried[path] {
			continue
		}
		tried[path] = true
		for _, method := range append(methods[:], http.MethodOptions, http.MethodTrace) {
			if _, pattern := s.mux.Handler(httptest.NewRequest(method, path, nil)); pattern != "/" && (documented[method+" "+path] || !templates[pattern]) {
				served[method+" "+path] = true
			}
		}
	}
	for route := range documented {
		if !served[route] {
			t.Errorf("documented and not served: %s", route)
		}
	}
	for route := range served {
		// HEAD comes with every GET, as HTTP has it.
		if !documented[route] && !documented[strings.Replace(route, "HEAD ", "GET ", 1)] {
			t.Errorf("served and not documented: %s", route)
		}
	}
}

var pathName = regexp.MustCompile(`\{(\w+)\}`)

func TestEveryOperationIsDescribed(t *testing.T) {
	doc, _ := spec(t)
	if doc["openapi"] != "3.1.0" {
		t.Errorf("openapi %v", doc["openapi"])
	}
	tags := map[string]bool{}
	for _, tag := range doc["tags"].([]any) {
		tags[tag.(map[string]any)["name"].(string)] = true
	}
	ids := map[string]bool{}
	eachOperation(doc, func(method, path string, op map[string]any) {
		where := method + " " + path
		id, _ := op["operationId"].(string)
		if id == "" || ids[id] {
			t.Errorf("%s: operationId %q is empty or taken", where, id)
		}
		ids[id] = true
		for _, key := range []string{"summary", "description"} {
			if s, _ := op[key].(string); s == "" {
				t.Errorf("%s: no %s", where, key)
			}
		}
		for _, tag := range op["tags"].([]any) {
			if !tags[tag.(string)] {
				t.Errorf("%s: tag %v is not declared", where, tag)
			}
		}
		declared := map[string]bool{}
		params, _ := op["parameters"].([]any)
		for _, p := range params {
			p := p.(map[string]any)
			key := p["in"].(string) + " " + p["name"].(string)
			if declared[key] {
				t.Errorf("%s: %s twice", where, key)
			}
			declared[key] = true
			if p["description"] == nil || p["schema"] == nil || p["example"] == nil {
				t.Errorf("%s: %s without description, schema or example", where, key)
			}
			if p["in"] == "path" && p["required"] != true {
				t.Errorf("%s: %s is not required", where, key)
			}
		}
		for _, m := range pathName.FindAllStringSubmatch(path, -1) {
			if !declared["path "+m[1]] {
				t.Errorf("%s: {%s} is not declared", where, m[1])
			}
		}
		success, problem := false, false
		for status := range op["responses"].(map[string]any) {
			success = success || status[0] == '2'
			problem = problem || status[0] == '4'
		}
		if !success || !problem {
			t.Errorf("%s: responses %v", where, op["responses"])
		}
	})
}

// walk calls visit for every object of the document.
func walk(v any, at string, visit func(at string, o map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		visit(at, v)
		for k, e := range v {
			walk(e, at+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(k), visit)
		}
	case []any:
		for _, e := range v {
			walk(e, at+"/-", visit)
		}
	}
}

func TestEveryReferenceResolvesAndEveryComponentIsUsed(t *testing.T) {
	doc, _ := spec(t)
	used := map[string]bool{}
	walk(doc, "", func(at string, o map[string]any) {
		target, ok := o["$ref"].(string)
		if !ok {
			return
		}
		used[target] = true
		var v any = doc
		for name := range strings.SplitSeq(strings.TrimPrefix(target, "#/"), "/") {
			m, _ := v.(map[string]any)
			v = m[name]
		}
		if v == nil {
			t.Errorf("%s: $ref %s leads nowhere", at, target)
		}
	})
	for _, kind := range []string{"schemas", "headers", "responses"} {
		for name := range doc["components"].(map[string]any)[kind].(map[string]any) {
			if target := "#/components/" + kind + "/" + name; !used[target] && name != "Problem507" {
				t.Errorf("%s is used nowhere", target)
			}
		}
	}
}

// Examples are what people copy: each must pass the schema beside it.
func TestExamplesPassTheirSchemas(t *testing.T) {
	_, s := spec(t)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(s.openapi))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	if err := compiler.AddResource("urn:spec", doc); err != nil {
		t.Fatal(err)
	}
	checked := 0
	walk(doc, "", func(at string, o map[string]any) {
		example, ok := o["example"]
		if !ok || o["schema"] == nil || strings.Contains(at, "/-") {
			return
		}
		sch, err := compiler.Compile("urn:spec#" + at + "/schema")
		if err != nil {
			t.Errorf("%s: %v", at, err)
			return
		}
		checked++
		if err := sch.Validate(example); err != nil {
			t.Errorf("%s: %v", at, err)
		}
	})
	if checked < 40 {
		t.Errorf("only %d examples were checked", checked)
	}
}

// The schemas of answers and bodies say what the types of package tiering say.
func TestSchemasFollowTheTypes(t *testing.T) {
	schemas := components()
	for name, typ := range map[string]reflect.Type{
		"EditOp": reflect.TypeFor[tiering.EditOp](), "EditRequest": reflect.TypeFor[editRequest](),
		"Query": reflect.TypeFor[tiering.Query](), "Batch": reflect.TypeFor[tiering.Batch](), "BatchOp": reflect.TypeFor[tiering.BatchOp](),
		"Scope": reflect.TypeFor[tiering.Scope](), "Receipt": reflect.TypeFor[tiering.Receipt](), "Edited": reflect.TypeFor[tiering.Edited](),
		"Document": reflect.TypeFor[tiering.Document](), "Item": reflect.TypeFor[tiering.Item](), "Page": reflect.TypeFor[tiering.Page](),
		"VersionInfo": reflect.TypeFor[tiering.VersionInfo](), "History": reflect.TypeFor[tiering.History](),
		"CopyPlace": reflect.TypeFor[tiering.CopyPlace](), "Action": reflect.TypeFor[tiering.Action](),
		"Explanation": reflect.TypeFor[tiering.Explanation](), "OpResult": reflect.TypeFor[tiering.OpResult](),
		"BatchResult": reflect.TypeFor[tiering.BatchResult](), "Event": reflect.TypeFor[tiering.Event](),
		"NamespaceInfo": reflect.TypeFor[tiering.NamespaceInfo](), "APIKey": reflect.TypeFor[tiering.APIKey](),
		"Fault": reflect.TypeFor[tiering.Fault](), "Problem": reflect.TypeFor[tiering.Problem](),
		"TierStatus": reflect.TypeFor[tiering.TierStatus](), "FeedStatus": reflect.TypeFor[tiering.FeedStatus](),
		"ArchiveStatus": reflect.TypeFor[tiering.ArchiveStatus](), "ParkedMove": reflect.TypeFor[tiering.ParkedMove](),
		"NodeStatus": reflect.TypeFor[tiering.NodeStatus](), "EraseRequest": reflect.TypeFor[tiering.EraseRequest](),
		"EraseReceipt": reflect.TypeFor[tiering.EraseReceipt](), "Consumer": reflect.TypeFor[tiering.Consumer](),
	} {
		var have []string
		for p := range schemas[name].Properties {
			have = append(have, p)
		}
		sort.Strings(have)
		always, all := fieldsOf(typ)
		if !slices.Equal(have, all) {
			t.Errorf("%s has %v, the type has %v", name, have, all)
		}
		for _, r := range schemas[name].Required {
			if !slices.Contains(always, r) {
				t.Errorf("%s requires %s, which the type may leave out", name, r)
			}
		}
	}
	// A caller may not say that a policy's namespace was deleted.
	_, policy := fieldsOf(reflect.TypeFor[tiering.Policy]())
	for _, name := range []string{"Policy", "PolicyPatch"} {
		if len(schemas[name].Properties) != len(policy)-1 || schemas[name].Properties["deleted"] != nil {
			t.Errorf("%s has %d properties, the type %d", name, len(schemas[name].Properties), len(policy))
		}
	}
}

// fieldsOf returns the JSON names of a type: those always there, and all.
func fieldsOf(t reflect.Type) (always, all []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		if f.Anonymous && tag == "" {
			a, b := fieldsOf(f.Type)
			always, all = append(always, a...), append(all, b...)
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if name == "-" || name == "" {
			continue
		}
		all = append(all, name)
		if !strings.Contains(options, "omit") {
			always = append(always, name)
		}
	}
	sort.Strings(all)
	return always, all
}

func TestTheDocumentSaysWhetherKeysAreNeeded(t *testing.T) {
	open := newTest(t, newFake(), nil)
	closed := newTest(t, newFake(), func(o *Options) { o.Authenticate = keyring })
	if free := []byte(`"security":[{"bearer":[]},{"apiKey":[]},{}]`); !bytes.Contains(open.openapi, free) || bytes.Contains(closed.openapi, free) {
		t.Error("the empty requirement must stand where there are no keys, and only there")
	}
}

func TestDocsNeedNoOtherHost(t *testing.T) {
	h := newTest(t, newFake(), nil).Handler()
	r := exchange(h, "GET /docs")
	page := bodyOf(t, r)
	if !strings.Contains(page, docsScript) || strings.Contains(page, "//") && strings.Contains(page, "https:") {
		t.Errorf("the page: %s", page)
	}
	if got := r.Header.Get("Content-Security-Policy"); !strings.HasPrefix(got, "default-src 'self';") {
		t.Errorf("policy %q", got)
	}
	zipped := exchange(h, "GET "+docsScript+"\nAccept-Encoding: br, gzip")
	plain := exchange(h, "GET "+docsScript)
	if zipped.Header.Get("Content-Encoding") != "gzip" || plain.Header.Get("Content-Encoding") != "" {
		t.Error("the script's encodings are wrong")
	}
	if b := bodyOf(t, plain); !strings.Contains(b, "Redoc") || len(b) < 500_000 {
		t.Errorf("the script has %d bytes", len(b))
	}
}
