package server_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each guard that the document lists on a write holds: under it nothing that stands is
// changed, and the first answer comes again.
func TestListedGuardsHold(t *testing.T) {
	a, _ := serveNode(t, false)
	kind := func(method string) []string {
		if method == "PATCH" {
			return []string{"Content-Type", "application/merge-patch+json"}
		}
		return []string{"Content-Type", "application/json"}
	}
	a.want(201, "", "PUT", "/v1/state/runs/a", `{"n":1}`)
	a.want(200, "", "PUT", "/v1/state/runs/a", `{"n":2}`)
	a.want(201, "", "POST", "/v1/memories/people", `{"id":"m","text":"Ada likes tea"}`)
	a.want(201, "", "POST", "/v1/sessions", `{"id":"s"}`)
	a.want(200, "", "POST", "/v1/sessions/s/checkpoints/c", "")
	a.want(200, "", "POST", "/v1/logs/chats/l", "1")
	a.want(200, "", "PUT", "/v1/namespaces/empty", "{}")
	// What a call of the document becomes on what stands here.
	type request struct{ path, body string }
	of := map[string]request{
		"putDocument": {"/v1/state/runs/a", `{"n":3}`}, "getDocument": {"/v1/state/runs/a", ""}, "headDocument": {"/v1/state/runs/a", ""},
		"patchDocument": {"/v1/state/runs/a", `{"n":3}`}, "deleteDocument": {"/v1/state/runs/a", ""},
		"editDocument":     {"/v1/edit/runs/a", `{"ops":[{"op":"increment","pointer":"/n"}]}`},
		"rollbackDocument": {"/v1/rollback/runs/a", `{"version":1}`}, "touchDocument": {"/v1/touch/runs/a", `{"ttl":"5m"}`},
		"pinDocument": {"/v1/pin/runs/a", ""}, "unpinDocument": {"/v1/pin/runs/a", ""},
		"appendEntries": {"/v1/logs/chats/l", "2"},
		"remember":      {"/v1/memories/people", `{"text":"Ada has a cat"}`},
		"patchMemory":   {"/v1/memories/people/m", `{"importance":0.5}`}, "forgetMemory": {"/v1/memories/people/m", ""}, "useMemory": {"/v1/used/people/m", ""},
		"putNamespace": {"/v1/namespaces/empty", `{"ttl":"1h"}`}, "patchNamespace": {"/v1/namespaces/empty", `{"ttl":"2h"}`}, "deleteNamespace": {"/v1/namespaces/empty", ""},
		"runBatch":      {"/v1/batch", `{"ops":[{"op":"put","namespace":"runs","id":"b","data":1}]}`},
		"createSession": {"/v1/sessions", `{"user":"ada"}`}, "patchSession": {"/v1/sessions/s", `{"status":"idle"}`}, "deleteSession": {"/v1/sessions/s", ""},
		"appendEvents": {"/v1/sessions/s/events", `{"events":[1]}`}, "makeCheckpoint": {"/v1/sessions/s/checkpoints/c", ""},
		"resumeCheckpoint": {"/v1/sessions/s/checkpoints/c/resume", ""}, "branchCheckpoint": {"/v1/sessions/s/checkpoints/c/branch", ""},
		"runStep": {"/v1/sessions/s/steps/x", ""},
	}
	_, text := a.call("GET", "/openapi.json", "")
	var doc struct {
		Paths map[string]map[string]struct {
			ID         string `json:"operationId"`
			Parameters []struct{ Name, In string }
		}
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	refusals := map[string]struct {
		value, code string
		status      int
	}{"If-Match": {`"99"`, "version_conflict", 412}, "If-None-Match": {"*", "version_conflict", 412}, "Tierd-Fence": {"s/99", "fenced", 409}}
	type call struct {
		method, id string
		request
	}
	var once []call
	for _, methods := range doc.Paths {
		for method, op := range methods {
			for _, p := range op.Parameters {
				refusal, known := refusals[p.Name]
				if p.In != "header" || !known && p.Name != "Idempotency-Key" {
					continue
				}
				c, ok := of[op.ID]
				method := strings.ToUpper(method)
				switch {
				case !ok:
					t.Errorf("%s takes %s, and is not tried here", op.ID, p.Name)
				case !known:
					once = append(once, call{method, op.ID, c})
				case p.Name == "If-None-Match" && (method == "GET" || method == "HEAD"):
					a.want(304, "", method, c.path, "", p.Name, "*")
				default:
					res, body := a.call(method, c.path, c.body, append(kind(method), p.Name, refusal.value)...)
					if res.StatusCode != refusal.status || res.Header.Get("Tierd-Code") != refusal.code {
						t.Errorf("%s with %s: %d %s, want %s", op.ID, p.Name, res.StatusCode, body, refusal.code)
					}
				}
			}
		}
	}
	for _, deletes := range []bool{false, true} { // last what takes away what others need
		for _, c := range once {
			if (c.method == "DELETE" && c.id != "unpinDocument") == deletes {
				sendTwice(a, c.id, c.method, c.path, c.body, kind(c.method))
			}
		}
	}
}

// told is what an answer says of what was made.
var told = regexp.MustCompile(`"(id|version|first_seq|last_seq|attempts)":("[^"]*"|[0-9]+)`)

// sendTwice sends a write under one Idempotency-Key, and once more.
func sendTwice(a api, id, method, path, body string, headers []string) {
	a.t.Helper()
	headers = append(headers, "Idempotency-Key", id)
	first, firstBody := a.call(method, path, body, headers...)
	second, secondBody := a.call(method, path, body, headers...)
	same := slices.Equal(told.FindAllString(firstBody, -1), told.FindAllString(secondBody, -1))
	if first.StatusCode >= 300 || second.StatusCode != first.StatusCode || first.Header.Get("ETag") != second.Header.Get("ETag") || !same {
		a.t.Errorf("%s sent twice: %d %s, then %d %s", id, first.StatusCode, firstBody, second.StatusCode, secondBody)
	}
}
