package router

import (
	"errors"

	"github.com/tierd/tierd/internal/jsondoc"
	"github.com/tierd/tierd/tiering"
)

// A key without the read verb may write what it cannot see. Computed writes
// would show it: the values that an edit answers, a JSON patch that tests or
// copies, and faults that quote the document. It gets receipts, which are
// metadata, and that a change did not fit, not why.

// blind reports whether the principal may not read the namespace.
func (r *Router) blind(ns string) bool { return r.allow(tiering.VerbRead, ns) != nil }

// sightless refuses a patch that would show a blind principal what stands.
func (r *Router) sightless(ns string, kind tiering.PatchKind, patch []byte) error {
	if kind != tiering.JSONPatch || !r.blind(ns) {
		return nil
	}
	op, i, err := jsondoc.PatchReads(patch)
	if err != nil || op == "" {
		return err
	}
	return tiering.Errorf(tiering.CodeForbidden, "operation %d (%s) reads the document: the API key may not read", i, op)
}

// told is err as the caller of m may hear it.
func (m *mutation) told(err error) error {
	if !m.blind || !errors.Is(err, tiering.ErrInvalid) {
		return err
	}
	return tiering.Unprocessablef("", "the change does not fit the document that stands: the API key may not read, so no more is said")
}
