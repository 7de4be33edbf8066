package server_test

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// Whatever an operation is called on, the document lists the status of its answer: on
// namespaces of each kind, on what stands, was deleted or never was. serveNode compares.
func TestTheDocumentListsEveryStatus(t *testing.T) {
	a, _ := serveNode(t, false)
	a.want(200, "", "PUT", "/v1/namespaces/scratch", `{"class":"ephemeral"}`)
	a.want(200, "", "PUT", "/v1/namespaces/strict", `{"require_version":true,"schema":{"type":"object","required":["x"]}}`)
	a.want(200, "", "PUT", "/v1/namespaces/empty", `{}`)
	for _, ns := range []string{"runs", "scratch"} {
		a.want(201, "", "PUT", "/v1/state/"+ns+"/here", `{"n":1}`)
		a.want(201, "", "PUT", "/v1/state/"+ns+"/gone", `{"n":1}`)
		a.want(204, "", "DELETE", "/v1/state/"+ns+"/gone", "")
	}
	a.want(200, "", "POST", "/v1/logs/chats/here", "1")
	a.want(201, "", "POST", "/v1/memories/people", `{"id":"here","text":"Ada likes tea"}`)
	a.want(201, "", "POST", "/v1/sessions", `{"id":"here"}`)
	a.want(200, "", "POST", "/v1/sessions/here/checkpoints/here", "")
	spaces := []string{"runs", "chats", "people", "scratch", "strict", "empty", "never", "tierd.sessions", "NO"}
	ids := []string{"here", "gone", "never"}
	queries := []string{"", "?limit=0", "?from=1&to=2", "?version=1", "?version=9", "?min_version=9", "?user=ada", "?pointer=/none", "?token=7", "?budget=4000", "?space=x", "?type=rumour", "?cursor=x"}

	_, text := a.call("GET", "/openapi.json", "")
	type operation struct {
		ID   string `json:"operationId"`
		Body struct {
			Content map[string]struct{ Example json.RawMessage }
		} `json:"requestBody"`
	}
	var doc struct {
		Paths map[string]map[string]operation
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	try := func(method, path string, op operation) {
		bodies := map[string]string{"application/json": ""}
		for kind, m := range op.Body.Content {
			bodies[kind] = string(m.Example)
		}
		for kind, body := range bodies {
			for _, ns := range spaces {
				for _, id := range ids {
					target := strings.NewReplacer("{ns}", ns, "{id}", id, "{name}", id).Replace(path)
					if body = strings.ReplaceAll(body, "run/7", id); op.ID == "exportSession" {
						body = ""
					}
					if method == "GET" || op.ID == "releaseLease" || op.ID == "dropVectors" {
						some := queries
						if id != "here" {
							some = queries[:3]
						}
						for _, query := range some {
							a.call(method, target+query, body, "Content-Type", kind)
						}
						continue
					}
					for name, value := range map[string]string{"": "", "Idempotency-Key": "one", "If-Match": `"99"`, "If-None-Match": "*", "Tierd-Fence": "here/9"} {
						if id == "here" || name == "" {
							a.call(method, target, body, "Content-Type", kind, cmp.Or(name, "Accept"), value)
						}
					}
					if !strings.Contains(path, "{id}") && !strings.Contains(path, "{name}") {
						break
					}
				}
				if !strings.Contains(path, "{ns}") {
					break
				}
			}
		}
	}
	for _, method := range []string{"get", "post", "patch", "put", "delete"} {
		for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
			op, ok := doc.Paths[path][method]
			if !ok || op.ID == "watch" || op.ID == "migrateEmbedding" || op.ID == "getDocsScript" { // a stream, a server elsewhere, a long file
				continue
			}
			try(strings.ToUpper(method), path, op)
		}
	}
}
