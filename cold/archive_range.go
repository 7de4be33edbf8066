package cold

import (
	"context"
	"errors"
	"slices"

	"github.com/tierd/tierd/tiering"
)

// RunOptions shape ReadRun.
type RunOptions struct {
	// From and To bound the versions, both inclusive.
	From, To int64
	// Descending takes the highest versions first.
	Descending bool
	// Limit is how many records are wanted, at least one.
	Limit int
	// MaxBytes bounds the bodies: no further record is taken once they make it,
	// but at least one is.
	MaxBytes int64
	// Keep says which records count; nil: all.
	Keep func(Record) bool
}

// ReadRun returns the puts of the location's key within a run of versions, from
// either copy, with their bodies checked, in the order asked for. It reads each
// block that may hold one of them once, and none that is not needed any more:
// what a log reads in place of one Read an entry. Errors are those of Read.
func (a *Archive) ReadRun(ctx context.Context, loc tiering.Location, o RunOptions) ([]Record, error) {
	recs, _, err := eitherCopy(ctx, a, loc.Segment, func(ctx context.Context, c tiering.Copy) ([]Record, error) {
		recs, err := a.readRun(ctx, c, loc, o)
		return recs, wrapRead(err, c, loc)
	})
	return recs, err
}

func (a *Archive) readRun(ctx context.Context, c tiering.Copy, loc tiering.Location, o RunOptions) (out []Record, err error) {
	o.From, o.To = max(o.From, loc.MinVersion), min(o.To, loc.MaxVersion)
	blocks := loc.Run(o.From, o.To)
	if o.Descending {
		slices.Reverse(blocks)
	}
	var bytes int64
	for _, ref := range blocks {
		recs, err := a.runOfBlock(ctx, c, loc, ref, o)
		if err != nil {
			return nil, err
		}
		if o.Descending {
			slices.Reverse(recs)
		}
		for _, r := range recs {
			if len(out) >= o.Limit || len(out) > 0 && bytes >= o.MaxBytes {
				return out, nil
			}
			if err := r.checkDigest(); err != nil {
				return nil, err
			}
			out = append(out, r)
			bytes += int64(len(r.Body))
		}
	}
	return out, nil
}

// runOfBlock returns what of a run one block holds, in order.
func (a *Archive) runOfBlock(ctx context.Context, c tiering.Copy, loc tiering.Location, ref tiering.BlockRef, o RunOptions) (out []Record, err error) {
	block, err := a.buckets[c].Read(ctx, loc.Segment, ref.Offset, ref.Length)
	if err != nil {
		return nil, a.lost(ctx, c, loc.Segment, ref.Offset+ref.Length, err)
	}
	heard(ctx)
	sound := false
	for r, err := range DecodeBlock(loc.Key.Tenant, block) {
		if err != nil {
			return nil, err
		}
		d := r.Key.Compare(loc.Key)
		if d > 0 || d == 0 && r.Version > o.To {
			break
		}
		if d < 0 || !r.Op.Versioned() {
			continue
		}
		sound = sound || r.Version == ref.FirstVersion
		if r.Op == tiering.OpPut && r.Version >= o.From && (o.Keep == nil || o.Keep(r)) {
			out = append(out, r)
		}
	}
	if !sound {
		return nil, corruptErr(errors.New("the versions beside it are others"), "the catalog says that the block holds the version")
	}
	return out, nil
}
