package bench

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/s3"
	"github.com/tierd/tierd/hot/redis"
	"github.com/tierd/tierd/router"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm/postgres"
)

// namespace is where all documents of a node go.
const namespace = "chats"

// segmentBytes is the size of a segment's documents, the engine's default.
const segmentBytes = 8 << 20

// node is tierd over the real servers, in places of its own.
type node struct {
	*router.Router
	hot    *redis.Store
	warm   *postgres.Store
	schema string
	tally  tally

	// Of a node that archives:
	engine          *lifecycle.Engine
	primary, backup *counted
	gate            gate
	acknowledged    atomic.Int64
	lag             float64 // segments that waited at the end of a slice, at most
}

// nodeOptions shape a node.
type nodeOptions struct {
	query    bool // keep projections
	archived bool // over two buckets, with an engine
	settings map[string]string
}

func (b *bench) openNode(ctx context.Context, name string, o nodeOptions) (*node, error) {
	place, err := b.schema(ctx, name, o.settings)
	if err != nil {
		return nil, err
	}
	n := &node{schema: b.id + "_" + name}
	if n.warm, err = postgres.Open(ctx, place, nil); err != nil {
		return nil, err
	}
	b.later(func(context.Context) error { return n.warm.Close() })
	epoch, err := n.warm.HotEpoch(ctx)
	if err != nil {
		return nil, err
	}
	if n.hot, err = redis.Open(ctx, b.Hot, &redis.Options{Epoch: epoch}); err != nil {
		return nil, err
	}
	b.later(func(ctx context.Context) error { return errors.Join(n.hot.Forget(ctx, epoch), n.hot.Close()) })
	config := router.Config{Hot: n.hot, Warm: n.warm, Committers: n.warm.Capabilities().Committers, Recorder: &n.tally}
	if o.archived {
		if err := b.openCold(ctx, name, n); err != nil {
			return nil, err
		}
		archive := cold.NewArchive(n.primary, n.backup, nil)
		n.engine = lifecycle.New(lifecycle.Config{Warm: &gated{n.warm, &n.gate}, Archive: archive, Hot: n.hot, Holder: b.id, SegmentBytes: segmentBytes})
		config.Archive, config.Background = archive, n.engine
	}
	n.Router = router.New(config)
	b.later(func(context.Context) error { n.Router.Close(); return nil })
	_, err = n.SetNamespace(ctx, namespace, tiering.Policy{Query: &o.query}, nil)
	return n, err
}

func (b *bench) openCold(ctx context.Context, name string, n *node) error {
	for _, c := range []struct {
		url string
		to  **counted
	}{{b.Cold, &n.primary}, {b.Backup, &n.backup}} {
		place, err := under(c.url, b.id+"/"+name)
		if err != nil {
			return err
		}
		bucket, err := s3.Open(ctx, place, nil)
		if err != nil {
			return err
		}
		b.later(func(ctx context.Context) error { return errors.Join(emptied(ctx, bucket), bucket.Close()) })
		*c.to = &counted{Bucket: bucket}
	}
	return nil
}

func (n *node) write(ctx context.Context, id string, doc []byte) error {
	_, err := n.Put(ctx, namespace, id, doc, nil)
	if err == nil {
		n.acknowledged.Add(1)
	}
	return err
}

// router makes a contestant of a node.
func (b *bench) router(ctx context.Context, name string, o nodeOptions) (*contestant, error) {
	n, err := b.openNode(ctx, name, o)
	if err != nil {
		return nil, err
	}
	c := &contestant{name: name, write: n.write, begin: n.tally.reset, note: n.tally.String}
	if o.query {
		c.settle = n.warm.Project
	}
	if o.archived {
		b.archiving(n, c)
	}
	return c, nil
}
