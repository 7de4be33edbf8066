package redis

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"

	goredis "github.com/redis/go-redis/v9"

	"github.com/tierd/tierd/tiering"
)

// epoch is one hot epoch: the prefix of its Redis keys, and whether Redis may
// have lost some of them.
type epoch struct {
	name   string
	prefix string
	over   atomic.Bool // Redis lives another life by now
	life   atomic.Pointer[string]
}

func newEpoch(name string) *epoch {
	return &epoch{name: name, prefix: "tierd:" + escape(name) + ":"}
}

// marker is the Redis key that holds the replication id under which the epoch
// began. No document's key is like it: it has no further colon.
func (e *epoch) marker() string { return strings.TrimSuffix(e.prefix, ":") }

// lived is the replication id seen last under this epoch, or id when there is
// none.
func (e *epoch) lived(id string) string {
	if last := e.life.Load(); last != nil {
		return *last
	}
	return id
}

func (e *epoch) live(id string) { e.life.Store(&id) }

// redisKey is tierd:EPOCH:TENANT:NAMESPACE:ID. In a cluster the whole of it, or
// what braces of the id enclose, chooses the node: a script has one key.
func (e *epoch) redisKey(k tiering.Key) string {
	return e.space(k.Tenant, k.Namespace) + k.ID
}

// space is what all keys of one namespace begin with.
func (e *epoch) space(tenant, namespace string) string {
	return e.prefix + escape(tenant) + ":" + escape(namespace) + ":"
}

// escape makes a part of a key free of colons.
func escape(part string) string {
	if !strings.ContainsAny(part, ":%") {
		return part
	}
	return strings.NewReplacer("%", "%25", ":", "%3A").Replace(part)
}

// Epoch is the epoch in use.
func (s *Store) Epoch() string { return s.epoch.Load().name }

// SetEpoch changes the epoch: from now on entries of others are not seen. With
// the epoch in use it does nothing. Calls that are on their way may still be
// carried out under the one before.
func (s *Store) SetEpoch(name string) {
	for {
		old := s.epoch.Load()
		if old.name == name || s.epoch.CompareAndSwap(old, newEpoch(name)) {
			break
		}
	}
	s.nudge()
}

// stands reports whether e is in use, and began in this life of Redis.
func (s *Store) stands(e *epoch) bool { return s.epoch.Load() == e && !e.over.Load() }

// Forget removes everything of an epoch that no daemon uses any more. It looks
// at every key of the database.
func (s *Store) Forget(ctx context.Context, name string) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	e := newEpoch(name)
	err := s.eachPage(ctx, e.prefix, func(node goredis.UniversalClient, keys []string) error {
		p := node.Pipeline()
		for _, key := range keys {
			p.Unlink(ctx, key)
		}
		_, err := p.Exec(ctx)
		return err
	})
	return errors.Join(err, s.client.Unlink(ctx, e.marker()).Err())
}
