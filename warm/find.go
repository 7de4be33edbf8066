package warm

import (
	"context"

	"github.com/tierd/tierd/tiering"
)

// Finder is what a Store may also be, where a look-up costs a statement whatever
// it asks for: it answers Version and the part of Locations that may hold the
// version at once, of one state of the store. Without it both are asked.
type Finder interface {
	// Find returns the version row, ok false when warm does not hold it, and the
	// locations in finished segments whose range has the version, newest first.
	Find(ctx context.Context, key tiering.Key, version int64) (v Version, ok bool, locs []tiering.Location, err error)
}
