package cold

import (
	"context"
	"errors"

	"github.com/tierd/tierd/tiering"
)

// OpenIndex reads what one copy of a segment says of itself and checks it, but
// for the SHA-256: header, index and footer, not the blocks. It is what
// retention looks at before anything is rewritten. Records of the segment still
// read from the bucket, under ctx. not_found means that the bucket answered and
// has no such object.
func (a *Archive) OpenIndex(ctx context.Context, c tiering.Copy, name string) (*Segment, error) {
	s, err := a.openIndex(ctx, c, name)
	return s, tiering.Wrap(err, "read the index of "+name+" in "+c.String(), tiering.Cold, tiering.Key{})
}

func (a *Archive) openIndex(ctx context.Context, c tiering.Copy, name string) (*Segment, error) {
	b := a.buckets[c]
	info, err := b.Stat(ctx, name)
	if errors.Is(err, ErrNotExist) {
		return nil, &tiering.Error{Code: tiering.CodeNotFound, Err: err}
	}
	if err != nil {
		return nil, err
	}
	s, err := openIndex(&objectReader{ctx, b, name}, info.Size)
	if err != nil {
		return nil, err
	}
	return s, s.checkIndex()
}
