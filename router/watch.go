package router

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// watchPage is how many transactions a watcher reads at a time.
const watchPage = 256

// Watch streams changes in feed order, from where o says.
func (r *Router) Watch(ctx context.Context, o *tiering.WatchOptions) (tiering.Watcher, error) {
	for {
		w, err := r.watch(ctx, orZero(o))
		if errors.Is(err, errConsumerMade) {
			continue
		}
		if err != nil {
			return nil, tiering.Wrap(err, "watch", "", tiering.Key{})
		}
		return w, nil
	}
}

func (r *Router) watch(ctx context.Context, o tiering.WatchOptions) (*watcher, error) {
	if err := r.admitWatch(ctx, &o); err != nil {
		return nil, err
	}
	joined, err := r.join(ctx, &o)
	if err != nil {
		return nil, err
	}
	epoch, err := r.Warm.Epoch(ctx)
	if err != nil {
		return nil, tiering.Wrap(err, "", tiering.Warm, tiering.Key{})
	}
	first, last, err := r.Warm.FeedBounds(ctx)
	if err != nil {
		return nil, tiering.Wrap(err, "", tiering.Warm, tiering.Key{})
	}
	// Judged behind the position that the watch starts from: a key revoked since
	// it was authenticated is either seen here or in the feed.
	w := &watcher{r: r, o: o, epoch: epoch, skip: -1}
	if err := w.admitted(ctx); err != nil {
		return nil, err
	}
	w.closed, w.close = context.WithCancel(r.closing)
	context.AfterFunc(ctx, w.close) // the stream ends with the context that asked for it
	switch {
	case o.After != "":
		w.pos, w.skip, err = parseEventID(epoch, o.After)
		if err == nil && w.pos > last {
			err = tiering.Invalidf("event id %q lies in the future", o.After)
		}
		if w.skip >= 0 {
			w.pos-- // the rest of the transaction it was part of comes first
		}
		if err == nil && w.pos+1 < first {
			err = tiering.Errorf(tiering.CodeGone, "event %s is older than what the feed keeps: read the state, then watch from now", o.After)
		}
	case o.From == "" || o.From == "now":
		w.pos = last
	case o.From == "start":
		w.pos = max(first-1, 0)
	default:
		err = tiering.Invalidf("from %q: use now or start", o.From)
	}
	w.settle()
	if err == nil && joined == nil && o.Consumer != "" {
		err = r.makeConsumer(ctx, o, w.Position())
	}
	if err != nil {
		w.close()
		if joined != nil && o.After == joined.Position {
			err = goneConsumer(o.Consumer, err)
		}
		return nil, err
	}
	return w, nil
}

func (r *Router) admitWatch(ctx context.Context, o *tiering.WatchOptions) error {
	if o.Namespace != "" {
		if err := r.admitNamespace(tiering.VerbRead, o.Namespace); err != nil {
			return err
		}
		p, err := r.policyOf(ctx, r.who.Tenant, o.Namespace)
		if err != nil {
			return err
		}
		if !p.Durable() {
			return tiering.Errorf(tiering.CodeUnsupported, "namespace %q is ephemeral: it has no feed to watch", o.Namespace)
		}
	} else if err := r.allow(tiering.VerbRead, ""); err != nil {
		return err
	}
	if o.ID != "" && o.Namespace == "" {
		return tiering.Invalidf("id needs a namespace")
	}
	if o.Session != "" {
		if o.Namespace != "" || o.Prefix != "" {
			return tiering.Invalidf("session goes without namespace, id and prefix")
		}
		if err := (sessions{r}).admitSession(tiering.VerbRead, o.Session); err != nil {
			return err
		}
	}
	user, err := r.ownerOf(o.User)
	o.User = user
	return err
}

// parseEventID reads epoch.pos.index, an event, or epoch.pos, a position with
// all its events, whose index is -1. An id of another epoch is gone: that life
// of the store has ended.
func parseEventID(epoch, id string) (pos int64, index int, err error) {
	parts := strings.Split(id, ".")
	bad := tiering.Invalidf("event id %q: use the id of an event", id)
	if len(parts) != 2 && len(parts) != 3 {
		return 0, -1, bad
	}
	pos, err = strconv.ParseInt(parts[1], 10, 64)
	if err != nil || pos < 0 {
		return 0, -1, bad
	}
	index = -1
	if len(parts) == 3 {
		index, err = strconv.Atoi(parts[2])
		if err != nil || index < 0 || pos == 0 {
			return 0, -1, bad
		}
	}
	if parts[0] != epoch {
		return 0, -1, tiering.Errorf(tiering.CodeGone, "event %s is of an earlier life of the store: read the state, then watch from now", id)
	}
	return pos, index, nil
}

