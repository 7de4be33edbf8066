package server

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/internal/jsondoc"
	"github.com/tierd/tierd/tiering"
)

func schemaOf(t testing.TB, component string) *bodySchema {
	t.Helper()
	s := newTest(t, newFake(), nil).bodies[component]
	if s == nil {
		t.Fatalf("no schema for %s", component)
	}
	return s
}

// What a document holds is no business of the validator: names that a schema
// knows, numbers beyond its limits and any depth pass.
func TestDocumentsInsideABodyAreNotJudged(t *testing.T) {
	s := schemaOf(t, "Batch")
	for _, data := range []string{`{"op":7,"nope":null}`, `1e400000000`, `[[[[]]]]`, `"` + strings.Repeat("x", 1000) + `"`, `null`, `true`} {
		body := `{"ops":[{"op":"put","namespace":"n","id":"i","data":` + data + `}]}`
		var req batchRequest
		if err := s.decode([]byte(body), &req); err != nil {
			t.Errorf("data %.40s: %v", data, err)
			continue
		}
		if got := string(req.Ops[0].Data); got != data && data != "null" {
			t.Errorf("data %.40s arrived as %.40s", data, got)
		}
	}
}

func TestBodiesAreStrict(t *testing.T) {
	s := schemaOf(t, "EditRequest")
	deep := strings.Repeat(`[`, 20000) + strings.Repeat(`]`, 20000)
	for _, c := range []struct {
		name, body string
		status     int
		pointer    string
	}{
		{"invalid UTF-8", "{\"ops\":[{\"op\":\"set\",\"pointer\":\"/\xff\"}]}", 400, "/ops/0/pointer"},
		{"invalid UTF-8 inside a document", "{\"ops\":[{\"op\":\"set\",\"pointer\":\"/a\",\"value\":\"\xff\"}]}", 400, "/ops/0/value"},
		{"a name in another case", `{"OPS":[]}`, 422, ""},
		{"a field that is null", `{"ops":[{"op":"set","pointer":"/a"}],"if_version":null}`, 422, "/if_version"},
		{"a version that is no integer", `{"ops":[{"op":"set","pointer":"/a"}],"if_version":1.5}`, 422, "/if_version"},
		{"a version beyond int64", `{"ops":[{"op":"set","pointer":"/a"}],"if_version":9223372036854775808}`, 422, "/if_version"},
		{"a version with a fraction of nothing", `{"ops":[{"op":"set","pointer":"/a"}],"if_version":1.0}`, 422, "/if_version"},
		{"a version with an exponent", `{"ops":[{"op":"set","pointer":"/a"}],"if_version":1e2}`, 422, "/if_version"},
		{"an exponent that would fill memory", `{"ops":[{"op":"set","pointer":"/a"}],"if_version":1e999999999}`, 422, "/if_version"},
		{"a number without end", `{"ops":[],"if_version":` + strings.Repeat("1", 500) + `}`, 422, "/if_version"},
		{"a document too deep for any reader", `{"ops":[{"op":"set","pointer":"/a","value":` + deep + `}]}`, 400, ""},
		{"a pointer with its characters escaped", `{"ops":[{"op":"set","pointer":"/a","x/y~z":1}]}`, 422, "/ops/0/x~1y~0z"},
		{"only space", " \n", 400, ""},
		{"a byte order mark", "\ufeff{}", 400, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			start := time.Now()
			err := s.decode([]byte(c.body), &editRequest{})
			var e *tiering.Error
			if !errors.As(err, &e) || e.Code != tiering.CodeInvalid || e.Status() != c.status {
				t.Fatalf("%v, want invalid with %d", err, c.status)
			}
			for _, word := range []string{"json:", "Go ", "int64", "unmarshal"} {
				if strings.Contains(e.Detail, word) {
					t.Errorf("the detail is about code: %s", e.Detail)
				}
			}
			if c.pointer != "" && e.Pointer != c.pointer {
				t.Errorf("pointer %q, want %q", e.Pointer, c.pointer)
			}
			if took := time.Since(start); took > 2*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
}

func TestFaultsAreBounded(t *testing.T) {
	ops := strings.TrimSuffix(strings.Repeat(`{"op":1},`, tiering.MaxBatchOps), ",")
	err := schemaOf(t, "Batch").check([]byte(`{"ops":[` + ops + `]}`))
	var e *tiering.Error
	if !errors.As(err, &e) || len(e.Faults) < maxFaults || len(e.Faults) > maxFaults+10 {
		t.Errorf("%d faults", len(e.Faults))
	}
}

func TestTooManyOperations(t *testing.T) {
	op := `{"op":"get","namespace":"n","id":"i"},`
	s := schemaOf(t, "Batch")
	if err := s.check([]byte(`{"ops":[` + strings.TrimSuffix(strings.Repeat(op, tiering.MaxBatchOps), ",") + `]}`)); err != nil {
		t.Errorf("the largest batch: %v", err)
	}
	if err := s.check([]byte(`{"ops":[` + strings.TrimSuffix(strings.Repeat(op, tiering.MaxBatchOps+1), ",") + `]}`)); tiering.CodeOf(err) != tiering.CodeInvalid {
		t.Errorf("one operation more: %v", err)
	}
}

// The description, the validator and what runs the edit know one bound.
func TestTooManyEditOperations(t *testing.T) {
	s := schemaOf(t, "EditRequest")
	for n, want := range map[int]tiering.Code{tiering.MaxEditOps: "", tiering.MaxEditOps + 1: tiering.CodeInvalid} {
		ops := strings.TrimSuffix(strings.Repeat(`{"op":"set","pointer":"/a","value":1},`, n), ",")
		var req editRequest
		if err := s.decode([]byte(`{"ops":[`+ops+`]}`), &req); tiering.CodeOf(err) != want {
			t.Errorf("%d operations: %v", n, err)
		}
		if err := json.Unmarshal([]byte(`[`+ops+`]`), &req.Ops); err != nil {
			t.Fatal(err)
		}
		if err := jsondoc.ValidateEdit(req.Ops); tiering.CodeOf(err) != want {
			t.Errorf("%d operations are run with %v", n, err)
		}
	}
}

// A key without limits is asked for by leaving them out.
func TestEmptyLimitsOfAKeyAreRefused(t *testing.T) {
	s := schemaOf(t, "KeyRequest")
	for field, value := range map[string]string{"verbs": `[]`, "namespaces": `[]`, "prefixes": `[]`, "user": `""`} {
		err := s.check([]byte(`{"scope":{"` + field + `":` + value + `}}`))
		if p := tiering.ProblemOf(err); p.Status != 422 || p.Pointer != "/scope/"+field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if err := s.check([]byte(`{"scope":{}}`)); err != nil {
		t.Error(err)
	}
}

// Every body that the schema lets through must be readable by the code.
func FuzzBatchBody(f *testing.F) {
	s := schemaOf(f, "Batch")
	f.Add([]byte(`{"atomic":true,"ops":[{"op":"put","namespace":"n","id":"i","data":{"a":[1.10,"\u0000"]},"ttl":60,"if_version":0}]}`))
	f.Add([]byte(`{"ops":[{"op":"edit","namespace":"n","id":"i","ops":[{"op":"increment","pointer":"/a","by":1e2}],"ttl":"7d"}]}`))
	f.Add([]byte(`{"ops":[{"op":"get","namespace":"n","id":"i","if_version":1e2}]} `))
	f.Fuzz(func(t *testing.T, b []byte) {
		var req batchRequest
		err := s.decode(b, &req)
		if err == nil {
			if !json.Valid(b) {
				t.Fatalf("accepted what is not JSON: %q", b)
			}
			return
		}
		var e *tiering.Error
		if !errors.As(err, &e) || e.Code != tiering.CodeInvalid {
			t.Fatalf("%q: %v", b, err)
		}
	})
}
