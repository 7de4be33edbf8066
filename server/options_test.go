package server

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
)

// What a request asks for must reach the service, each part in its place.
func TestRequestsReachTheServiceWhole(t *testing.T) {
	f := newFake()
	h := newTest(t, f, nil).Handler()
	ask := func(request string, status int) {
		t.Helper()
		if r := exchange(h, request); r.StatusCode != status {
			t.Fatalf("%s: %d %s, want %d", request, r.StatusCode, bodyOf(t, r), status)
		}
	}
	same := func(what string, got, want any) {
		t.Helper()
		g, w := asJSON(t, got), asJSON(t, want)
		if g != w {
			t.Errorf("%s: got %s, want %s", what, g, w)
		}
	}
	ask("PUT /v1/state/runs/a?ttl=7d&user=ada\nIf-None-Match: *\nIdempotency-Key: a key\n\n1", 201)
	if o := f.put; o.TTL == nil || o.TTL.Life != 7*24*time.Hour || !o.If.Absent() || o.IdempotencyKey != "a key" || o.User != "ada" {
		t.Errorf("put options %+v", o)
	}
	ask("PUT /v1/state/runs/a?ttl=none\nIf-Match: *\n\n1", 200)
	if o := f.put; o.TTL == nil || !o.TTL.None || !o.If.Exists() {
		t.Errorf("put options %+v", o)
	}
	ask("GET /v1/state/runs/a?version=2&pointer=/a/b&consistency=strong&min_version=7&default=%5B1.10%5D", 200)
	same("get options", f.get, tiering.GetOptions{Version: 2, Pointer: "/a/b", Strong: true, MinVersion: 7, Default: json.RawMessage("[1.10]")})
	at := time.Date(2026, 1, 31, 12, 0, 0, 123456789, time.UTC)
	for _, v := range []string{"2026-01-31T12:00:00.123456789Z", "2026-01-31T14:00:00.123456789%2B02:00", "2026-01-31T14:00:00.123456789+02:00"} {
		ask("GET /v1/state/runs/a?as_of="+v, 200)
		if !f.get.AsOf.Equal(at) {
			t.Errorf("as_of=%s read as %v", v, f.get.AsOf)
		}
	}
	ask("GET /v1/state/runs/a?as_of=1769860800&no_default=true", 200)
	if !f.get.AsOf.Equal(time.Unix(1769860800, 0)) || !f.get.NoDefault {
		t.Errorf("get options %+v", f.get)
	}
	ask("GET /v1/state/runs?prefix=a_%25&user=ada&limit=5&cursor=x&include=data", 200)
	same("list options", f.list, tiering.ListOptions{Prefix: "a_%", User: "ada", Limit: 5, Cursor: "x", Data: true})
	ask(`POST /v1/query/runs`+"\n\n"+`{"filter":{"/n":{"$gte":1.10}},"order_by":"-/n","user":"ada","prefix":"p","limit":2,"cursor":"x"}`, 200)
	same("query", f.query, tiering.Query{Filter: json.RawMessage(`{"/n":{"$gte":1.10}}`), OrderBy: "-/n", User: "ada", Prefix: "p", Limit: 2, Cursor: "x"})
	ask("POST /v1/touch/runs/a\nIf-Match: \"2\"\n\n{\"ttl\":90,\"exact\":true}", 200)
	if v, ok := f.touch.If.Version(); f.touch.TTL.Life != 90*time.Second || !f.touch.Exact || !ok || v != 2 {
		t.Errorf("touch options %+v", f.touch)
	}
	ask("POST /v1/touch/runs/a", 200)
	if f.touch.TTL != nil {
		t.Errorf("touch without a body carries %+v", f.touch.TTL)
	}
	ask("POST /v1/edit/runs/a?ttl=1h\n\n{\"ops\":[{\"op\":\"increment\",\"pointer\":\"/n\",\"by\":1.10}],\"if_version\":2}", 200)
	if v, ok := f.write.If.Version(); f.write.TTL.Life != time.Hour || !ok || v != 2 {
		t.Errorf("edit options %+v", f.write)
	}
	zero := int64(0)
	ask("POST /v1/batch\nIdempotency-Key: k\n\n"+`{"atomic":true,"ops":[{"op":"put","namespace":"runs","id":"b","data":{"x": 1.10},"if_version":0,"ttl":60,"user":"ada"},{"op":"edit","namespace":"runs","id":"a","ops":[{"op":"max","pointer":"/n","value":9007199254740993}],"ttl":"7d"}]}`, 200)
	same("batch", f.batch, tiering.Batch{Atomic: true, Ops: []tiering.BatchOp{
		{Op: "put", Namespace: "runs", ID: "b", Data: json.RawMessage(`{"x": 1.10}`), IfVersion: &zero, TTL: "60", User: "ada"},
		{Op: "edit", Namespace: "runs", ID: "a", Ops: []tiering.EditOp{{Op: "max", Pointer: "/n", Value: json.RawMessage("9007199254740993")}}, TTL: "7d"}}})
	if f.batch.IdempotencyKey != "k" || string(f.batch.Ops[0].Data) != `{"x": 1.10}` {
		t.Errorf("batch %q %s", f.batch.IdempotencyKey, f.batch.Ops[0].Data)
	}
	ask(`POST /v1/keys`+"\n\n"+`{"name":"n","scope":{"user":"ada","prefixes":["p/"]},"expires_at":"2027-01-01T00:00:00Z"}`, 201)
	same("key", f.created, tiering.APIKey{Name: "n", Scope: tiering.Scope{User: "ada", Prefixes: []string{"p/"}}, ExpiresAt: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)})
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