// watcher reads the feed behind its own position. It holds nothing but one
// page, so a slow reader costs no memory: it falls behind until the feed is
// trimmed, and is then told that it did.
type watcher struct {
	r      *Router
	o      tiering.WatchOptions
	epoch  string
	pos    int64 // the last transaction read
	skip   int   // changes of transaction pos+1 to leave out, up to this index; -1 for none
	ready  []tiering.Event
	ended  error     // why there is nothing behind ready
	judged time.Time // when the key was last looked up, on the local clock
	closed context.Context
	close  context.CancelFunc
	once   sync.Once
	// news says that something but acknowledgements was read since settled moved.
	news bool
	// settled is the id behind which nothing was handed out yet that the caller has
	// not asked on from.
	settled atomic.Pointer[watchPlace]
}

var errWatcherClosed = errors.New("the stream was closed")

// Position is an id to go on behind without a gap: every event up to it was
// returned by a Next that another one has followed, or was not wanted. It moves on
// while nothing is, and may be asked for from any goroutine.
func (w *watcher) Position() string {
	s := w.settled.Load()
	if w.r.Clock().Sub(s.since) >= quietHold {
		return s.at
	}
	return s.told
}

// quietHold is how long a position may stay behind transactions that only
// acknowledge, well within the day that the feed keeps.
const quietHold = time.Hour

// watchPlace is where a watch stands.
type watchPlace struct {
	at    string
	told  string // at, or what it was before acknowledgements alone moved it
	since time.Time
}

// settle notes where the watch stands when all that it read was handed out. What
// acknowledgements alone moved is held back for a while: who acknowledges a
// position makes the next one, and consumers would keep each other at work for ever.
func (w *watcher) settle() {
	at := fmt.Sprintf("%s.%d", w.epoch, w.pos)
	if w.skip >= 0 {
		at = eventID(w.epoch, w.pos+1, w.skip)
	}
	now := w.r.Clock()
	s := watchPlace{at, at, now}
	if before := w.settled.Load(); before != nil && !w.news && now.Sub(before.since) < quietHold {
		s.told, s.since = before.told, before.since
	}
	w.news = false
	w.settled.Store(&s)
}

func eventID(epoch string, pos int64, index int) string {
	return fmt.Sprintf("%s.%d.%d", epoch, pos, index)
}

// Next blocks until the next event.
func (w *watcher) Next(ctx context.Context) (tiering.Event, error) {
	if err := errors.Join(w.expired(ctx), w.admitted(ctx)); err != nil {
		return tiering.Event{}, tiering.Wrap(err, "watch", "", tiering.Key{})
	}
	for len(w.ready) == 0 {
		if w.ended != nil {
			return tiering.Event{}, tiering.Wrap(w.ended, "watch", "", tiering.Key{})
		}
		w.settle()
		if err := w.more(ctx); err != nil {
			return tiering.Event{}, tiering.Wrap(err, "watch", "", tiering.Key{})
		}
	}
	e := w.ready[0]
	if err := w.load(ctx, &e); err != nil {
		return tiering.Event{}, tiering.Wrap(err, "watch", "", tiering.Key{})
	}
	w.ready = w.ready[1:]
	return e, nil
}

// Close ends the stream.
func (w *watcher) Close() error {
	w.once.Do(w.close)
	return nil
}

// more waits for the feed to grow and reads a page of it.
func (w *watcher) more(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.closed, cancel)()
	if w.closed.Err() != nil {
		return errWatcherClosed
	}
	err := w.await(ctx)
	if err == nil {
		err = w.page(ctx)
	}
	if w.closed.Err() != nil {
		return errWatcherClosed
	}
	return err
}

