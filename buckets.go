package tierd

import (
	"context"
	"errors"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
)

// A store remembers the buckets that it was written to, by a lease that nobody
// lets go: whoever names others is looked at closely, because what is archived
// would be found nowhere, and an erase would find nothing to erase.
const (
	bucketsLease = "buckets"
	bucketsTTL   = 100 * 365 * 24 * time.Hour
)

// claimBuckets refuses buckets that are named otherwise than those the store was
// written to, and hold nothing of it. Buckets that moved with their objects are
// taken over, and so is one that cannot be asked: a node starts while one is down.
func (t *tiers) claimBuckets(ctx context.Context, c Config) error {
	places := c.bucketPlaces()
	l, ok, err := t.warm.Acquire(ctx, bucketsLease, places, bucketsTTL)
	if err != nil {
		return tiering.Wrap(err, "open", tiering.Warm, tiering.Key{})
	}
	if ok {
		return nil
	}
	for copied, b := range []cold.Bucket{t.primary, t.backup} {
		of := tiering.Copy(copied)
		foreign, err := t.foreign(ctx, of, b)
		switch {
		case err != nil:
			return nil // it is asked again at the next start
		case foreign:
			return &tiering.Error{Code: tiering.CodeWrongKind, Tier: tiering.Cold, Detail: "the " + of.String() + " bucket holds nothing of this store, which was written to: " + l.Holder +
				"; this daemon names: " + places + ". Name those, copy their objects, or make the copies with tierd verify --repair"}
		}
	}
	if err := t.warm.Release(ctx, l); err != nil {
		return tiering.Wrap(err, "open", tiering.Warm, tiering.Key{})
	}
	_, _, err = t.warm.Acquire(ctx, bucketsLease, places, bucketsTTL)
	return tiering.Wrap(err, "open", tiering.Warm, tiering.Key{})
}

// bucketPlaces says where both buckets are.
func (c Config) bucketPlaces() string {
	primary, backup := c.bucketURLs()
	return "cold " + bucketPlace(primary) + "; backup " + bucketPlace(backup)
}

// samples is how many segments a bucket is asked for.
const samples = 3

// foreign reports whether a bucket has none of the segments that the catalog
// says it holds.
func (t *tiers) foreign(ctx context.Context, of tiering.Copy, b cold.Bucket) (bool, error) {
	asked := 0
	after := ""
	for {
		page, err := t.warm.Segments(ctx, "", tiering.SegmentFinished, after, 100)
		if err != nil {
			return false, err
		}
		for _, s := range page {
			after = s.Name
			if s.Copies[of] != tiering.CopyVerified {
				continue
			}
			_, err := b.Stat(ctx, s.Name)
			if !errors.Is(err, cold.ErrNotExist) {
				return false, err
			}
			if asked++; asked == samples {
				return true, nil
			}
		}
		if len(page) < 100 {
			return asked > 0, nil
		}
	}
}
