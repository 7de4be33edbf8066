package tierd

import (
	"context"
	"errors"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
)

// Usage tells what the tiers hold and the pace of the last days, 0 being 30. It
// changes nothing, and walks all documents: of a large store it takes a while.
func (n *Node) Usage(ctx context.Context, days int) (*tiering.Usage, error) {
	return n.engine.Usage(ctx, days)
}

// Usage does what Node.Usage does without a node: it opens the tiers that c
// names, and starts no background work. Hot is left out when it is the memory of
// a daemon or does not answer. It is ErrInUse while a daemon uses the data
// folder, and not_found when there is no store yet.
func Usage(ctx context.Context, c Config, days int) (u *tiering.Usage, err error) {
	err = withEngine(ctx, c, func(e *lifecycle.Engine) (err error) {
		if name, _ := scheme(c.Hot, "memory:"); name != "memory" {
			t := tiers{warm: e.Warm}
			switch err := t.openHot(ctx, c); {
			case err == nil:
				e.Hot = t.hot
				defer func() { err = errors.Join(err, t.close()) }()
			case tiering.CodeOf(err) == tiering.CodeInvalid:
				return err
			}
		}
		u, err = e.Usage(ctx, days)
		return err
	})
	return u, err
}
