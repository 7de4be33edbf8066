package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/tierd/tierd/tiering"
)

func (s *Server) watchOperations() []*operation {
	return []*operation{{
		id: "watch", method: http.MethodGet, path: "/v1/watch", tag: "watch",
		summary: "Follow changes",
		about: "Server-sent events in the order of the feed. Every event has an id; a request with Last-Event-ID goes on behind that event, without gap or repeat, " +
			"or answers 410 when the feed no longer keeps it. A quiet stream carries a comment every 15 s, with the id up to which the feed was searched, unless it moved over acknowledgements alone, which it tells within an hour. " +
			"A reader that is too slow is cut and may resume. With consumer the position is kept by the node, and moves by acknowledgement alone. " +
			"A stream that fails after it began ends with an event \"problem\".",
		query: []param{
			{name: "namespace", about: "Only this namespace.", schema: str(), example: "runs"},
			{name: "prefix", about: "Only ids that begin so.", schema: str(), example: "run/"},
			{name: "id", about: "Only this document; needs namespace.", schema: str(), example: "run/7"},
			{name: "user", about: "Only this owner's.", schema: str(), example: "ada"},
			{name: "session", about: "Only this session's.", schema: str(), example: "s1"},
			{name: "from", about: "now, or start: all that the feed keeps.", schema: enum("now", "start"), example: "now"},
			{name: "after", about: "An event's id to go on behind, for clients that cannot set Last-Event-ID, which wins over it.", schema: str(), example: "01JF.4711.0"},
			{name: "consumer", about: "A name: go on behind what was acknowledged under it. The first watch of the name makes it; later ones have to watch the same.", schema: text(256), example: "mailer"},
			{name: "include", about: "data, previous, or both with a comma: the bodies after and before the change.", schema: str(), example: "data"},
		},
		headers: []param{{name: "Last-Event-ID", about: "The last event seen; browsers send it by themselves.", schema: str(), example: "01JF.4711.0"}},
		answers: []answer{{http.StatusOK, "The stream; the data of each event is an Event.", nil, &media{"text/event-stream", ref("Event"), nil}}},
		codes:   []tiering.Code{tiering.CodeGone, tiering.CodeRateLimited, tiering.CodeWrongKind},
		run:     (*call).watch,
	}}
}

func (c *call) watchOptions() (*tiering.WatchOptions, error) {
	include := c.q.words("include", "data", "previous")
	o := &tiering.WatchOptions{
		Namespace: c.q.text("namespace"), Prefix: c.q.text("prefix"), ID: c.q.text("id"),
		User: c.q.text("user"), Session: c.q.text("session"),
		From: c.q.choice("from", "now", "start"), After: c.q.text("after"), Consumer: c.q.text("consumer"),
		Data: include["data"], Previous: include["previous"],
	}
	if last := c.r.Header.Get("Last-Event-ID"); last != "" {
		o.After = last // a browser that reconnects asks with its first URL and this header
	}
	if o.Namespace != "" {
		if err := tiering.ValidateNamespace(o.Namespace); err != nil {
			return nil, err
		}
	}
	if o.ID != "" {
		if o.Namespace == "" || o.Prefix != "" {
			c.q.failf("id needs namespace and excludes prefix")
		} else if err := tiering.ValidateID(o.ID); err != nil {
			return nil, err
		}
	}
	return o, c.q.err
}

func (c *call) watch() error {
	o, err := c.watchOptions()
	if err != nil {
		return err
	}
	if c.r.Method == http.MethodHead {
		c.w.Header().Set("Content-Type", "text/event-stream")
		c.w.WriteHeader(http.StatusOK)
		return nil
	}
	if n := c.s.watchers.Add(1); n > int64(c.s.opts.MaxWatchers) {
		c.s.watchers.Add(-1)
		return tiering.Errorf(tiering.CodeRateLimited, "this node already serves %d watch streams", n-1)
	}
	defer c.s.watchers.Add(-1)

	ctx, cancel := context.WithCancel(c.ctx())
	defer cancel()
	w, err := c.svc.Watch(ctx, o)
	if err != nil {
		return err
	}
	defer w.Close()
	st := &stream{rc: http.NewResponseController(c.w), w: c.w, timeout: c.s.opts.StreamTimeout}
	// The limit on how long a request may take to arrive is not one on how
	// long its answer may last.
	if err := st.rc.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	h := c.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // proxies must not hold events back
	c.w.WriteHeader(http.StatusOK)
	if st.open(w) != nil {
		return nil
	}
	c.follow(ctx, cancel, w, st)
	return nil
}

// queued is how many events may wait between the feed and a slow reader.
const queued = 4

