package redis

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
)

var errZeroToken = errors.New("redis: a mark needs a token other than 0")

// run carries a script out on key, under the epoch in use, and reports whether
// that epoch still stood when the answer came: an answer of a server that has
// just failed over is no answer.
func (s *Store) run(ctx context.Context, sc *script, key tiering.Key, size int, args ...any) (reply any, stands bool, err error) {
	if err := s.ready(ctx); err != nil {
		return nil, false, err
	}
	e := s.epoch.Load()
	reply, err = s.queue.do(&call{ctx: ctx, script: sc, keys: []string{e.redisKey(key)}, args: args, size: size})
	return reply, s.stands(e), err
}

// Get implements hot.Store. A hit is one GET. Without an epoch, and after a
// failover until the epoch has changed, every answer is Pending.
func (s *Store) Get(ctx context.Context, key tiering.Key, lease bool) (hot.Lookup, error) {
	l, stands, err := s.look(ctx, key)
	if err == nil && stands && lease && l.State == hot.Empty {
		l, stands, err = s.lease(ctx, key)
	}
	if err != nil {
		return hot.Lookup{}, err
	}
	if !stands {
		l = hot.Lookup{State: hot.Pending}
	}
	if l.State == hot.Present || l.State == hot.Deleted {
		s.hits.Add(1)
	} else {
		s.misses.Add(1)
	}
	return l, nil
}

func (s *Store) look(ctx context.Context, key tiering.Key) (l hot.Lookup, stands bool, err error) {
	if s.clustered {
		reply, stands, err := s.run(ctx, s.scripts.get, key, 0)
		if err != nil {
			return l, false, err
		}
		l, err = readDated(key, reply)
		return l, stands, err
	}
	if err := s.ready(ctx); err != nil {
		return l, false, err
	}
	e := s.epoch.Load()
	c := &call{ctx: ctx, keys: []string{e.redisKey(key)}}
	reply, err := s.queue.do(c)
	if err != nil {
		return l, false, err
	}
	found, _ := reply.([]byte)
	st, err := decodeState(found, c.at)
	if err == nil {
		l, err = st.lookup(key)
	}
	return l, s.stands(e), err
}

// lease looks again and takes the lease if it is free.
func (s *Store) lease(ctx context.Context, key tiering.Key) (l hot.Lookup, stands bool, err error) {
	token := newToken()
	reply, stands, err := s.run(ctx, s.scripts.lease, key, 0, tokenBytes(token), micros(s.Timing.Lease))
	if err != nil {
		return l, false, err
	}
	parts, _ := reply.([]any)
	switch {
	case len(parts) == 1 && parts[0] == int64(1):
		return hot.Lookup{State: hot.Empty, Lease: token}, stands, nil
	case len(parts) == 2 && len(text(parts[1])) == 8:
		return hot.Lookup{State: hot.Empty, Holder: hot.Token(binary.BigEndian.Uint64([]byte(text(parts[1]))))}, stands, nil
	case len(parts) == 4:
		l, err = readDated(key, parts[1:])
		return l, stands, err
	}
	return l, false, errReply
}

func newToken() hot.Token {
	for {
		if t := hot.Token(rand.Uint64()); t != 0 {
			return t
		}
	}
}

// Fill implements hot.Store. The lease is spent whatever comes of it.
func (s *Store) Fill(ctx context.Context, key tiering.Key, lease hot.Token, e hot.Entry, ttl time.Duration) (bool, error) {
	value := encodeValue(&e)
	reply, stands, err := s.run(ctx, s.scripts.fill, key, len(value), tokenBytes(lease),
		rankBytes(e.Meta.Version, e.Meta.Revision), micros(ttl), micros(s.Timing.Tombstone), value)
	return reply == int64(1) && stands, err
}

// Drop implements hot.Store.
func (s *Store) Drop(ctx context.Context, key tiering.Key, version, revision int64) error {
	rank := []byte(nil)
	if version != 0 {
		rank = rankBytes(version, revision)
	}
	_, _, err := s.run(ctx, s.scripts.drop, key, 0, rank, micros(s.Timing.Tombstone))
	return err
}

// micros rounds up: what is left of a life is not nothing.
func micros(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d + time.Microsecond - 1) / time.Microsecond)
}
