package server_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/server"
	"github.com/tierd/tierd/tiering"
)

// api is the HTTP API over an embedded node.
type api struct {
	t   *testing.T
	url string
}

func serveNode(t *testing.T, keys bool) (api, *tierd.Node) {
	t.Helper()
	node, err := tierd.Open(t.Context(), tierd.Config{Data: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	o := server.Options{
		As:    func(p tiering.Principal) tiering.Service { return node.As(p) },
		Ready: node.Ready, Metrics: node.Metrics(), Version: "test",
	}
	seen := &answers{Recorder: node.Telemetry().Server(), statuses: map[[3]string]bool{}}
	o.Recorder = seen
	if keys {
		o.Authenticate = node.Authenticate
	}
	s, err := server.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		ts.Close()
		seen.compare(t, s.Handler())
		if err := node.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return api{t, ts.URL}, node
}

// answers remembers the statuses that each operation answered with.
type answers struct {
	server.Recorder
	mu       sync.Mutex
	statuses map[[3]string]bool // method, route, status
}

func (a *answers) Request(route, method string, status int, took time.Duration) {
	a.Recorder.Request(route, method, status, took)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.statuses[[3]string{method, route, strconv.Itoa(status)}] = true
}

// compare holds every status that a test saw against the document, which has to list it.
func (a *answers) compare(t *testing.T, h http.Handler) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/openapi.json", nil))
	var doc struct {
		Paths map[string]map[string]struct {
			ID        string                     `json:"operationId"`
			Responses map[string]json.RawMessage `json:"responses"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for one := range a.statuses {
		method, route, status := one[0], strings.Replace(one[1], "{id...}", "{id}", 1), one[2]
		if route == "" {
			continue // no operation: refused before, or a method or path that none has
		}
		op, ok := doc.Paths[route][strings.ToLower(method)]
		if !ok && method == http.MethodHead {
			op, ok = doc.Paths[route]["get"]
		}
		if _, listed := op.Responses[status]; !listed || !ok {
			t.Errorf("%s %s answered %s, which the document does not list for %q", method, route, status, op.ID)
		}
	}
}

// call sends one request; headers come in pairs.
func (a api) call(method, path, body string, headers ...string) (*http.Response, string) {
	a.t.Helper()
	req, err := http.NewRequest(method, a.url+path, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return res, string(b)
}

// want sends one request and compares status and, where it is not "", body.
func (a api) want(status int, wantBody, method, path, body string, headers ...string) *http.Response {
	a.t.Helper()
	res, got := a.call(method, path, body, headers...)
	if res.StatusCode != status || wantBody != "" && !strings.Contains(got, wantBody) {
		a.t.Fatalf("%s %s: %d %s, want %d with %s", method, path, res.StatusCode, got, status, wantBody)
	}
	return res
}

func TestADocumentsLifeOverHTTP(t *testing.T) {
	a, node := serveNode(t, false)
	const doc = "/v1/state/runs/run/7"
	res := a.want(201, `"version":1`, "PUT", doc, `{ "z": 1.10, "a": "<\u0000>" }`, "If-None-Match", "*")
	if res.Header.Get("ETag") != `"1"` {
		t.Errorf("ETag %q", res.Header.Get("ETag"))
	}
	a.want(412, `"current_version":1`, "PUT", doc, `1`, "If-None-Match", "*")
	if _, got := a.call("GET", "/v1/state/runs/run%2F7", ""); got != `{"z":1.10,"a":"<\u0000>"}` {
		t.Errorf("the bytes came back as %s", got)
	}
	a.want(304, "", "GET", doc, "", "If-None-Match", `"1"`)
	a.want(200, `1.10`, "GET", doc+"?pointer=/z", "")
	a.want(404, `"siblings":["z","a"]`, "GET", doc+"?pointer=/zz", "")
	a.want(200, `"version":2`, "PATCH", doc, `{"a":null,"n":1}`, "Content-Type", "application/merge-patch+json", "If-Match", `"1"`)
	a.want(200, `"values":[3.5]`, "POST", "/v1/edit/runs/run/7", `{"ops":[{"op":"increment","pointer":"/n","by":2.5}],"if_version":2}`)
	a.want(412, `"current_version":3`, "DELETE", doc, "", "If-Match", `"2"`)
	a.want(200, `"op":"put"`, "GET", "/v1/versions/runs/run/7?limit=2", "")
	a.want(200, `[{"op":"`, "GET", "/v1/diff/runs?id=run/7&from=1&to=3", "")
	a.want(200, `"state":"live"`, "GET", "/v1/explain/runs/run/7", "")
	a.want(200, `"pinned":true`, "PUT", "/v1/pin/runs/run/7", "")
	a.want(200, `"id":"run/7"`, "GET", "/v1/state/runs?prefix=run/&include=data", "")
	a.want(200, `"id":"run/7"`, "POST", "/v1/query/runs", `{"filter":{"n":{"$gt":3}}}`)
	a.want(400, "", "POST", "/v1/query/runs", `{"filter":{"n":{"$near":3}}}`)
	a.want(200, `"version":4`, "POST", "/v1/rollback/runs/run/7", `{"version":1}`)
	a.want(200, `"expires_at"`, "POST", "/v1/touch/runs/run/7", `{"ttl":"30m","exact":true}`)
	res = a.want(204, "", "DELETE", doc, "")
	if res.Header.Get("ETag") != `"5"` {
		t.Errorf("the tombstone's ETag %q", res.Header.Get("ETag"))
	}
	a.want(404, `"code":"not_found"`, "GET", doc, "")
	a.want(404, "", "HEAD", doc, "")
	a.want(204, "", "DELETE", doc, "")
	a.want(200, "1.10", "GET", doc+"?version=1", "")
	if err := node.Archive(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.want(200, `"ready":true`, "GET", "/v1/status", "")
	a.want(200, "tierd_http_requests_total", "GET", "/metrics", "")
	a.want(200, `"ready"`, "GET", "/readyz", "")
}

func TestARetriedWriteHappensOnce(t *testing.T) {
	a, _ := serveNode(t, false)
	add := `{"ops":[{"op":"increment","pointer":"/n"}]}`
	a.want(201, `"values":[1]`, "POST", "/v1/edit/runs/c", add, "Idempotency-Key", "k")
	res := a.want(201, `"values":[1]`, "POST", "/v1/edit/runs/c", add, "Idempotency-Key", "k")
	if res.Header.Get("Idempotent-Replayed") != "true" {
		t.Error("the replay is not marked")
	}
	a.want(422, `"code":"idempotency_mismatch"`, "POST", "/v1/edit/runs/c", `{"ops":[{"op":"increment","pointer":"/m"}]}`, "Idempotency-Key", "k")
	a.want(200, `{"n":1}`, "GET", "/v1/state/runs/c", "")
}

func TestAnAtomicBatchIsAllOrNothing(t *testing.T) {
	a, _ := serveNode(t, false)
	a.want(412, `"failed_op":1`, "POST", "/v1/batch",
		`{"atomic":true,"ops":[{"op":"put","namespace":"runs","id":"a","data":1},{"op":"check","namespace":"runs","id":"b","if_version":9}]}`)
	a.want(404, "", "GET", "/v1/state/runs/a", "")
	a.want(200, `"status":201`, "POST", "/v1/batch",
		`{"atomic":true,"ops":[{"op":"put","namespace":"runs","id":"a","data":{"n":1.10},"if_version":0,"ttl":60},{"op":"check","namespace":"runs","id":"b","if_version":0}]}`)
	a.want(200, `{"n":1.10}`, "GET", "/v1/state/runs/a", "")
}

func TestAPolicyGovernsItsNamespace(t *testing.T) {
	a, _ := serveNode(t, false)
	res := a.want(200, `"class":"session"`, "PUT", "/v1/namespaces/chat", `{"class":"session","ttl":"2h","schema":{"type":"object","required":["turns"]}}`)
	tag := res.Header.Get("ETag")
	a.want(412, "", "PUT", "/v1/namespaces/chat", `{}`, "If-None-Match", "*")
	a.want(422, "turns", "PUT", "/v1/state/chat/a", `{}`)
	a.want(200, `"ttl":"1h"`, "PATCH", "/v1/namespaces/chat", `{"ttl":"1h"}`, "Content-Type", "application/merge-patch+json", "If-Match", tag)
	a.want(200, `"query_index":true`, "PATCH", "/v1/namespaces/chat", `{"query_index":true}`, "Content-Type", "application/merge-patch+json")
	a.want(200, `"query_index":true`, "GET", "/v1/namespaces/chat", "")
	a.want(201, "", "PUT", "/v1/state/chat/a", `{"turns":[1]}`)
	a.want(200, `"id":"a"`, "POST", "/v1/query/chat", `{"filter":{"turns":{"$contains":1}}}`)
	a.want(200, `"turns"`, "PUT", "/v1/namespaces/chat", `{"class":"session","ttl":"1h","schema":{"type":"object","required":["turns"]}}`)
	if _, got := a.call("GET", "/v1/namespaces/chat", ""); strings.Contains(got, "query_index") {
		t.Errorf("switched off: %s", got)
	}
	a.want(200, `"name":"chat"`, "GET", "/v1/namespaces", "")
	a.want(404, "", "GET", "/v1/namespaces/none", "")
}

func TestAKeysScopeHolds(t *testing.T) {
	a, node := serveNode(t, true)
	root, err := node.CreateKey(t.Context(), tiering.APIKey{Name: "root"})
	if err != nil {
		t.Fatal(err)
	}
	asRoot := []string{"Authorization", "Bearer " + root.Secret}
	a.want(401, "", "GET", "/v1/state/runs", "")
	a.want(401, "", "GET", "/metrics", "")
	a.want(200, "", "GET", "/metrics", "", asRoot...)
	_, made := a.call("POST", "/v1/keys", `{"name":"reader","scope":{"verbs":["read"],"namespaces":["runs"]}}`, asRoot...)
	var key tiering.APIKey
	if err := json.Unmarshal([]byte(made), &key); err != nil || key.Secret == "" {
		t.Fatalf("%v %s", err, made)
	}
	_, made = a.call("POST", "/v1/keys", `{"name":"prometheus","scope":{"verbs":["metrics"]}}`, asRoot...)
	var scraper tiering.APIKey
	if err := json.Unmarshal([]byte(made), &scraper); err != nil || scraper.Secret == "" {
		t.Fatalf("%v %s", err, made)
	}
	asScraper := []string{"X-API-Key", scraper.Secret}
	a.want(200, "tierd_http_requests_total", "GET", "/metrics", "", asScraper...)
	a.want(403, "", "GET", "/v1/state/runs/a", "", asScraper...)
	a.want(403, "", "GET", "/v1/status", "", asScraper...)
	a.want(403, "", "POST", "/v1/keys", `{"name":"more"}`, asScraper...)
	a.want(400, `"code":"unsupported"`, "POST", "/v1/keys", `{"name":"once"}`, append([]string{"Idempotency-Key", "k"}, asRoot...)...)
	asReader := []string{"X-API-Key", key.Secret}
	a.want(403, "", "GET", "/metrics", "", asReader...)
	a.want(201, "", "PUT", "/v1/state/runs/a", `1`, asRoot...)
	a.want(200, "1", "GET", "/v1/state/runs/a", "", asReader...)
	a.want(403, `"code":"forbidden"`, "PUT", "/v1/state/runs/a", `2`, asReader...)
	a.want(403, "", "GET", "/v1/state/other/a", "", asReader...)
	a.want(403, "", "GET", "/v1/keys", "", asReader...)
	if _, keys := a.call("GET", "/v1/keys", "", asRoot...); strings.Contains(keys, key.Secret) || !strings.Contains(keys, key.ID) {
		t.Errorf("the list of keys: %s", keys)
	}
	a.want(204, "", "DELETE", "/v1/keys/"+key.ID, "", asRoot...)
	a.want(401, "", "GET", "/v1/state/runs/a", "", asReader...)
}

// A watch goes on behind the last event seen, without gap or repeat.
func TestWatchResumesOverTheFeed(t *testing.T) {
	a, _ := serveNode(t, false)
	for _, id := range []string{"a", "b", "c"} {
		a.want(201, "", "PUT", "/v1/state/runs/"+id, `{"n":1.10}`)
	}
	read := func(lastID string, n int) (ids, keys []string) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, "GET", a.url+"/v1/watch?namespace=runs&from=start&include=data", nil)
		if lastID != "" {
			req.Header.Set("Last-Event-ID", lastID)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var all strings.Builder
		buf := make([]byte, 4096)
		for strings.Count(all.String(), "\ndata: ") < n {
			k, err := res.Body.Read(buf)
			all.Write(buf[:k])
			if err != nil {
				t.Fatalf("%v after %q", err, all.String())
			}
		}
		for block := range strings.SplitSeq(all.String(), "\n\n") {
			id, rest, _ := strings.Cut(block, "\n")
			_, data, ok := strings.Cut(rest, "data: ")
			if !ok {
				continue
			}
			var e tiering.Event
			if err := json.Unmarshal([]byte(data), &e); err != nil || string(e.Data) != `{"n":1.10}` {
				t.Fatalf("%v: %s", err, data)
			}
			ids, keys = append(ids, strings.TrimPrefix(id, "id: ")), append(keys, e.Key)
		}
		return ids, keys
	}
	ids, keys := read("", 3)
	if strings.Join(keys, "") != "abc" {
		t.Fatalf("keys %v", keys)
	}
	if _, rest := read(ids[0], 2); strings.Join(rest, "") != "bc" {
		t.Errorf("after %s came %v, want b and c", ids[0], rest)
	}
	a.want(400, "", "GET", "/v1/watch", "", "Last-Event-ID", "nonsense")
}

// What JSON allows comes back byte for byte, from the write's tier and strong;
// what is ambiguous or broken is refused with a place.
func TestJSONOverHTTP(t *testing.T) {
	a, _ := serveNode(t, false)
	for name, doc := range map[string]string{
		"numbers keep their text": `[1.0,1e2,-0,1.10,9007199254740993,18446744073709551615]`,
		"order of keys":           `{"b":1,"a":2,"aa":3,"":4}`,
		"NUL":                     `"a\u0000b"`,
		"escapes stay escapes":    `"\ud83d\ude00 \u00e9 é \/"`,
		"html and line ends":      "\"<script>&amp;\u2028\u2029\"",
		"null":                    `null`,
		"a scalar":                `false`,
	} {
		a.call("PUT", "/v1/state/json/x", doc)
		for _, query := range []string{"", "?consistency=strong"} {
			if res, got := a.call("GET", "/v1/state/json/x"+query, ""); got != doc || res.Header.Get("Content-Length") == "" {
				t.Errorf("%s%s: got %s", name, query, got)
			}
		}
	}
	for name, c := range map[string]struct {
		doc    string
		status int
	}{
		"nothing":        {"", 400},
		"no JSON":        {"{", 400},
		"two values":     {"1 2", 400},
		"NaN":            {"[NaN]", 400},
		"invalid UTF-8":  {"\"\xff\"", 400},
		"a repeated key": {`{"a":{"b":1,"b":2}}`, 422},
		"half a pair":    {`"\ud800"`, 422},
		"too deep":       {strings.Repeat("[", 200) + strings.Repeat("]", 200), 422},
		"a huge number":  {"1e999999999", 422},
		"too large":      {`"` + strings.Repeat("x", tiering.MaxBody) + `"`, 413},
	} {
		if res, got := a.call("PUT", "/v1/state/json/bad", c.doc); res.StatusCode != c.status {
			t.Errorf("%s: %d %.200s, want %d", name, res.StatusCode, got, c.status)
		}
	}
	a.want(404, "", "GET", "/v1/state/json/bad", "")
}
