package lifecycle

import (
	"context"
	"errors"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/internal/failpoint"
	"github.com/tierd/tierd/tiering"
)

// Proven reads a version back from both cold copies, now: bytes leave warm only
// behind it. The catalog knows what was read back when a segment was written;
// what became of the buckets since, only a read tells. A copy that fails is
// suspected, and made again from the other.
//
// The error is unavailable while the version is not in two sound copies.
func (e *Engine) Proven(ctx context.Context, key tiering.Key, version int64, digest tiering.Digest) error {
	p, err := e.newProof(ctx, []tiering.Key{key})
	if err != nil {
		return tiering.Wrap(err, "", tiering.Warm, key)
	}
	return p.of(ctx, key, version, digest)
}

// proof is Proven for versions of several keys. Those that lie in one block, and are
// proven within proofLasts, cost one read of each copy.
type proof struct {
	*Engine
	locations map[tiering.Key][]tiering.Location
	copies    [2]*cold.CopyReader
	read      time.Time // since when copies read
}

// proofLasts is how long ago a block may have been read that proves a version.
const proofLasts = time.Second

func (e *Engine) newProof(ctx context.Context, keys []tiering.Key) (*proof, error) {
	if err := e.checkSuccessor(ctx); err != nil {
		return nil, err
	}
	locations, err := e.Warm.LocationsOf(ctx, keys)
	return &proof{Engine: e, locations: locations}, err
}

// of is Proven for a version of one of the keys.
func (p *proof) of(ctx context.Context, key tiering.Key, version int64, digest tiering.Digest) error {
	if time.Since(p.read) > proofLasts {
		p.copies, p.read = [2]*cold.CopyReader{p.Archive.CopyReader(tiering.Primary), p.Archive.CopyReader(tiering.Backup)}, time.Now()
	}
	missing := error(&tiering.Error{Code: tiering.CodeUnavailable, Tier: tiering.Cold, Detail: "the version is not in cold yet"})
	for _, loc := range p.locations[key] {
		if _, ok := loc.Block(version); !ok {
			continue
		}
		if missing = p.at(ctx, loc, version, digest); missing == nil {
			return nil
		}
	}
	return missing
}

// at is of for one segment.
func (p *proof) at(ctx context.Context, loc tiering.Location, version int64, digest tiering.Digest) error {
	var errs [2]error
	for i := range errs {
		c := tiering.Copy(i)
		if c == tiering.Backup && failpoint.Skips(failpoint.SecondCopy) {
			continue
		}
		rec, err := p.copies[c].Read(ctx, loc, version)
		if err == nil && rec.Digest != digest {
			err = tiering.Errorf(tiering.CodeCorrupt, "the copy in %s has another content", c)
		}
		if err != nil {
			errs[i] = err
			p.Suspect(loc.Segment, c)
		}
	}
	if errs == [2]error{} {
		return nil
	}
	return &tiering.Error{Code: tiering.CodeUnavailable, Tier: tiering.Cold, Err: errors.Join(errs[:]...),
		Detail: "a cold copy of the version could not be read back: its bytes stay in warm until both can"}
}

// pingPatience is how long a sweep waits for a bucket.
const pingPatience = 10 * time.Second

// bothReachable keeps a sweep from trying every document while a bucket is
// down: nothing may leave warm then.
func (s *sweeper) bothReachable(ctx context.Context) bool {
	asked, cancel := context.WithTimeout(ctx, pingPatience)
	defer cancel()
	errs := s.Archive.Ping(asked)
	err := errors.Join(errs[:]...)
	if err != nil {
		s.park("demote", "everything", parkAfter, err)
		s.Logger.Warn("a bucket cannot be reached: nothing leaves warm", "err", err)
		return false
	}
	s.unpark("demote", "everything")
	return true
}
