package server_test

import (
	"strings"
	"testing"

	"github.com/tierd/tierd/tiering"
)

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
