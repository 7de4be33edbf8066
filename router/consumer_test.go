package router

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
)

// brings are the ids of the next n events of a watch of the consumer.
func (w *world) brings(r *Router, o tiering.WatchOptions, n int) (keys []string, ids []string) {
	w.Helper()
	s, err := r.Watch(w.ctx, &o)
	w.no(err)
	defer s.Close()
	for range n {
		e := w.next(s)
		keys, ids = append(keys, e.Key), append(ids, e.ID)
	}
	return keys, ids
}

// A consumer goes on behind what was acknowledged, whichever daemon it asks, and
// nothing else moves it.
func TestAConsumerGoesOnWhereItAcknowledged(t *testing.T) {
	for _, place := range []place{embedded, shared, servers} {
		t.Run(place.String(), func(t *testing.T) {
			w := open(t, setup{place: place})
			o := tiering.WatchOptions{Namespace: space, Consumer: "worker"}
			first, err := w.r.Watch(w.ctx, &o)
			w.no(err)
			w.no(first.Close())
			for i := range 4 {
				w.put(fmt.Sprint(i), `{}`)
			}
			// It began before the writes, and nothing was acknowledged yet.
			keys, ids := w.brings(w.r, o, 4)
			if fmt.Sprint(keys) != "[0 1 2 3]" {
				t.Fatalf("it begins with %v", keys)
			}
			again, _ := w.brings(w.writer, o, 3)
			if fmt.Sprint(again) != "[0 1 2]" {
				t.Errorf("without an acknowledgement comes %v", again)
			}
			c, err := w.r.Acknowledge(w.ctx, "worker", ids[1])
			w.no(err)
			if c.Position != ids[1] || c.Gone || c.Behind < 2 || c.Namespace != space {
				t.Errorf("acknowledged: %+v", c)
			}
			if rest, _ := w.brings(w.writer, o, 2); fmt.Sprint(rest) != "[2 3]" {
				t.Errorf("behind what was acknowledged comes %v", rest)
			}
			// A late acknowledgement of an earlier event moves nothing back.
			c, err = w.writer.Acknowledge(w.ctx, "worker", ids[0])
			w.no(err)
			if c.Position != ids[1] {
				t.Errorf("it went back to %s", c.Position)
			}
			// An event that the caller names wins over the stored position.
			o.After = ids[0]
			if rest, _ := w.brings(w.r, o, 1); fmt.Sprint(rest) != "[1]" {
				t.Errorf("behind an event comes %v", rest)
			}
			all, err := w.r.Consumers(w.ctx)
			w.no(err)
			if len(all) != 1 || all[0].Name != "worker" || all[0].Position != ids[1] || all[0].AcknowledgedAt.IsZero() {
				t.Errorf("the list has %+v", all)
			}
			w.no(w.writer.DeleteConsumer(w.ctx, "worker"))
			w.no(w.r.DeleteConsumer(w.ctx, "worker"))
			_, err = w.r.Acknowledge(w.ctx, "worker", ids[2])
			code(t, "an acknowledgement of a deleted one", err, tiering.CodeNotFound)
		})
	}
}

