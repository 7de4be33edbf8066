package cold

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/tierd/tierd/tiering"
)

// Read returns the record that made version, from either copy, with its body
// checked. It costs one ranged read of one block, none when the block is
// in memory because it was read twice lately. loc is a location of the key from the catalog.
//
// unavailable: a copy could not be reached and the other did not serve; the
// bytes may well be there. corrupt: both copies answered, and neither holds
// what the catalog says. not_found: the block is sound, and shows that the
// version is one of the gaps between those of the location. invalid: version
// is outside the location.
func (a *Archive) Read(ctx context.Context, loc tiering.Location, version int64) (Record, tiering.Copy, error) {
	return eitherCopy(ctx, a, loc.Segment, func(ctx context.Context, c tiering.Copy) (Record, error) {
		r, err := a.readFrom(ctx, c, loc, version, a.readBlock)
		return r, wrapRead(err, c, loc)
	})
}

// ReadFrom is Read from the bucket of one copy alone. It does not call OnBad.
func (a *Archive) ReadFrom(ctx context.Context, c tiering.Copy, loc tiering.Location, version int64) (Record, error) {
	r, err := a.readFrom(ctx, c, loc, version, func(loc tiering.Location, ref tiering.BlockRef, version int64, read func() ([]byte, error)) (Record, error) {
		block, err := read()
		if err != nil {
			return Record{}, err
		}
		return findVersion(&a.pool, block, loc.Key, ref.FirstVersion, version)
	})
	return r, wrapRead(err, c, loc)
}

func wrapRead(err error, c tiering.Copy, loc tiering.Location) error {
	return tiering.Wrap(err, "read "+loc.Segment+" from "+c.String(), tiering.Cold, loc.Key)
}

// blockReader finds a version in a block that read fetches.
type blockReader func(loc tiering.Location, ref tiering.BlockRef, version int64, read func() ([]byte, error)) (Record, error)

func (a *Archive) readFrom(ctx context.Context, c tiering.Copy, loc tiering.Location, version int64, find blockReader) (Record, error) {
	ref, ok := loc.Block(version)
	if !ok {
		return Record{}, tiering.Invalidf("version %d is outside the location's %d to %d", version, loc.MinVersion, loc.MaxVersion)
	}
	r, err := find(loc, ref, version, func() ([]byte, error) {
		block, err := a.buckets[c].Read(ctx, loc.Segment, ref.Offset, ref.Length)
		if err != nil {
			return nil, a.lost(ctx, c, loc.Segment, ref.Offset+ref.Length, err)
		}
		return block, nil
	})
	if errors.Is(err, tiering.ErrNotFound) && (version == loc.MinVersion || version == loc.MaxVersion) {
		err = corruptErr(err, "the catalog says that the segment holds the version")
	}
	return r, err
}

// Versions returns the index entries of the location's key and versions, in
// order, touches and pins included, from either copy: what history and as-of reads need to
// know before they read any body. It reads the segment's index, not its
// blocks. Errors are those of Read.
func (a *Archive) Versions(ctx context.Context, loc tiering.Location) ([]Entry, tiering.Copy, error) {
	return eitherCopy(ctx, a, loc.Segment, func(ctx context.Context, c tiering.Copy) ([]Entry, error) {
		entries, err := a.versions(ctx, c, loc)
		return entries, tiering.Wrap(err, "read the index of "+loc.Segment+" from "+c.String(), tiering.Cold, loc.Key)
	})
}

func (a *Archive) versions(ctx context.Context, c tiering.Copy, loc tiering.Location) ([]Entry, error) {
	info, err := a.buckets[c].Stat(ctx, loc.Segment)
	if err != nil {
		return nil, a.lost(ctx, c, loc.Segment, 0, err)
	}
	heard(ctx)
	s, err := openIndex(&objectReader{ctx, a.buckets[c], loc.Segment}, info.Size)
	if err != nil {
		return nil, a.lost(ctx, c, loc.Segment, info.Size, err)
	}
	if s.tenant != loc.Key.Tenant {
		return nil, corruptf("the segment belongs to another tenant")
	}
	var out []Entry
	cur := s.cursor()
	for e, ok := cur.next(); ok; e, ok = cur.next() {
		d := e.Key.Compare(loc.Key)
		if d > 0 {
			break
		}
		// A location may name less than the segment holds; one of no version is
		// of touches and pins alone.
		named := e.Version >= loc.MinVersion && e.Version <= loc.MaxVersion || loc.MaxVersion == 0 && !e.Op.Versioned()
		if d == 0 && named {
			out = append(out, e)
		}
	}
	if cur.err == nil && len(out) == 0 {
		return nil, corruptf("the catalog says that the segment holds the key")
	}
	return out, cur.err
}

// objectReader reads one object piece by piece.
type objectReader struct {
	ctx    context.Context
	bucket Bucket
	name   string
}

func (o *objectReader) ReadAt(p []byte, off int64) (int, error) {
	b, err := o.bucket.Read(o.ctx, o.name, off, int64(len(p)))
	heard(o.ctx)
	return copy(p, b), err
}

// lost makes corrupt of an error that says: the bucket was reached, and what
// should be there is not. A reply that ended early says so only when the object
// is indeed shorter than need; else the connection was cut.
func (a *Archive) lost(ctx context.Context, c tiering.Copy, name string, need int64, err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		info, statErr := a.buckets[c].Stat(ctx, name)
		if statErr == nil && info.Size < need {
			return corruptErr(err, "the object has %d bytes, not the %d that the catalog needs", info.Size, need)
		}
		if errors.Is(statErr, ErrNotExist) {
			err = statErr
		}
	}
	if errors.Is(err, ErrNotExist) {
		return corruptErr(err, "the object is gone")
	}
	return err
}

// eitherCopy asks one copy and, if that does not serve, the other. An answer
// that would be the same from both ends it.
func eitherCopy[T any](ctx context.Context, a *Archive, name string, read func(context.Context, tiering.Copy) (T, error)) (T, tiering.Copy, error) {
	var none T
	var worst error
	var spent time.Duration
	order := a.order()
	for i, c := range order {
		began := time.Now()
		v, err := patiently(ctx, a.patienceWith(c, i, spent), c, read)
		spent += time.Since(began)
		code := tiering.CodeOf(err)
		if err == nil || code == tiering.CodeNotFound || code == tiering.CodeInvalid {
			a.judges[c].Sound()
			a.failed[c].Store(0)
			return v, c, err
		}
		if ctx.Err() != nil {
			if time.Since(began) >= a.patience/2 {
				a.away(c)
			} // else the caller's time was up: that says nothing of the copy
			return none, c, err
		}
		if code != tiering.CodeCorrupt {
			a.away(c)
		} else {
			a.judges[c].Corrupt(name)
		}
		a.onBad(name, c, err)
		// One copy that could not be asked leaves hope; corrupt leaves none.
		if worst == nil || tiering.CodeOf(worst) == tiering.CodeCorrupt {
			worst = err
		}
	}
	return none, order[1], worst
}
