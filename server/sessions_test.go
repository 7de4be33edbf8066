package server_test

import (
	"strings"
	"testing"

	"github.com/tierd/tierd/tiering"
)

// If-Match "0" stands for nothing, as with documents: no write of a session that is
// there goes through under it, nor under another version than the one that stands.
func TestConditionsOnSessions(t *testing.T) {
	a, _ := serveNode(t, false)
	a.want(201, "", "POST", "/v1/sessions", `{"id":"s"}`)
	a.want(200, "", "POST", "/v1/sessions/s/checkpoints/c", "")
	for _, tag := range []string{`"0"`, `"7"`} {
		for _, w := range [][3]string{
			{"POST", "/events", `{"events":[1]}`}, {"PATCH", "", `{"state":{"n":1}}`}, {"POST", "/checkpoints/c", ""},
			{"POST", "/checkpoints/c/resume", ""}, {"POST", "/steps/x", "{}"}, {"DELETE", "", ""},
		} {
			a.want(412, `"version_conflict"`, w[0], "/v1/sessions/s"+w[1], w[2], "If-Match", tag)
		}
	}
	a.want(409, `"fenced"`, "DELETE", "/v1/sessions/s", "", "Tierd-Fence", "s/7")
	a.want(204, "", "DELETE", "/v1/sessions/s", "", "If-Match", `"1"`)
	a.want(204, "", "DELETE", "/v1/sessions/s", "", "If-Match", `"1"`)
}

// An import takes what an export can make, which is more than other bodies may have.
func TestALongSessionIsExportedAndImported(t *testing.T) {
	a, _ := serveNode(t, false)
	a.want(201, "", "POST", "/v1/sessions", `{"id":"s","user":"ann","state":{"n":1}}`)
	event := `{"events":["` + strings.Repeat("x", tiering.MaxBody/2+100) + `"]}`
	a.want(200, "", "POST", "/v1/sessions/s/events", event)
	a.want(200, "", "POST", "/v1/sessions/s/checkpoints/c", "")
	a.want(200, "", "POST", "/v1/sessions/s/events", event)
	a.want(200, "", "POST", "/v1/sessions/s/checkpoints/c/resume", "")
	a.want(200, "", "POST", "/v1/sessions/s/checkpoints/d", "")
	res, export := a.call("GET", "/v1/sessions/s/export", "")
	if res.StatusCode != 200 || len(export) <= tiering.MaxBody || !strings.Contains(export, `"skipped"`) {
		t.Fatalf("the export: %d, %d bytes", res.StatusCode, len(export))
	}
	a.want(204, "", "DELETE", "/v1/sessions/s", "")
	a.want(201, `"state":{"n":1}`, "POST", "/v1/sessions/import", export)
	a.want(200, `"skipped"`, "GET", "/v1/sessions/s/export", "")
	a.want(413, "", "POST", "/v1/sessions", `{"id":"t","state":{"x":"`+strings.Repeat("x", tiering.MaxBody)+`"}}`)
	a.want(413, "", "POST", "/v1/sessions/import", `{"x":"`+strings.Repeat("x", tiering.MaxExport)+`"}`)
}

// Who does not hold the lease is not told the token that makes its holder.
func TestALeaseThatIsHeldKeepsItsToken(t *testing.T) {
	a, _ := serveNode(t, false)
	a.want(201, "", "POST", "/v1/sessions", `{"id":"s"}`)
	a.want(200, `"token"`, "POST", "/v1/sessions/s/lease", `{"holder":"one"}`)
	res, body := a.call("POST", "/v1/sessions/s/lease", `{"holder":"two"}`)
	if res.StatusCode != 409 || !strings.Contains(body, `"holder":"one"`) || strings.Contains(body, "token") {
		t.Errorf("%d %s", res.StatusCode, body)
	}
}

// The policies of tierd's own namespaces are read and written like others, their kind
// included, which no other namespace has.
func TestTheKindOfSessions(t *testing.T) {
	a, _ := serveNode(t, false)
	a.want(201, "", "POST", "/v1/sessions", `{"id":"s"}`)
	a.want(200, `"kind":"session"`, "GET", "/v1/namespaces/tierd.sessions", "")
	a.want(200, `"keep_versions":7`, "PUT", "/v1/namespaces/tierd.sessions", `{"kind":"session","keep_versions":7}`)
	a.want(422, `"/kind"`, "PUT", "/v1/namespaces/runs", `{"kind":"session"}`)
}

// What is no number, or a life that is over at once, is refused in words that fit.
func TestFaultsOfSessionsAreToldAsTheyAre(t *testing.T) {
	a, _ := serveNode(t, false)
	a.want(201, "", "POST", "/v1/sessions", `{"id":"s"}`)
	for _, query := range []string{"budget=0", "budget=4000&keep_turns=0", "budget=4000&shorten=-1", "budget=x"} {
		a.want(400, "want a whole number", "GET", "/v1/sessions/s/context?"+query, "")
	}
	a.want(400, "the shortest life is 1ms", "POST", "/v1/sessions", `{"id":"t","ttl":"1ns"}`)
	a.want(422, "the shortest life is 1ms", "PUT", "/v1/namespaces/tierd.events", `{"kind":"log","class":"session","ttl":"1us"}`)
	a.want(400, "want a whole number", "DELETE", "/v1/sessions/s/lease?token=0", "")
	a.want(204, "", "DELETE", "/v1/sessions/never/lease?token=7", "")
}