// Acknowledgements that race leave the latest event behind them.
func TestRacingAcknowledgementsOnlyMoveOn(t *testing.T) {
	w := open(t, setup{place: shared})
	o := tiering.WatchOptions{Consumer: "worker"}
	_, _ = w.brings(w.r, o, 0)
	const events = 24
	for i := range events {
		w.put(fmt.Sprint(i), `{}`)
	}
	_, ids := w.brings(w.r, o, events)
	var all sync.WaitGroup
	for i, id := range ids {
		r := []*Router{w.r, w.writer}[i%2]
		all.Go(func() {
			if _, err := r.Acknowledge(w.ctx, "worker", id); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	c, err := w.r.Consumer(w.ctx, "worker")
	w.no(err)
	if c.Position != ids[events-1] {
		t.Errorf("it stands at %s, the last event is %s", c.Position, ids[events-1])
	}
}

// Of two first watches of a name one makes the consumer, and both go on from it.
func TestRacingFirstWatchesOfAConsumer(t *testing.T) {
	w := open(t, setup{place: shared})
	var all sync.WaitGroup
	for i := range 8 {
		r := []*Router{w.r, w.writer}[i%2]
		all.Go(func() {
			s, err := r.Watch(w.ctx, &tiering.WatchOptions{Consumer: "worker"})
			if err != nil {
				t.Error(err)
				return
			}
			_ = s.Close()
		})
	}
	all.Wait()
	cur, err := w.warm.Head(w.ctx, w.r.consumerKey("worker"))
	w.no(err)
	if cur.Head.Version != 1 {
		t.Errorf("it was stored %d times", cur.Head.Version)
	}
}

// An acknowledgement is no event for the one who watches everything, and what is
// not wanted moves a watch on too.
func TestAConsumerDoesNotSeeItself(t *testing.T) {
	w := open(t, setup{})
	s, err := w.r.Watch(w.ctx, &tiering.WatchOptions{Consumer: "all"})
	w.no(err)
	defer s.Close()
	w.put("a", `{}`)
	e := w.next(s)
	_, err = w.r.Acknowledge(w.ctx, "all", e.ID)
	w.no(err)
	w.put("b", `{}`)
	if e := w.next(s); e.Key != "b" {
		t.Errorf("it sees %s/%s", e.Namespace, e.Key)
	}
	quiet, err := w.r.Watch(w.ctx, &tiering.WatchOptions{Namespace: "nowhere", Consumer: "quiet"})
	w.no(err)
	defer quiet.Close()
	began := quiet.(*watcher).Position()
	w.put("c", `{}`)
	w.no(quiet.(*watcher).more(w.ctx))
	quiet.(*watcher).settle()
	c, err := w.r.Acknowledge(w.ctx, "quiet", quiet.(*watcher).Position())
	w.no(err)
	if c.Position == began || c.Behind > 1 {
		t.Errorf("it stands at %+v, and began at %s", c, began)
	}
}

func TestWhatAConsumerRefuses(t *testing.T) {
	w := open(t, setup{})
	watch := func(r *Router, o tiering.WatchOptions) error {
		s, err := r.Watch(w.ctx, &o)
		if err == nil {
			_ = s.Close()
		}
		return err
	}
	w.put("a", `{}`)
	w.no(watch(w.r, tiering.WatchOptions{Namespace: space, Consumer: "worker"}))
	e := w.watched(w.r, &tiering.WatchOptions{From: "start"})[0]
	epoch, err := w.warm.Epoch(w.ctx)
	w.no(err)
	code(t, "a name with a slash", watch(w.r, tiering.WatchOptions{Consumer: "a/b"}), tiering.CodeInvalid)
	code(t, "another filter", watch(w.r, tiering.WatchOptions{Namespace: "other", Consumer: "worker"}), tiering.CodeWrongKind)
	for event, want := range map[string]tiering.Code{
		"":                  tiering.CodeInvalid,
		"nonsense":          tiering.CodeInvalid,
		"other.1.0":         tiering.CodeGone,
		epoch + ".999999.0": tiering.CodeInvalid,
	} {
		_, err := w.r.Acknowledge(w.ctx, "worker", event)
		code(t, "event "+event, err, want)
	}
	_, err = w.r.Acknowledge(w.ctx, "nobody", e.ID)
	code(t, "a name that nobody made", err, tiering.CodeNotFound)
	_, err = w.r.Put(w.ctx, tiering.ConsumerNamespace, "worker", []byte(`{}`), nil)
	code(t, "a put over a consumer", err, tiering.CodeWrongKind)
	_, err = w.r.Batch(w.ctx, &tiering.Batch{Atomic: true, Ops: []tiering.BatchOp{{Op: "put", Namespace: tiering.ConsumerNamespace, ID: "worker", Data: []byte(`{}`)}}})
	code(t, "a batch over a consumer", err, tiering.CodeWrongKind)
}

// A consumer belongs to the tenant, and to the limits of the key that made it.
func TestWhoMayUseAConsumer(t *testing.T) {
	w := open(t, setup{})
	w.put("a/1", `{}`)
	maker := w.scoped(tiering.Scope{Prefixes: []string{"a/", "b/"}})
	_, ids := w.brings(maker, tiering.WatchOptions{Namespace: space, Consumer: "worker", From: "start"}, 1)
	for _, c := range []struct {
		name                  string
		r                     *Router
		watch, ack, get, gone tiering.Code // "" passes
		shown                 int
	}{
		{"the same limits", w.scoped(tiering.Scope{Prefixes: []string{"b/", "a/"}}), "", "", "", "", 1},
		{"no limits", w.r, tiering.CodeForbidden, tiering.CodeForbidden, "", "", 1},
		{"other prefixes", w.scoped(tiering.Scope{Prefixes: []string{"a/"}}), tiering.CodeForbidden, tiering.CodeNotFound, tiering.CodeNotFound, "", 0},
		{"a user", w.scoped(tiering.Scope{User: "ann"}), tiering.CodeForbidden, tiering.CodeNotFound, tiering.CodeNotFound, "", 0},
		{"no reading", w.scoped(tiering.Scope{Prefixes: []string{"a/", "b/"}, Verbs: []tiering.Verb{tiering.VerbDelete}}), tiering.CodeForbidden, tiering.CodeForbidden, tiering.CodeForbidden, "", -1},
		{"no deleting", w.scoped(tiering.Scope{Prefixes: []string{"a/", "b/"}, Verbs: []tiering.Verb{tiering.VerbRead}}), "", "", "", tiering.CodeForbidden, 1},
		{"another tenant, with a consumer of its own", w.r.As(tiering.Principal{Tenant: "acme"}), "", "", "", "", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := c.r.Watch(w.ctx, &tiering.WatchOptions{Namespace: space, Consumer: "worker"})
			if err == nil {
				_ = s.Close()
			}
			code(t, "watch", err, c.watch)
			_, err = c.r.Acknowledge(w.ctx, "worker", ids[0])
			code(t, "acknowledge", err, c.ack)
			_, err = c.r.Consumer(w.ctx, "worker")
			code(t, "get", err, c.get)
			all, err := c.r.Consumers(w.ctx)
			if c.shown < 0 {
				code(t, "list", err, tiering.CodeForbidden)
			} else if w.no(err); len(all) != c.shown {
				t.Errorf("the list has %+v", all)
			}
			if c.gone != "" {
				code(t, "delete", c.r.DeleteConsumer(w.ctx, "worker"), c.gone)
			}
		})
	}
	w.no(w.r.As(tiering.Principal{Tenant: "acme"}).DeleteConsumer(w.ctx, "worker"))
	if _, err := maker.Consumer(w.ctx, "worker"); err != nil {
		t.Errorf("another tenant deleted it: %v", err)
	}
	w.no(w.r.DeleteConsumer(w.ctx, "worker"))
}

// The feed is trimmed whatever consumers wait for; one that is passed by is told
// so, and begins anew once it was deleted.
func TestAConsumerThatTheFeedPassedBy(t *testing.T) {
	w := open(t, setup{})
	o := tiering.WatchOptions{Consumer: "worker", From: "start"}
	w.put("a", `{}`)
	_, _ = w.brings(w.r, o, 1)
	w.put("b", `{}`)
	w.advance(48 * time.Hour)
	w.no(w.warm.TrimFeed(w.ctx, w.clock.Now()))
	_, err := w.r.Watch(w.ctx, &o)
	if !errors.Is(err, tiering.ErrGone) {
		t.Fatalf("a watch gets %v", err)
	}
	c, err := w.r.Consumer(w.ctx, "worker")
	w.no(err)
	if !c.Gone {
		t.Errorf("it is shown as %+v", c)
	}
	w.no(w.r.DeleteConsumer(w.ctx, "worker"))
	o.From = "now"
	s, err := w.r.Watch(w.ctx, &o)
	w.no(err)
	defer s.Close()
	w.put("c", `{}`)
	if e := w.next(s); e.Key != "c" {
		t.Errorf("it sees %s", e.Key)
	}
}

// An acknowledgement is no reason for another one: consumers of a quiet store would
// make each other's for ever. But none is left behind what the feed keeps.
func TestAcknowledgementsAloneHoldThePosition(t *testing.T) {
	w := open(t, setup{place: embedded})
	s, err := w.r.Watch(w.ctx, &tiering.WatchOptions{Namespace: "nowhere", Consumer: "quiet"})
	w.no(err)
	defer s.Close()
	quiet := s.(*watcher)
	acknowledge := func() string {
		t.Helper()
		// What was committed before it, or the making of the consumer.
		w.no(quiet.more(w.ctx))
		quiet.settle()
		at := quiet.Position()
		_, err := w.r.Acknowledge(w.ctx, "quiet", at)
		w.no(err)
		return at
	}
	w.put("a", `{}`)
	first := acknowledge()
	w.no(quiet.more(w.ctx)) // that acknowledgement
	quiet.settle()
	if at := quiet.Position(); at != first {
		t.Fatalf("an acknowledgement moved the position from %s to %s", first, at)
	}
	w.clock.advance(quietHold)
	if at := quiet.Position(); at == first {
		t.Errorf("the position stays at %s for good", at)
	}
	w.put("b", `{}`)
	if at := acknowledge(); at == first {
		t.Errorf("a write left the position at %s", at)
	}
}
