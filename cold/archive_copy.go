package cold

import (
	"context"

	"github.com/tierd/tierd/tiering"
)

// CopyReader reads one copy alone, for whoever reads many versions that lie
// together: each block is fetched once, for as long as the reader lives. It is for
// one goroutine.
type CopyReader struct {
	archive *Archive
	copied  tiering.Copy
	blocks  map[blockAt]fetched
}

// blockAt is where a block begins.
type blockAt struct {
	segment string
	offset  int64
}

// fetched is a block as it is stored, or why it could not be fetched: a bucket that
// does not answer is waited for once.
type fetched struct {
	block []byte
	err   error
}

// CopyReader returns a reader of a copy that has fetched nothing yet.
func (a *Archive) CopyReader(c tiering.Copy) *CopyReader {
	return &CopyReader{archive: a, copied: c, blocks: map[blockAt]fetched{}}
}

// Read is Archive.Read from this copy alone. It does not call OnBad.
func (r *CopyReader) Read(ctx context.Context, loc tiering.Location, version int64) (Record, error) {
	a := r.archive
	rec, err := a.readFrom(ctx, r.copied, loc, version, func(loc tiering.Location, ref tiering.BlockRef, version int64, read func() ([]byte, error)) (Record, error) {
		at := blockAt{loc.Segment, ref.Offset}
		got, ok := r.blocks[at]
		if !ok {
			got.block, got.err = read()
			r.blocks[at] = got
		}
		if got.err != nil {
			return Record{}, got.err
		}
		return findVersion(&a.pool, got.block, loc.Key, ref.FirstVersion, version)
	})
	return rec, wrapRead(err, r.copied, loc)
}
