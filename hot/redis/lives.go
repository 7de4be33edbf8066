package redis

import (
	"context"
	"errors"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

// lives are the replication ids of a cluster's servers that this store has met.
// A server has a new id after a failover and after a restart.
//
// One server, or a primary behind sentinels, needs no list: it keeps the id
// under which an epoch began in that epoch's marker, for daemons that start
// later or were away.
type lives struct {
	mu      sync.Mutex
	met     map[string]bool
	settled bool // what comes now was not there from the start
}

// meet reports whether id is news.
func (l *lives) meet(id string) (news bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	news = l.settled && len(l.met) > 0 && !l.met[id]
	if l.met == nil {
		l.met = map[string]bool{}
	}
	l.met[id] = true
	return news
}

func (l *lives) settle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settled = true
}

// onConnect is called for every new connection before it is used, so that the
// first answer of a server that failed over is already known to be one.
func (s *Store) onConnect() func(context.Context, *goredis.Conn) error {
	return func(ctx context.Context, conn *goredis.Conn) error {
		return s.identify(ctx, conn)
	}
}

// asker is a connection, or a client of one server.
type asker interface {
	InfoMap(ctx context.Context, sections ...string) *goredis.InfoCmd
	SetArgs(ctx context.Context, key string, value any, a goredis.SetArgs) *goredis.StatusCmd
}

// identify compares the life that the server behind conn lives with those it
// may live. A server that refuses to tell is taken as it is.
func (s *Store) identify(ctx context.Context, conn asker) error {
	e := s.epoch.Load()
	if e.IsZero() {
		return nil
	}
	info, err := conn.InfoMap(ctx, "replication").Result()
	if err != nil {
		return e.unlessRefused(err)
	}
	id := info["Replication"]["master_replid"]
	if info["Replication"]["role"] != "master" || id == "" {
		return nil // a sentinel, or a replica of one that is asked too
	}
	if s.clustered {
		if s.lives.meet(id) {
			s.end(e)
		}
		e.known.Store(true)
		return nil
	}
	began, err := conn.SetArgs(ctx, e.marker(), id, goredis.SetArgs{Mode: "NX", Get: true}).Result()
	if errors.Is(err, goredis.Nil) { // the epoch begins here, or its marker was evicted
		began, err = e.lived(id), nil
	}
	if err != nil {
		return e.unlessRefused(err)
	}
	if began != id {
		s.end(e)
	}
	e.live(id)
	e.known.Store(true)
	return nil
}

// identifyAll asks every server that holds keys. One that does not answer will
// be asked when it does.
func (s *Store) identifyAll() {
	ctx, cancel := context.WithTimeout(context.Background(), s.Timeout)
	defer cancel()
	_ = s.eachServer(ctx, func(ctx context.Context, node goredis.UniversalClient) error {
		return s.identify(ctx, node)
	})
}

func (e *epoch) unlessRefused(err error) error {
	if refusal, refused := errors.AsType[goredis.Error](err); refused {
		if !passing(refusal) {
			e.known.Store(true)
		}
		return nil
	}
	return err
}

// end says that e is over: what Redis holds of it may be old.
func (s *Store) end(e *epoch) {
	if e.over.CompareAndSwap(false, true) {
		s.nudge()
	}
}

func (s *Store) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// watch probes an open breaker, asks for the replication ids now and then, and
// tells when there is no epoch or it is over, until Close. An epoch that ended
// while Redis is away is told of when it is back: the next would miss writes too.
func (s *Store) watch() {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	var checked, told time.Time
	for {
		select {
		case <-s.stop:
			return
		case <-s.wake:
			told, checked = time.Time{}, time.Time{}
		case <-tick.C:
		}
		s.probe()
		if s.breaker.State() != gobreaker.StateClosed {
			continue
		}
		if time.Since(checked) >= s.CheckEvery {
			s.identifyAll()
			checked = time.Now()
		}
		if e := s.epoch.Load(); (e.IsZero() || e.over.Load()) && time.Since(told) >= s.CheckEvery {
			select {
			case s.ended <- e.HotEpoch:
			default: // what was told before has yet to be heard
			}
			told = time.Now()
		}
	}
}