func (w *watcher) page(ctx context.Context) error {
	entries, err := w.r.watchers.read(ctx, w.pos)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Pos != w.pos+1 {
			w.skip = -1 // the transaction that the watch began in is no longer kept
		}
		events, err := w.eventsOf(ctx, e)
		if err != nil {
			return err
		}
		w.ready = append(w.ready, events...)
		w.news = w.news || !onlyAcknowledges(e)
		if w.ended != nil {
			return nil
		}
		w.skip = -1
		w.pos = e.Pos
	}
	return nil
}

// onlyAcknowledges reports whether a transaction did nothing but move consumers.
func onlyAcknowledges(e warm.FeedEntry) bool {
	return !slices.ContainsFunc(e.Changes, func(c warm.FeedChange) bool { return c.Key.Namespace != tiering.ConsumerNamespace })
}

// eventsOf are the events of one transaction that the watch has still to tell.
func (w *watcher) eventsOf(ctx context.Context, e warm.FeedEntry) (out []tiering.Event, err error) {
	for i, c := range e.Changes {
		if w.revokes(c) {
			w.ended = errRevoked()
			return out, nil
		}
		if i <= w.skip || !w.wants(c) {
			continue
		}
		p, err := w.r.policyOf(ctx, c.Key.Tenant, c.Key.Namespace)
		if err != nil {
			return nil, err
		}
		out = append(out, event(w.epoch, e.Pos, i, c, p.Kind))
	}
	return out, nil
}

// wants binds the tenant and the principal's scope, then the watcher's filter.
func (w *watcher) wants(c warm.FeedChange) bool {
	k := c.Key
	switch {
	case k.Tenant != w.r.who.Tenant, k.Reserved(), k.Namespace == tiering.ConsumerNamespace:
		return false
	case w.o.Session != "" && !partOf(k, w.o.Session):
		return false
	case w.o.Namespace != "" && k.Namespace != w.o.Namespace:
		return false
	case w.o.ID != "" && k.ID != w.o.ID:
		return false
	case !strings.HasPrefix(k.ID, w.o.Prefix):
		return false
	case w.o.User != "" && c.User != w.o.User:
		return false
	case w.o.Session != "":
		return true // admitted when the watch began
	}
	_, err := w.r.admit(tiering.VerbRead, k.Namespace, k.ID)
	return err == nil
}

// partOf reports whether a key belongs to a session.
func partOf(k tiering.Key, session string) bool {
	switch k.Namespace {
	case tiering.SessionNamespace, tiering.SessionEventsNamespace:
		return k.ID == session
	case tiering.SessionPartsNamespace:
		return strings.HasPrefix(k.ID, session+"/")
	}
	return false
}

func event(epoch string, pos int64, index int, c warm.FeedChange, kind tiering.Kind) tiering.Event {
	return tiering.Event{
		ID: eventID(epoch, pos, index), Type: eventType(kind, c.Op), Namespace: c.Key.Namespace, Key: c.Key.ID,
		Version: c.Version, PrevVersion: c.Prev, Time: c.At, User: c.User,
	}
}

// eventType is what holds the key, and what happened to it: state.put, log.appended.
func eventType(kind tiering.Kind, op tiering.Op) string {
	what := map[tiering.Op]string{
		tiering.OpPut: "put", tiering.OpDelete: "deleted", tiering.OpExpire: "expired",
		tiering.OpTouch: "touched", tiering.OpPin: "pinned", tiering.OpUnpin: "unpinned",
	}[op]
	if kind == tiering.KindLog && op == tiering.OpPut {
		what = "appended"
	}
	return string(kind) + "." + what
}

// load adds the bodies that were asked for. A version that is no longer kept
// leaves its body out; a tier that is down is an error, and the event is
// handed out again.
func (w *watcher) load(ctx context.Context, e *tiering.Event) error {
	body := func(version int64) ([]byte, error) {
		if version == 0 {
			return nil, nil
		}
		s, err := w.r.version(ctx, w.r.key(e.Namespace, e.Key), version)
		if c := tiering.CodeOf(err); c == tiering.CodeGone || c == tiering.CodeNotFound {
			return nil, nil
		}
		if !w.r.mayRead(s.user) {
			return nil, err // the key had another owner before it was deleted
		}
		return s.body, err
	}
	var err error
	if w.o.Data {
		if e.Data, err = body(e.Version); err != nil {
			return err
		}
	}
	if w.o.Previous {
		e.Previous, err = body(e.PrevVersion)
	}
	return err
}
