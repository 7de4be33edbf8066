package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

const (
	// maxExchanges is how many pipelines are on their way at once. With one,
	// callers whose answers came together meet again in the next pipeline, but
	// a large value holds up all others; with more than two, pipelines get so
	// short that throughput falls.
	maxExchanges = 2
	// maxKeys and maxBytes bound a pipeline, so that what it carries gets
	// through within the timeout.
	maxKeys  = 512
	maxBytes = 1 << 20
)

// call is one caller's command: a script on keys, or a plain GET of the only one
// when script is nil.
type call struct {
	ctx    context.Context
	script *script
	keys   []string
	args   []any
	size   int // of what it carries

	done  chan struct{} // closed once the rest is set; nil when its caller sends it
	reply any
	at    int64 // for a GET: Redis' time just before it, in microseconds
	err   error
}

func (c *call) finish(reply any, err error) {
	c.reply, c.err = reply, err
	if c.done != nil {
		close(c.done)
	}
}

// underway reports whether c was given up by its caller, and may be read still.
func (c *call) underway() bool {
	if c.done == nil { // its caller has sent it, or nobody will
		return false
	}
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// queue sends the calls of many callers in few pipelines. A call goes out at
// once while fewer than maxExchanges pipelines are on their way, sent by its own
// caller, who would only wait for another goroutine else; if not it waits
// for one to come back and leaves with all that came meanwhile. A pipeline runs
// on a deadline of its own: no caller's context cuts off the others. The
// goroutines that send stay: a new one would grow its stack every time.
//
// It does what go-redis' AutoPipeline does at about its price, and two things
// more: a caller is let go when its own context ends, and a script that Redis
// has forgotten is sent again by its source.
type queue struct {
	client  goredis.UniversalClient
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	timeout time.Duration

	mu      sync.Mutex
	work    sync.Cond // there are calls to send, or the queue was closed
	waiting []*call
	alone   int // callers who send their own call
	senders int // goroutines that send, at most maxExchanges
	idle    int // those of them that nobody has woken
	closed  bool
	running sync.WaitGroup
}

func newQueue(client goredis.UniversalClient, breaker *gobreaker.TwoStepCircuitBreaker[struct{}], timeout time.Duration) *queue {
	q := &queue{client: client, breaker: breaker, timeout: timeout}
	q.work.L = &q.mu
	return q
}

// do carries c out and waits for its answer, no longer than its context lasts,
// or than an exchange may. A call that is given up may still be carried out.
func (q *queue) do(c *call) (any, error) {
	if err := q.doAll([]*call{c})[0]; err != nil {
		return nil, err
	}
	return c.reply, nil
}

// doAll is do of many calls, of one context, which leave together. The answer of
// a call without an error is in it.
func (q *queue) doAll(calls []*call) []error {
	errs := make([]error, len(calls))
	if len(calls) == 0 {
		return errs
	}
	alone, err := q.sendsAlone(calls)
	switch {
	case err != nil:
	case alone:
		q.send(calls)
		q.wasAlone()
	default:
		err = q.enter(calls)
	}
	for i, c := range calls {
		switch {
		case err != nil:
			errs[i] = err
		case alone:
			errs[i] = c.err
		default:
			errs[i] = c.wait()
		}
	}
	return errs
}

// sendsAlone reports whether the caller is to send its calls: a pipeline may
// leave, nobody stands in line, and the caller does not want to leave much
// earlier than an exchange may end.
func (q *queue) sendsAlone(calls []*call) (bool, error) {
	if until, ok := calls[0].ctx.Deadline(); ok && time.Until(until) < q.timeout/2 {
		return false, nil
	}
	size := 0
	for _, c := range calls {
		size += c.size
	}
	if q.breaker.State() != gobreaker.StateClosed {
		return false, ErrUnavailable
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false, ErrClosed
	}
	if len(q.waiting) > 0 || q.exchanges() >= maxExchanges || size > maxBytes {
		return false, nil
	}
	q.alone++
	q.running.Add(1)
	return true, nil
}

func (q *queue) wasAlone() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.alone--
	q.running.Done()
	if len(q.waiting) > 0 {
		q.wake()
	}
}

// exchanges is how many pipelines are on their way, or about to be. q.mu is held.
func (q *queue) exchanges() int { return q.alone + q.senders - q.idle }

// wake has a goroutine send what waits, if a pipeline may leave. q.mu is held.
func (q *queue) wake() {
	switch {
	case q.exchanges() >= maxExchanges:
	case q.idle > 0:
		q.idle--
		q.work.Signal()
	default:
		q.senders++
		q.running.Go(q.run)
	}
}

