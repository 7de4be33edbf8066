package lifecycle

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// readersAtOnce is how many documents are read at once.
const readersAtOnce = 8

// documents reads the current bytes of every document that stands, from where
// they lie.
func (v *verification) documents(ctx context.Context) error {
	var after tiering.Key
	for {
		page, err := v.Warm.Walk(ctx, after, walkPage)
		if err != nil {
			return err
		}
		var mu sync.Mutex
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(readersAtOnce)
		for _, cur := range page {
			after = cur.Head.Key
			if !cur.Head.Live(cur.Now) {
				continue
			}
			v.report.Documents++
			g.Go(func() error {
				f, err := v.document(gctx, cur.Head)
				if f != nil {
					mu.Lock()
					defer mu.Unlock()
					v.fault(*f)
				}
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		if len(page) < walkPage {
			return nil
		}
	}
}

// document says what is wrong with the bytes of a document, nil for nothing.
func (v *verification) document(ctx context.Context, h warm.Head) (*Fault, error) {
	f := &Fault{What: "document", Tenant: h.Key.Tenant, Key: h.Key.String(), Version: h.Version}
	cur, err := v.Warm.Load(ctx, h.Key)
	if err != nil && !errors.Is(err, tiering.ErrCorrupt) {
		return nil, err
	}
	if err == nil && (cur.Head.Version != h.Version || !cur.Head.Live(cur.Now)) {
		return nil, nil //nolint:nilnil // it was written meanwhile
	}
	if err == nil && cur.Head.InWarm {
		if tiering.DigestOf(cur.Body) == cur.Head.Digest {
			return nil, nil //nolint:nilnil // nothing is wrong
		}
		err = errDamagedInWarm
	}
	if err != nil {
		f.Detail = err.Error()
		if v.Repair {
			done, err := v.mend(ctx, h.Key, h.Version)
			if f.Repaired = done; err != nil {
				f.Detail += "; it could not be mended: " + err.Error()
			}
		}
		return f, nil
	}
	_, ok, err := v.fromCold(ctx, h.Key, h.Version)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		f.Detail = err.Error()
	case !ok:
		f.Detail = "its bytes are not in warm, and no location holds the version"
	default:
		return nil, nil //nolint:nilnil // nothing is wrong
	}
	if now, err := v.Warm.Head(ctx, h.Key); err != nil || now.Head.Version != h.Version || now.Head.InWarm {
		return nil, err // it was written or promoted meanwhile
	}
	return f, nil
}

var errDamagedInWarm = errors.New("the bytes in warm do not match their digest")
