package warm

import (
	"context"

	"github.com/tierd/tierd/tiering"
)

// Finder is what a Store may also be, where a look-up costs a statement whatever
// it asks for: it answers Version and the part of Locations that may hold the
// version at once, of one state of the store.
type Finder interface {
	// Find returns the version row, ok false when warm does not hold it, and the
	// locations in finished segments whose range has the version, newest first.
	Find(ctx context.Context, key tiering.Key, version int64) (v Version, ok bool, locs []tiering.Location, err error)
}

// Find asks s, or the store that it wraps, as a Finder. Of one that is none it
// asks for the version alone: locs is then nil, and not empty.
func Find(ctx context.Context, s Store, key tiering.Key, version int64) (v Version, ok bool, locs []tiering.Location, err error) {
	f, can := As[Finder](s)
	if !can {
		v, ok, err = s.Version(ctx, key, version)
		return v, ok, nil, err
	}
	if v, ok, locs, err = f.Find(ctx, key, version); locs == nil {
		locs = []tiering.Location{}
	}
	return v, ok, locs, err
}
