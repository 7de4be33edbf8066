package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tierd/tierd/tiering"
)

// idleLimit is how long a stream may be silent. The node sends a comment far
// more often, so a silent stream is a dead one that TCP has not noticed.
const idleLimit = 45 * time.Second

// Watch streams changes in feed order until ctx ends or the watcher is closed.
// It returns once the node has taken the watch on. A lost connection is made
// anew behind the last event that Next returned, as often as it takes; what
// cannot pass by itself (gone, unauthenticated, forbidden, invalid) ends the
// stream and is returned by Next.
func (c *Client) Watch(ctx context.Context, o *tiering.WatchOptions) (tiering.Watcher, error) {
	if o == nil {
		o = &tiering.WatchOptions{}
	}
	r := newCall("watch", http.MethodGet, "/v1/watch", "", "")
	r.set("namespace", o.Namespace)
	r.set("prefix", o.Prefix)
	r.set("id", o.ID)
	r.set("user", o.User)
	r.set("session", o.Session)
	r.set("from", o.From)
	r.set("consumer", o.Consumer)
	var include []string
	if o.Data {
		include = append(include, "data")
	}
	if o.Previous {
		include = append(include, "previous")
	}
	r.set("include", strings.Join(include, ","))

	w := &watcher{c: c, call: r, caller: ctx, events: make(chan tiering.Event), done: make(chan struct{})}
	w.last.Store(&o.After)
	w.ctx, w.cancel = context.WithCancel(ctx)
	s, err := w.open()
	if err != nil {
		w.cancel()
		return nil, r.wrap(err)
	}
	go w.run(s)
	return w, nil
}

// watcher carries one watch over as many connections as it takes. One goroutine
// reads; it ends with the context, on Close, and on an error that stays.
type watcher struct {
	c      *Client
	call   *call
	caller context.Context // Watch's
	ctx    context.Context // ends with it, and on Close
	cancel context.CancelFunc

	last  atomic.Pointer[string] // the id to go on behind; only the reader sets it
	pause time.Duration          // the least delay before a new connection, as the node asked

	events chan tiering.Event // unbuffered: last never runs ahead of Next
	done   chan struct{}      // closed when the reader has ended
	err    error              // why it ended; read after done
}

// Next blocks until the next event.
func (w *watcher) Next(ctx context.Context) (tiering.Event, error) {
	select {
	case ev := <-w.events:
		return ev, nil
	case <-ctx.Done():
		return tiering.Event{}, w.call.wrap(ctx.Err())
	case <-w.done:
		return tiering.Event{}, w.call.wrap(w.err)
	}
}

// Position is an id to go on behind without a gap: an event that Next returned, or,
// on a quiet stream, how far the node has searched. "" until one is known. It may
// be behind the last event for a moment.
func (w *watcher) Position() string { return *w.last.Load() }

// Close ends the watch, unblocks Next and waits for the reader.
func (w *watcher) Close() error {
	w.cancel()
	<-w.done
	return nil
}

// open makes the first connection, in as many tries as any read.
func (w *watcher) open() (*stream, error) {
	for try := 1; ; try++ {
		s, err := w.connect()
		if err == nil {
			return s, nil
		}
		again := tiering.Retryable(err) && w.ctx.Err() == nil && try < w.c.retry.Attempts
		if !again || !w.c.retry.wait(w.ctx, try, retryAfter(err)) {
			return nil, err
		}
	}
}

// run reads stream after stream. Delays grow while connections bring nothing.
func (w *watcher) run(s *stream) {
	defer close(w.done)
	defer w.cancel()
	for try := 1; ; try++ {
		var err error
		if s == nil {
			s, err = w.connect()
		}
		if s != nil {
			var lively bool
			if lively, err = w.follow(s); lively {
				try = 1
			}
			s.close()
			s = nil
		}
		if w.ctx.Err() == nil && !tiering.Retryable(err) {
			w.err = err
			return
		}
		if !sleep(w.ctx, max(w.c.retry.delay(try), w.pause, retryAfter(err))) {
			w.err = w.ended()
			return
		}
	}
}

// ended is the error of a watch that the caller ended.
func (w *watcher) ended() error {
	if err := w.caller.Err(); err != nil {
		return err
	}
	return tiering.Errorf(tiering.CodeUnavailable, "the watch is closed")
}

// follow hands over the events of one connection until it breaks, and says
// whether it brought anything. The error is never nil.
func (w *watcher) follow(s *stream) (lively bool, err error) {
	for {
		fr, err := s.frames.next()
		if err != nil {
			return lively, streamError(w.ctx, err)
		}
		lively = true
		if fr.retry > 0 {
			w.pause = fr.retry
		}
		if fr.data == nil {
			if fr.hasID && !seen(fr.id, w.Position()) {
				w.last.Store(&fr.id) // where the feed stands for a watch that has seen nothing yet
			}
			continue
		}
		ev, err := eventOf(fr)
		if err != nil {
			return lively, err
		}
		if seen(fr.id, w.Position()) {
			continue
		}
		select {
		case w.events <- ev:
			if fr.hasID {
				w.last.Store(&fr.id)
			}
		case <-w.ctx.Done():
			return lively, w.ctx.Err()
		}
	}
}

// stream is one connection of a watch.
type stream struct {
	frames *frameReader
	body   io.Closer
	cancel context.CancelFunc
}

func (s *stream) close() {
	s.cancel()
	s.body.Close()
}

// connect asks for the events behind w.last, once.
func (w *watcher) connect() (_ *stream, err error) {
	ctx, cancel := context.WithCancel(w.ctx)
	idle := time.AfterFunc(idleLimit, cancel)
	defer func() {
		if err != nil {
			idle.Stop()
			cancel()
		}
	}()
	last := w.Position()
	if last != "" {
		w.call.query.Del("from")
	}
	req, err := w.c.request(ctx, w.call)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/event-stream, application/problem+json")
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	res, err := w.c.stream.Do(req)
	if err != nil {
		return nil, transportError(w.ctx, err)
	}
	if isType(res.Header, "text/event-stream") && res.StatusCode == http.StatusOK {
		frames := newFrameReader(&idleReader{r: res.Body, timer: idle})
		return &stream{frames: frames, body: res.Body, cancel: cancel}, nil
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, MaxAnswer))
	if err != nil {
		return nil, transportError(w.ctx, err)
	}
	return nil, errorOf(res, body)
}

// idleReader lets timer run while a read waits, and only then: a slow consumer
// is not a dead connection.
type idleReader struct {
	r     io.Reader
	timer *time.Timer
}

func (i *idleReader) Read(p []byte) (int, error) {
	i.timer.Reset(idleLimit)
	n, err := i.r.Read(p)
	i.timer.Stop()
	return n, err
}

func streamError(ctx context.Context, err error) error {
	if errors.Is(err, errFrameTooLarge) {
		return &tiering.Error{Code: tiering.CodeTooLarge, Err: err}
	}
	return transportError(ctx, err)
}
