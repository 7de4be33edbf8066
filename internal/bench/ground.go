package bench

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/dir"
	"github.com/tierd/tierd/cold/s3"
	"github.com/tierd/tierd/hot/redis"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm/postgres"
	"github.com/tierd/tierd/warm/sqlite"
)

// ground is where a measurement takes place: on the servers and disks of the
// user, in places of its own, so that no document of his is near.
type ground struct {
	*bench
	user tierd.Config // his tiers
	own  tierd.Config // the places in them
	node *tierd.Node
	hand byHand // nil where hot and warm are not both servers, or both in process
	// redis reaches the node's entries in Redis from beside; nil without Redis.
	redis *redis.Store
	// raw is a prefix of the primary bucket that the node does not know.
	raw cold.Bucket
}

// openGround makes the places, and opens a node in them.
func (b *bench) openGround(ctx context.Context, user tierd.Config) (*ground, error) {
	g := &ground{bench: b, user: user, own: tierd.Config{Hot: user.Hot, HotBytes: user.HotBytes, Vector: user.Vector, Embed: user.Embed}}
	for _, open := range []func(context.Context) error{g.openFolder, g.openWarm, g.openBuckets, g.openHot, g.start, g.openHand} {
		if err := open(ctx); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// kind is the scheme of a URL, or what stands without one.
func kind(url, otherwise string) string {
	name, _, _ := strings.Cut(url, ":")
	if name == "" {
		return otherwise
	}
	return name
}

func (g *ground) embedded() bool { return kind(g.user.Warm, "sqlite") == "sqlite" }
func (g *ground) onRedis() bool  { return strings.HasPrefix(kind(g.user.Hot, "memory"), "redis") }

// openFolder makes a folder on the disk of the data folder.
func (g *ground) openFolder(context.Context) error {
	data := g.user.Data
	if data == "" {
		data = "tierd-data"
	}
	if file, ok := strings.CutPrefix(g.user.Warm, "sqlite:"); ok && file != "" {
		data = filepath.Dir(file)
	}
	var err error
	g.own.Data, err = g.folder(data)
	return err
}

// folder makes a folder of this run's inside another, which goes too if it was
// not there before.
func (g *ground) folder(parent string) (string, error) {
	_, err := os.Stat(parent)
	made := errors.Is(err, fs.ErrNotExist)
	own := filepath.Join(parent, g.id)
	if err := os.MkdirAll(own, 0o700); err != nil {
		return "", err
	}
	g.later(func(context.Context) error {
		err := os.RemoveAll(own)
		if made {
			err = errors.Join(err, os.Remove(parent))
		}
		return err
	})
	return own, nil
}

func (g *ground) openWarm(ctx context.Context) (err error) {
	if g.embedded() {
		return nil // in the folder
	}
	g.own.Warm, err = g.schema(ctx, "node", nil)
	return err
}

func (g *ground) openBuckets(ctx context.Context) error {
	for _, c := range []struct {
		user string
		own  *string
	}{{g.user.Cold, &g.own.Cold}, {g.user.Backup, &g.own.Backup}} {
		if place, ok := strings.CutPrefix(c.user, "dir:"); c.user == "" || ok {
			if place == "" {
				continue // in the folder
			}
			folder, err := g.folder(place)
			if err != nil {
				return err
			}
			*c.own = "dir:" + folder
			continue
		}
		place, err := under(c.user, g.id+"/node")
		if err != nil {
			return err
		}
		bucket, err := s3.Open(ctx, place, nil)
		if err != nil {
			return err
		}
		g.later(func(ctx context.Context) error { return errors.Join(emptied(ctx, bucket), bucket.Close()) })
		*c.own = place
	}
	return g.openRaw(ctx)
}

func (g *ground) openRaw(ctx context.Context) (err error) {
	if kind(g.user.Cold, "dir") == "dir" {
		folder := g.own.Data
		if place, ok := strings.CutPrefix(g.own.Cold, "dir:"); ok {
			folder = place
		}
		g.raw, err = dir.Open(filepath.Join(folder, "raw"), nil)
	} else {
		var place string
		if place, err = under(g.user.Cold, g.id+"/raw"); err != nil {
			return err
		}
		g.raw, err = s3.Open(ctx, place, nil)
	}
	if err == nil {
		g.later(func(ctx context.Context) error { return errors.Join(emptied(ctx, g.raw), g.raw.Close()) })
	}
	return err
}

// start opens the node.
func (g *ground) start(ctx context.Context) (err error) {
	if g.node, err = tierd.Open(ctx, g.own); err != nil {
		return err
	}
	g.later(func(ctx context.Context) error { return g.stop(ctx) })
	return nil
}

func (g *ground) stop(ctx context.Context) error {
	if g.node == nil {
		return nil
	}
	err := g.node.Close(ctx)
	g.node = nil
	return err
}

// restart stops the node, and returns how long it takes until it is ready again.
func (g *ground) restart(ctx context.Context) (time.Duration, error) {
	if err := g.stop(ctx); err != nil {
		return 0, err
	}
	began := time.Now()
	node, err := tierd.Open(ctx, g.own)
	if err != nil {
		return 0, err
	}
	g.node = node
	err = node.Ready(ctx)
	return time.Since(began), err
}

// openHot reaches Redis beside the node, and sees that nothing of the node's
// stays there.
func (g *ground) openHot(ctx context.Context) error {
	if !g.onRedis() {
		return nil
	}
	epoch, err := g.hotEpoch(ctx)
	if err != nil {
		return err
	}
	if g.redis, err = redis.Open(ctx, g.user.Hot, &redis.Options{Epoch: epoch}); err != nil {
		return err
	}
	g.later(func(ctx context.Context) error {
		last, err := g.hotEpoch(ctx) // it may have ended on the way
		for e := epoch; err == nil && e.Count <= last.Count; e.Count++ {
			err = g.redis.Forget(ctx, e)
		}
		return errors.Join(err, g.redis.Close(), g.removeMarkers(ctx, epoch.Life))
	})
	return nil
}

// hotEpoch asks the warm store, while the node does not have it open.
func (g *ground) hotEpoch(ctx context.Context) (epoch tiering.HotEpoch, err error) {
	var store interface {
		HotEpoch(context.Context) (tiering.HotEpoch, error)
		Close() error
	}
	if g.embedded() {
		store, err = sqlite.Open(ctx, filepath.Join(g.own.Data, "warm.db"), nil)
	} else {
		store, err = postgres.Open(ctx, g.own.Warm, nil)
	}
	if err != nil {
		return epoch, err
	}
	epoch, err = store.HotEpoch(ctx)
	return epoch, errors.Join(err, store.Close())
}

// removeMarkers removes the few bytes that tell of epochs that are over.
func (g *ground) removeMarkers(ctx context.Context, life string) error {
	c, err := g.bench.redis()
	if err != nil {
		return nil // no single server: they end by themselves
	}
	var errs []error
	keys := c.Scan(ctx, 0, "*"+life+"*", 1000).Iterator()
	for keys.Next(ctx) {
		errs = append(errs, c.Unlink(ctx, keys.Val()).Err())
	}
	return errors.Join(append(errs, keys.Err(), c.Close())...)
}

// openHand opens what stands beside the node.
func (g *ground) openHand(ctx context.Context) (err error) {
	server := kind(g.user.Hot, "memory") == "redis" || kind(g.user.Hot, "memory") == "rediss"
	switch {
	case g.embedded() && !g.onRedis():
		g.hand, err = g.openInProcess(ctx, g.own.Data)
	case !g.embedded() && server:
		if g.hand, err = g.openStraight(ctx, "straight", nil); err == nil {
			err = g.findServers(ctx)
		}
	}
	return err
}

// forget makes hot lose the documents of the namespace, and the cache by hand
// too. The node is restarted for it: memory begins empty, and Redis is cleared
// under the epoch that stands by then.
func (g *ground) forget(ctx context.Context, keys int) error {
	if g.hand != nil {
		if err := g.hand.forget(ctx, keys); err != nil {
			return err
		}
	}
	if err := g.stop(ctx); err != nil {
		return err
	}
	if g.redis != nil {
		epoch, err := g.hotEpoch(ctx)
		if err != nil {
			return err
		}
		g.redis.Advance(epoch)
		if err := together(64, func(w int) error {
			for i := w; i < keys; i += 64 {
				if err := g.redis.Drop(ctx, tiering.Key{Tenant: tiering.DefaultTenant, Namespace: namespace, ID: keyName(i)}, 0, 0); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	_, err := g.restart(ctx)
	return err
}
