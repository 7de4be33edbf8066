package redis

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/tierd/tierd/tiering"
)

// epoch is one hot epoch: the prefix of its Redis keys, and whether Redis may
// have lost some of them.
type epoch struct {
	tiering.HotEpoch
	prefix string
	known  atomic.Bool // Redis was asked whether it lives the epoch's life
	over   atomic.Bool // Redis lives another life by now
	life   atomic.Pointer[string]
}

func newEpoch(e tiering.HotEpoch) *epoch {
	return &epoch{HotEpoch: e, prefix: "tierd:" + escape(e.String()) + ":"}
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
	return e.prefix + escape(k.Tenant) + ":" + escape(k.Namespace) + ":" + k.ID
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

// HotEpoch implements hot.Epochal.
func (s *Store) HotEpoch() tiering.HotEpoch { return s.epoch.Load().HotEpoch }

// Advance implements hot.Epochal. Reads are Pending until Redis has said, in a
// moment, whether it lives the life that e began in.
func (s *Store) Advance(e tiering.HotEpoch) {
	for {
		old := s.epoch.Load()
		if !e.Supersedes(old.HotEpoch) {
			return
		}
		if s.epoch.CompareAndSwap(old, newEpoch(e)) {
			s.nudge()
			return
		}
	}
}

// Ended implements hot.Epochal. It is told every Options.CheckEvery.
func (s *Store) Ended() <-chan tiering.HotEpoch { return s.ended }

// End implements hot.Epochal.
func (s *Store) End(ended tiering.HotEpoch) {
	if e := s.epoch.Load(); e.HotEpoch == ended {
		e.over.Store(true)
	}
}

// stands reports whether e is in use, and began in this life of Redis.
func (s *Store) stands(e *epoch) bool { return s.epoch.Load() == e && e.known.Load() && !e.over.Load() }

// keepMarker is how long the marker of an epoch that was forgotten stays: for
// longer than any daemon takes to learn that the epoch is over. Without it the
// epoch could begin anew.
const keepMarker = 24 * time.Hour

// Forget implements hot.Epochal. It looks at every key of the database. Most
// keys would go by themselves; documents that live in hot alone may have no end.
func (s *Store) Forget(ctx context.Context, forgotten tiering.HotEpoch) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	e := newEpoch(forgotten)
	err := s.eachPage(ctx, e.prefix, func(node goredis.UniversalClient, keys []string) error {
		p := node.Pipeline()
		for _, key := range keys {
			p.Unlink(ctx, key)
		}
		_, err := p.Exec(ctx)
		return err
	})
	return errors.Join(err, s.client.Expire(ctx, e.marker(), keepMarker).Err())
}
