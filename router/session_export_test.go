package router

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tierd/tierd/tiering"
)

// A session that no import would take is refused, not read into memory; one that is
// as long as an import takes comes back whole.
func TestTheLengthOfAnExport(t *testing.T) {
	w := open(t, setup{})
	all := w.r.Sessions()
	long := json.RawMessage(`"` + strings.Repeat("x", tiering.MaxBody-16) + `"`)
	w.session(tiering.NewSession{ID: "s", Events: []json.RawMessage{long}})
	_, err := all.Append(w.ctx, "s", []json.RawMessage{[]byte(`"` + strings.Repeat("x", tiering.MaxBody/2) + `"`)}, nil, nil)
	w.no(err)
	e, err := all.Export(w.ctx, "s")
	w.no(err)
	e.Session.ID = "t"
	_, err = all.Import(w.ctx, e)
	w.no(err)
	page, err := all.Events(w.ctx, "t", &tiering.EntriesOptions{After: 2})
	if err != nil || len(page.Entries) != 1 || len(page.Entries[0].Data) != tiering.MaxBody/2+2 {
		t.Errorf("imported: %d entries, %v", len(page.Entries), err)
	}
	_, err = all.Append(w.ctx, "s", []json.RawMessage{long}, nil, nil)
	w.no(err)
	_, err = all.Export(w.ctx, "s")
	code(t, "an export above what an import takes", err, tiering.CodeTooLarge)
}
