package tiering

import "strconv"

// HotEpoch names the time between two losses of the hot tier: what hot holds
// under one epoch is not seen under another. It stands in warm, which every
// commit asks. The zero HotEpoch is none: nothing may be served under it.
type HotEpoch struct {
	// Life is the epoch of the warm store, so that a rebuilt store sees nothing
	// of what hot held before.
	Life string
	// Count goes up when hot may have lost what it acknowledged.
	Count int64
}

// IsZero reports whether e is no epoch.
func (e HotEpoch) IsZero() bool { return e.Life == "" }

// Supersedes reports whether who uses old has to go on to e: it is of another
// life, or later in the same.
func (e HotEpoch) Supersedes(old HotEpoch) bool {
	return !e.IsZero() && (e.Life != old.Life || e.Count > old.Count)
}

// String is Life.Count, and empty for the zero HotEpoch. No two epochs share it.
func (e HotEpoch) String() string {
	if e.IsZero() {
		return ""
	}
	return e.Life + "." + strconv.FormatInt(e.Count, 10)
}
