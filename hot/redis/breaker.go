package redis

import (
	"context"
	"errors"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

const (
	// tripAfter exchanges in a row without an answer, the breaker opens. One is
	// not enough: while it is open writers cannot mark what they write.
	tripAfter = 3
	// restFor is how long an open breaker lets Redis alone before a probe.
	restFor = time.Second
	// probeEvery is how often the watcher looks whether a probe is due.
	probeEvery = 250 * time.Millisecond
)

// newBreaker is one breaker for all of Redis: in a cluster, a node that does not
// answer takes hot away as a whole until the cluster has put another in its
// place.
func newBreaker() *gobreaker.TwoStepCircuitBreaker[struct{}] {
	return gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:         "redis",
		MaxRequests:  1,
		Timeout:      restFor,
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= tripAfter },
		IsSuccessful: answered,
	})
}

// answered reports whether Redis said something, be it no.
func answered(err error) bool {
	var reply goredis.Error
	return err == nil || errors.As(err, &reply)
}

// probe lets one ping through a breaker that has rested. Callers never probe:
// while Redis hangs they would wait for nothing.
func (s *Store) probe() {
	if s.breaker.State() != gobreaker.StateHalfOpen {
		return
	}
	done, err := s.breaker.Allow()
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.Timeout)
	defer cancel()
	done(s.client.Ping(ctx).Err())
}
