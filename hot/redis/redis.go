// Package redis is the hot tier in Redis 7 or later: one server, a primary
// that Sentinel watches over, or a cluster. Several daemons share it.
//
// A document is one Redis key that holds its value and its coherence marks
// together, and only Lua scripts change it (lua/state.lua has the layout). So a
// value and its marks change in one step, at a time told by Redis' own clock.
//
// Calls that meet go out in one pipeline. While Redis does not answer, a
// breaker lets calls fail at once; a probe closes it again.
//
// A server that fails over, or comes back from its disk, may have lost what it
// acknowledged. Every connection therefore asks for the server's replication id
// before it is used, and the store serves nothing under an epoch that began in
// another life of Redis, until it is told the next: see hot.Epochal.
package redis

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/internal/buffer"
	"github.com/tierd/tierd/tiering"
)

// Errors of calls that did not reach Redis, or must not. All pass.
var (
	// ErrClosed is returned by every method after Close.
	ErrClosed = errors.New("redis: the hot store is closed")
	// ErrUnavailable is returned while the breaker is open: Redis did not
	// answer a moment ago, and a probe is out.
	ErrUnavailable = errors.New("redis: the server did not answer lately")
	// ErrTimeout is returned when Redis does not answer within Options.Timeout.
	ErrTimeout = errors.New("redis: the server does not answer in time")
	// ErrFailedOver is returned where documents live in hot alone, between a
	// failover and Advance, and before the first epoch is known.
	ErrFailedOver = errors.New("redis: there is no hot epoch yet, or the server failed over and the next has not begun")
)

// Defaults of Options.
const (
	DefaultTimeout    = 250 * time.Millisecond
	DefaultCheckEvery = 2 * time.Second
)

// Options configures Open. The zero value works.
type Options struct {
	// Timing is how long marks live; every daemon must use the same.
	Timing hot.Timing
	// Epoch is the hot epoch to begin with, if it is known. It is part of every
	// Redis key: entries of another epoch are not seen. Zero: nothing is served
	// until Advance is called.
	Epoch tiering.HotEpoch
	// CheckEvery is how often the replication id is asked for, besides on every
	// new connection; 0 means DefaultCheckEvery.
	CheckEvery time.Duration
	// Timeout bounds one exchange with Redis, dialling included; 0 means
	// DefaultTimeout. A call that finds another exchange under way may wait for
	// two.
	Timeout time.Duration
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	d.Timing = d.Timing.WithDefaults()
	if d.Timeout <= 0 {
		d.Timeout = DefaultTimeout
	}
	if d.CheckEvery <= 0 {
		d.CheckEvery = DefaultCheckEvery
	}
	return d
}

// Store is a hot.Store in Redis. Its methods are safe for concurrent use.
type Store struct {
	Options
	client  goredis.UniversalClient
	cluster *goredis.ClusterClient // nil unless clustered
	// clustered says that keys are spread over servers, each with its clock.
	clustered bool
	scripts   scripts
	queue     *queue
	values    buffer.Pool // of exchanges that set
	breaker   *gobreaker.TwoStepCircuitBreaker[struct{}]

	epoch  atomic.Pointer[epoch]
	lives  lives
	ended  chan tiering.HotEpoch
	wake   chan struct{} // the watcher has something to do
	hits   atomic.Int64
	misses atomic.Int64
	lost   int64 // evictions of the server before Open

	closing sync.Once
	closed  atomic.Bool
	stop    chan struct{}
	running sync.WaitGroup // the watcher
}

var (
	_ hot.Store   = (*Store)(nil)
	_ hot.Epochal = (*Store)(nil)
	_ hot.Batcher = (*Store)(nil)
)

// Open connects to the server that url names; options may be nil. A server that
// cannot be reached is no error: the store finds it when it is back. One that
// answers with a refusal is. The caller closes the store.
//
//	redis://user:password@host:6379/0              rediss:// is the same over TLS
//	redis+sentinel://host1:26379,host2/master/0    rediss+sentinel://
//	redis+cluster://host1:6379,host2               rediss+cluster://
//
// User and password are those of the Redis servers; those of the sentinels are
// sentinel_username and sentinel_password of the query, which takes the options
// of go-redis URLs too.
func Open(ctx context.Context, url string, o *Options) (*Store, error) {
	s := &Store{
		Options: o.withDefaults(),
		ended:   make(chan tiering.HotEpoch, 1),
		wake:    make(chan struct{}, 1),
		stop:    make(chan struct{}),
		scripts: newScripts(),
	}
	s.epoch.Store(newEpoch(s.Options.Epoch))
	if err := s.dial(url); err != nil {
		return nil, err
	}
	s.breaker = newBreaker()
	s.queue = newQueue(s.client, s.breaker, s.Timeout)
	if err := s.greet(ctx); err != nil {
		return nil, errors.Join(err, s.client.Close())
	}
	s.lives.settle()
	s.running.Go(s.watch)
	return s, nil
}

// greet asks the server whether it takes us at all.
func (s *Store) greet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 4*s.Timeout)
	defer cancel()
	held, err := s.serverStats(ctx)
	var refusal goredis.Error
	if errors.As(err, &refusal) && !passing(refusal) {
		return err
	}
	s.lost = held.Evictions
	return nil
}

// passing reports whether a server refuses only while it starts or fails over.
func passing(refusal goredis.Error) bool {
	for _, prefix := range []string{"LOADING ", "MASTERDOWN ", "CLUSTERDOWN ", "TRYAGAIN ", "BUSY "} {
		if strings.HasPrefix(refusal.Error(), prefix) {
			return true
		}
	}
	return false
}

// Capabilities of this driver: daemons share it, and it outlives them.
func (s *Store) Capabilities() hot.Capabilities { return hot.Capabilities{Shared: true} }

// Ping implements hot.Store. It asks the server even while the breaker is open.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	return s.client.Ping(ctx).Err()
}

// ready is what every call asks first.
func (s *Store) ready(ctx context.Context) error {
	if s.closed.Load() {
		return ErrClosed
	}
	return ctx.Err()
}

// Close ends all connections, once what is on its way has been answered or
// timed out. Closing again does nothing.
func (s *Store) Close() error {
	var err error
	s.closing.Do(func() {
		s.closed.Store(true)
		close(s.stop)
		s.running.Wait()
		s.queue.close()
		err = s.client.Close()
	})
	return err
}
