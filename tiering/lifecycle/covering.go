package lifecycle

import (
	"context"
	"errors"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// covering is what keeps the history of a key, but for time.
type covering struct {
	keepFor  tiering.Duration
	versions int64
	pinned   bool
}

func coveringOf(p tiering.Policy, h warm.Head) covering {
	return covering{p.KeepFor, p.KeepVersions, h.Pinned}
}

// stands fails with errJudgedAnew unless what decided of the keys is as it was: a
// caller to whom a longer keep_for or a pin was acknowledged while a segment was
// written counts on it.
func (g *collection) stands(ctx context.Context, judged map[tiering.Key]covering) error {
	fresh := g.newSweeper(g.now)
	for k, was := range judged {
		p, ok, err := fresh.policy(ctx, k)
		if err != nil {
			return err
		}
		cur, err := g.Warm.Head(ctx, k)
		if err != nil {
			return err
		}
		if !ok || coveringOf(p, cur.Head) != was {
			return errJudgedAnew
		}
	}
	return nil
}

// errJudgedAnew is a rewrite whose policies or pins changed meanwhile.
var errJudgedAnew = errors.New("what is to be kept has changed")
