package router

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tierd/tierd/tiering"
)

// A session that no import would take is refused before all of it is read.
func TestTheLengthOfAnExport(t *testing.T) {
	w := open(t, setup{})
	all := w.r.Sessions()
	long := json.RawMessage(`"` + strings.Repeat("x", tiering.MaxBody-3) + `"`)
	w.session(tiering.NewSession{ID: "s", Events: []json.RawMessage{long}})
	_, err := all.Append(w.ctx, "s", []json.RawMessage{long}, nil, nil)
	w.no(err)
	_, err = all.Export(w.ctx, "s")
	code(t, "an export above what an import takes", err, tiering.CodeTooLarge)
}
