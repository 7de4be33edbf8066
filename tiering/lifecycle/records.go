package lifecycle

import (
	"context"
	"iter"

	"golang.org/x/sync/errgroup"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// The bounds of one read of bodies from warm. Up to three such pages are held
// or under way beside what was taken: warm reads one while another is unpacked.
const (
	readPage  = 1000
	readBytes = 2 << 20
)

// records turns changes into records, with their bytes from warm. Those whose
// bytes are missing or damaged are left out: the rest must not wait for what is
// gone, and without a location such a version never leaves warm.
func (e *Engine) records(ctx context.Context, changes []positioned) (out []cold.Record, missing []positioned, err error) {
	out = make([]cold.Record, 0, len(changes))
	// The pages come in order, each by a reader of its own.
	group, gctx := errgroup.WithContext(ctx)
	pages := make(chan (<-chan []warm.Version), 1)
	group.Go(func() error {
		defer close(pages)
		for puts := range putPages(changes) {
			page := make(chan []warm.Version, 1)
			group.Go(func() error {
				defer close(page)
				read, err := e.readVersions(gctx, puts)
				page <- read
				return err
			})
			select {
			case pages <- page:
			case <-gctx.Done():
				return gctx.Err()
			}
		}
		return nil
	})
	var page []warm.Version
	for _, c := range changes {
		rec := cold.Record{
			Key: c.Key, Op: c.Op, Version: c.Version, Revision: c.Revision, Prev: c.Prev, Pos: c.pos, At: c.At,
			CreatedAt: c.CreatedAt, ExpiresAt: c.ExpiresAt, TTL: c.TTL, User: c.User, Pinned: c.Pinned, Query: c.Query, Digest: c.Digest,
		}
		if c.Op == tiering.OpPut {
			if len(page) == 0 {
				if next, ok := <-pages; ok {
					page = <-next
				}
			}
			if len(page) == 0 { // reading ended early
				break
			}
			v := page[0]
			page = page[1:]
			if v.Version != c.Version || tiering.DigestOf(v.Body) != c.Digest {
				missing = append(missing, c)
				continue
			}
			rec.Body = v.Body
		}
		out = append(out, rec)
	}
	if err := group.Wait(); err != nil {
		return nil, nil, err
	}
	return out, missing, nil
}

// putPages yields the versions whose bodies changes need, in their order, a page
// at a time.
func putPages(changes []positioned) iter.Seq[[]warm.KeyVersion] {
	return func(yield func([]warm.KeyVersion) bool) {
		var page []warm.KeyVersion
		var bytes int64
		for _, c := range changes {
			if c.Op != tiering.OpPut {
				continue
			}
			if len(page) == readPage || len(page) > 0 && bytes+c.Size > readBytes {
				if !yield(page) {
					return
				}
				page, bytes = nil, 0
			}
			page, bytes = append(page, warm.KeyVersion{Key: c.Key, Version: c.Version}), bytes+c.Size
		}
		if len(page) > 0 {
			yield(page)
		}
	}
}

// readVersions reads a page, by as many answers as warm makes of it.
func (e *Engine) readVersions(ctx context.Context, of []warm.KeyVersion) ([]warm.Version, error) {
	out := make([]warm.Version, 0, len(of))
	for len(out) < len(of) {
		some, err := e.Warm.ReadVersions(ctx, of[len(out):], readBytes)
		if err != nil {
			return nil, err
		}
		if len(some) == 0 {
			return nil, tiering.Errorf(tiering.CodeUnavailable, "warm answers nothing of %d versions asked for", len(of)-len(out))
		}
		out = append(out, some...)
	}
	return out, nil
}
