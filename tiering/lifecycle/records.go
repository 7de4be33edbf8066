package lifecycle

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// The bounds of one read of bodies from warm.
const (
	readPage  = 1000
	readBytes = 2 << 20
)

// records turns changes into records, with their bytes from warm. Those whose
// bytes are missing or damaged are left out: the rest must not wait for what is
// gone, and without a location such a version never leaves warm.
func (e *Engine) records(ctx context.Context, changes []positioned) (out []cold.Record, missing []positioned, err error) {
	out = make([]cold.Record, 0, len(changes))
	var puts []warm.KeyVersion
	for _, c := range changes {
		if c.Op == tiering.OpPut {
			puts = append(puts, warm.KeyVersion{Key: c.Key, Version: c.Version})
		}
	}
	group, gctx := errgroup.WithContext(ctx)
	pages := make(chan []warm.Version, 1)
	group.Go(func() error {
		defer close(pages)
		return e.readVersions(gctx, puts, pages)
	})
	var page []warm.Version
	for _, c := range changes {
		rec := cold.Record{
			Key: c.Key, Op: c.Op, Version: c.Version, Revision: c.Revision, Prev: c.Prev, Pos: c.pos, At: c.At,
			CreatedAt: c.CreatedAt, ExpiresAt: c.ExpiresAt, TTL: c.TTL, User: c.User, Pinned: c.Pinned, Query: c.Query, Digest: c.Digest,
		}
		if c.Op == tiering.OpPut {
			if len(page) == 0 {
				page = <-pages
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

// readVersions reads versions a page at a time, one page ahead of who takes
// them.
func (e *Engine) readVersions(ctx context.Context, of []warm.KeyVersion, pages chan<- []warm.Version) error {
	for len(of) > 0 {
		page, err := e.Warm.ReadVersions(ctx, of[:min(len(of), readPage)], readBytes)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return tiering.Errorf(tiering.CodeUnavailable, "warm answers nothing of %d versions asked for", len(of))
		}
		of = of[len(page):]
		select {
		case pages <- page:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
