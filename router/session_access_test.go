package router

import (
	"encoding/json"
	"testing"

	"github.com/tierd/tierd/tiering"
)

// Callers write tierd's own namespaces by calls on sessions alone, whether or not
// there are any yet; they read them.
func TestCallersDoNotWriteTierdsNamespaces(t *testing.T) {
	one := json.RawMessage(`{"x":1}`)
	for _, made := range []bool{false, true} {
		w := open(t, setup{})
		if made {
			w.session(tiering.NewSession{ID: "ann", User: "ann", App: "ann", State: json.RawMessage(`{"user:x":1,"app:x":1}`)})
		}
		for _, ns := range []string{tiering.SessionNamespace, tiering.SessionEventsNamespace, tiering.SessionPartsNamespace, tiering.UserStateNamespace, tiering.AppStateNamespace, "tierd.else"} {
			for name, write := range map[string]func() error{
				"put":      func() error { _, err := w.r.Put(w.ctx, ns, "ann", one, nil); return err },
				"patch":    func() error { _, err := w.r.Patch(w.ctx, ns, "ann", tiering.MergePatch, one, nil); return err },
				"edit":     func() error { _, err := w.r.Apply(w.ctx, ns, "ann", increment, nil); return err },
				"delete":   func() error { _, err := w.r.Delete(w.ctx, ns, "ann", nil); return err },
				"rollback": func() error { _, err := w.r.Rollback(w.ctx, ns, "ann", 1, nil); return err },
				"touch":    func() error { _, err := w.r.Touch(w.ctx, ns, "ann", nil); return err },
				"append":   func() error { _, err := w.r.Append(w.ctx, ns, "ann", numbers(1, 1), nil); return err },
				"batch": func() error {
					_, err := w.r.Batch(w.ctx, &tiering.Batch{Atomic: true, Ops: []tiering.BatchOp{{Op: "put", Namespace: ns, ID: "ann", Data: one}}})
					return err
				},
			} {
				if err := write(); tiering.CodeOf(err) != tiering.CodeWrongKind {
					t.Errorf("%s of %s: %v", name, ns, err)
				}
			}
			info, err := w.r.Namespace(w.ctx, ns)
			if stands := err == nil; stands != (made && ns != "tierd.else") {
				t.Errorf("%s: %+v, %v", ns, info, err)
			}
		}
		if made {
			d, err := w.r.Get(w.ctx, tiering.UserStateNamespace, "ann", nil)
			if err != nil || string(d.Body) != `{"x":1}` || d.Version != 1 {
				t.Errorf("a read: %+v, %v", d, err)
			}
		}
	}
}