// follow sends events until the caller goes away, falls behind or the server
// stops. What reads the watcher has ended when it returns.
func (c *call) follow(ctx context.Context, cancel context.CancelFunc, w tiering.Watcher, st *stream) {
	events := make(chan handed, queued)
	failed := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		pump(ctx, w, events, failed)
	}()
	defer func() {
		cancel()
		_ = w.Close() // wakes a Next that does not look at its context
		<-done
	}()
	beat := time.NewTicker(c.s.opts.Heartbeat)
	defer beat.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-c.s.stopping:
			_ = st.comment("the server stops") // the stream ends whether it is heard or not
			return
		case <-beat.C:
			err = st.heartbeat(w, events)
		case e := <-events:
			err = st.event(e.Event, len(events) == 0)
			st.stood = e.stood
			beat.Reset(c.s.opts.Heartbeat)
		case cause := <-failed:
			c.end(ctx, st, events, cause)
			return
		}
		if err != nil {
			return // gone, or too slow: cut
		}
	}
}

// handed is an event, with where the watcher stood before anybody asked on from it.
type handed struct {
	tiering.Event
	stood string
}

// pump hands events on until the watcher fails or ctx ends.
func pump(ctx context.Context, w tiering.Watcher, events chan<- handed, failed chan<- error) {
	for {
		e, err := w.Next(ctx)
		if err != nil {
			failed <- err
			return
		}
		select {
		case events <- handed{e, standing(w)}:
		case <-ctx.Done():
			return
		}
	}
}

// end sends what was read before the watcher failed, then why it did.
func (c *call) end(ctx context.Context, st *stream, events <-chan handed, cause error) {
	for {
		select {
		case e := <-events:
			if st.event(e.Event, false) != nil {
				return
			}
			continue
		default:
		}
		break
	}
	if ctx.Err() != nil {
		return
	}
	p := tiering.ProblemOf(cause)
	if p.Status >= 500 {
		c.s.log.ErrorContext(ctx, "watch stream failed", "error", cause.Error())
	}
	_ = st.problem(p) // the stream ends whether it is heard or not
}

// stream writes server-sent events. Each write has its own deadline, so that a
// reader that stopped reading is noticed whatever the request's was.
type stream struct {
	rc      *http.ResponseController
	w       http.ResponseWriter
	timeout time.Duration
	buf     bytes.Buffer
	// stood is where the watcher stood when it returned the last event that was
	// sent, which is before that event: an id must not lead back behind it.
	stood string
}

// positioned is a watcher that says behind which id a reader goes on that had all
// it was handed out before the last Next. With it a client that loses a quiet
// stream resumes without a gap.
type positioned interface{ Position() string }

// open begins the stream, so that a client knows that it is watching.
func (s *stream) open(w tiering.Watcher) error {
	s.buf.Reset()
	if s.stood = standing(w); s.stood != "" {
		field(&s.buf, "id", s.stood)
	}
	s.buf.WriteString(": watching\n\n")
	return s.write(true)
}

// standing is where the watcher stands; "" when it does not say.
func standing(w tiering.Watcher) string {
	if p, ok := w.(positioned); ok {
		return p.Position()
	}
	return ""
}

// heartbeat says how far the feed was searched, when that is news and nothing waits
// to be sent. What the position stands behind was put into events before; so it
// was sent too, if events is empty after the position was read.
func (s *stream) heartbeat(w tiering.Watcher, events <-chan handed) error {
	s.buf.Reset()
	if at := standing(w); at != s.stood && len(events) == 0 {
		s.stood = at
		field(&s.buf, "id", at)
	}
	s.buf.WriteString(": \n\n")
	return s.write(true)
}

func (s *stream) comment(text string) error {
	s.buf.Reset()
	s.buf.WriteString(": " + text + "\n\n")
	return s.write(true)
}

func (s *stream) event(e tiering.Event, flush bool) error {
	s.buf.Reset()
	field(&s.buf, "id", e.ID)
	field(&s.buf, "event", e.Type)
	return s.data(e, flush)
}

func (s *stream) problem(p *tiering.Problem) error {
	s.buf.Reset()
	field(&s.buf, "event", "problem")
	return s.data(p, true)
}

// data writes v on one line and ends the event.
func (s *stream) data(v any, flush bool) error {
	s.buf.WriteString("data: ")
	enc := json.NewEncoder(&s.buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	s.buf.WriteByte('\n') // Encode ended the line; an empty one ends the event
	return s.write(flush)
}

func (s *stream) write(flush bool) error {
	if err := s.rc.SetWriteDeadline(time.Now().Add(s.timeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := s.w.Write(s.buf.Bytes()); err != nil {
		return err
	}
	if !flush {
		return nil
	}
	return s.rc.Flush()
}

// field writes a field of one line; a line break in a value would end it.
func field(b *bytes.Buffer, name, value string) {
	b.WriteString(name)
	b.WriteString(": ")
	b.WriteString(strings.NewReplacer("\n", "", "\r", "", "\x00", "").Replace(value))
	b.WriteByte('\n')
}
