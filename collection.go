package tierd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
)

// Collect merges small segments, drops from cold what retention no longer
// keeps, and deletes what was replaced a grace period ago: all that is due,
// now. A dry run only says what that would be. The node's background work does
// the same by itself, in small steps.
func (n *Node) Collect(ctx context.Context, dryRun bool) (lifecycle.GCReport, error) {
	r, err := n.engine.GC(ctx, dryRun)
	return r, tiering.Wrap(err, "collect", "", tiering.Key{})
}

// Collect does what Node.Collect does without a node: it opens the warm and
// cold tiers that c names, and starts no background work, so that a dry run
// changes nothing. It is ErrInUse while a daemon uses the data folder, and
// not_found when there is no store yet.
func Collect(ctx context.Context, c Config, dryRun bool) (r lifecycle.GCReport, err error) {
	err = withEngine(ctx, c, func(e *lifecycle.Engine) error {
		r, err = e.GC(ctx, dryRun)
		return tiering.Wrap(err, "collect", "", tiering.Key{})
	})
	return r, err
}

// storeExists refuses an embedded store that is not there: opening would make
// an empty one under a name that was mistyped.
func storeExists(c Config) error {
	name, file := scheme(c.Warm, "sqlite:")
	if name != "sqlite" {
		return nil
	}
	file = c.warmFile(file)
	_, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return tiering.Errorf(tiering.CodeNotFound, "there is no store at %s", file)
	}
	if err != nil {
		return fmt.Errorf("look for the store: %w", err)
	}
	return nil
}

// Sweep takes every move in warm that is due now, as the background does every
// minute: it expires, demotes and retires. It fails with lease_held where
// another daemon sweeps.
func (n *Node) Sweep(ctx context.Context) error { return n.engine.Sweep(ctx) }
