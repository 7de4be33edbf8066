package rules

import (
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// Demotable reports whether a head still stands as it was when a demotion was asked
// for. Its version has to be held by two verified copies besides.
func Demotable(h warm.Head, d warm.Demotion, now time.Time) bool {
	return h.Version == d.Version && h.Live(now) && h.InWarm && !h.Pinned && !h.UpdatedAt.After(d.Idle) && !h.AccessedAt.After(d.Idle)
}

// Promotable reports whether bytes of that digest are the ones that left warm of a head
// that still stands at version.
func Promotable(h warm.Head, version int64, digest tiering.Digest, now time.Time) bool {
	return h.Version == version && h.Live(now) && !h.InWarm && h.Digest == digest
}

// Restored is the head of a key that comes back from cold. A document without its bytes
// was demoted.
func Restored(r *warm.Restored) warm.Head {
	h := r.Head
	h.InWarm = h.Op == tiering.OpPut && r.Body != nil
	if h.AccessedAt.IsZero() {
		h.AccessedAt = h.UpdatedAt
	}
	return h
}