func (c *call) wait() error {
	select {
	case <-c.done:
		return c.err
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

// enter lets calls stand in line.
func (q *queue) enter(calls []*call) error {
	for _, c := range calls {
		c.done = make(chan struct{})
	}
	if q.breaker.State() != gobreaker.StateClosed {
		return ErrUnavailable
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return ErrClosed
	}
	q.waiting = append(q.waiting, calls...)
	q.wake()
	return nil
}

// run sends pipelines until the queue is closed and nobody waits.
func (q *queue) run() {
	for {
		calls := q.next()
		if calls == nil {
			return
		}
		q.send(calls)
	}
}

// next waits for the calls of the next pipeline, and takes them; nil once the
// queue is closed and there are none.
func (q *queue) next() []*call {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) == 0 {
		if q.closed {
			return nil
		}
		q.idle++
		q.work.Wait()
	}
	n, keys, bytes := 0, 0, 0
	for n < len(q.waiting) && keys < maxKeys && (n == 0 || bytes+q.waiting[n].size <= maxBytes) {
		keys += len(q.waiting[n].keys)
		bytes += q.waiting[n].size
		n++
	}
	calls := q.waiting[:n:n]
	if q.waiting = q.waiting[n:]; len(q.waiting) == 0 {
		q.waiting = nil
	}
	return calls
}

// send carries calls out through the breaker.
func (q *queue) send(calls []*call) {
	done, err := q.breaker.Allow()
	if err != nil {
		for _, c := range calls {
			c.finish(nil, ErrUnavailable)
		}
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), q.timeout)
	defer cancel()
	unknown, err := q.pipeline(ctx, calls, (*script).byName)
	if len(unknown) > 0 && err == nil {
		// Redis has forgotten the scripts: it was restarted or flushed.
		_, err = q.pipeline(ctx, unknown, (*script).bySource)
	}
	done(err)
}

// pipeline sends calls and finishes them, but for those whose script Redis does
// not know: these were not carried out, and are returned. The error is that of
// an exchange that failed as a whole or in part.
func (q *queue) pipeline(ctx context.Context, calls []*call, form func(*script, []string, []any) []any) (unknown []*call, err error) {
	p := q.client.Pipeline()
	cmds := make([]goredis.Cmder, len(calls))
	var clock *goredis.TimeCmd
	for i, c := range calls {
		switch {
		case c.ctx.Err() != nil: // nobody waits any more
		case c.script != nil:
			cmds[i] = p.Do(ctx, form(c.script, c.keys, c.args)...)
		default: // there is one server: its time at the head dates all GETs behind it
			if clock == nil {
				clock = p.Time(ctx)
			}
			cmds[i] = p.Get(ctx, c.keys[0])
		}
	}
	if p.Len() > 0 {
		// Each command has its own error; this one is only the first of them.
		_, _ = p.Exec(ctx)
	}
	for i, c := range calls {
		var reply any
		var failed error
		switch cmd := cmds[i].(type) {
		case nil:
			failed = c.ctx.Err()
			c.finish(nil, failed)
			continue
		case *goredis.Cmd:
			reply, failed = cmd.Result()
			if failed != nil && strings.HasPrefix(failed.Error(), "NOSCRIPT") {
				unknown = append(unknown, c)
				continue
			}
		case *goredis.StringCmd:
			reply, failed = q.dated(c, cmd, clock)
		}
		if !answered(failed) {
			failed = explain(failed)
			err = failed
		}
		c.finish(reply, failed)
	}
	return unknown, err
}

// dated is what a GET found, nil for nothing, with the time it was read.
func (q *queue) dated(c *call, cmd *goredis.StringCmd, clock *goredis.TimeCmd) (any, error) {
	now, err := clock.Result()
	if err != nil {
		return nil, err
	}
	c.at = now.UnixMicro()
	found, err := cmd.Bytes() // shares the reply's memory
	if errors.Is(err, goredis.Nil) {
		return []byte(nil), nil
	}
	return found, err
}

// explain says what a failed exchange is to the caller. Its own deadline, not
// the caller's, has passed when it timed out: that is no DeadlineExceeded.
func explain(err error) error {
	var timeout interface{ Timeout() bool }
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		return ErrTimeout
	}
	return fmt.Errorf("redis: %w", err)
}

// close lets nobody in any more and waits for what is on its way.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.work.Broadcast()
	q.mu.Unlock()
	q.running.Wait()
}
