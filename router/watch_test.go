package router

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
)

// next is the next event of a stream.
func (w *world) next(s tiering.Watcher) tiering.Event {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	e, err := s.Next(ctx)
	w.no(err)
	return e
}

// watched is everything that a stream has until now.
func (w *world) watched(r *Router, o *tiering.WatchOptions) (seen []tiering.Event) {
	w.Helper()
	s, err := r.Watch(w.ctx, o)
	w.no(err)
	defer s.Close()
	_, last, err := w.warm.FeedBounds(w.ctx)
	w.no(err)
	for s.(*watcher).pos < last {
		w.no(s.(*watcher).more(w.ctx))
	}
	for len(s.(*watcher).ready) > 0 {
		seen = append(seen, w.next(s))
	}
	return seen
}

// A watch sees every change once, in the order of the commits, with what it
// filters for.
func TestWatchFilters(t *testing.T) {
	w := open(t, setup{})
	put := func(ns, id, user string) {
		_, err := w.r.Put(w.ctx, ns, id, []byte(`{"n":1}`), &tiering.PutOptions{User: user})
		w.no(err)
	}
	put(space, "a/1", "ann")
	put(space, "b", "")
	put("other", "a/2", "bob")
	w.delete("b")
	_, err := w.r.Touch(w.ctx, space, "a/1", &tiering.TouchOptions{WriteOptions: tiering.WriteOptions{TTL: &tiering.TTL{Life: time.Hour}}, Exact: true})
	w.no(err)
	_, err = w.r.Pin(w.ctx, space, "a/1", true, nil)
	w.no(err)
	_, err = w.r.Pin(w.ctx, space, "a/1", false, nil)
	w.no(err)
	all := "state.put docs/a/1 1 0, state.put docs/b 1 0, state.put other/a/2 1 0, state.deleted docs/b 2 1, " +
		"state.touched docs/a/1 1 1, state.pinned docs/a/1 1 1, state.unpinned docs/a/1 1 1"
	for _, c := range []struct {
		name string
		o    tiering.WatchOptions
		want string
	}{
		{"everything", tiering.WatchOptions{}, all},
		{"a namespace", tiering.WatchOptions{Namespace: "other"}, "state.put other/a/2 1 0"},
		{"a prefix", tiering.WatchOptions{Prefix: "b"}, "state.put docs/b 1 0, state.deleted docs/b 2 1"},
		{"an id", tiering.WatchOptions{Namespace: space, ID: "b"}, "state.put docs/b 1 0, state.deleted docs/b 2 1"},
		{"a user", tiering.WatchOptions{User: "bob"}, "state.put other/a/2 1 0"},
		{"nothing that is there", tiering.WatchOptions{Namespace: "nowhere"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.o.From = "start"
			var got []string
			for _, e := range w.watched(w.r, &c.o) {
				got = append(got, fmt.Sprintf("%s %s/%s %d %d", e.Type, e.Namespace, e.Key, e.Version, e.PrevVersion))
			}
			if strings.Join(got, ", ") != c.want {
				t.Errorf("the stream has %s, want %s", strings.Join(got, ", "), c.want)
			}
		})
	}
}

// A stream goes on behind any event's id, without gap or repeat, also in the
// middle of a transaction.
func TestWatchResumes(t *testing.T) {
	w := open(t, setup{})
	w.put("first", `0`)
	var ops []tiering.BatchOp
	for _, id := range []string{"x", "y", "z"} {
		ops = append(ops, tiering.BatchOp{Op: "put", Namespace: space, ID: id, Data: []byte(`1`)})
	}
	_, err := w.r.Batch(w.ctx, &tiering.Batch{Atomic: true, Ops: ops})
	w.no(err)
	w.put("last", `2`)
	all := w.watched(w.r, &tiering.WatchOptions{From: "start"})
	if len(all) != 5 {
		t.Fatalf("the stream has %d events", len(all))
	}
	for i := range all {
		rest := w.watched(w.r, &tiering.WatchOptions{After: all[i].ID})
		if got, want := fmt.Sprint(eventIDs(rest)), fmt.Sprint(eventIDs(all[i+1:])); got != want {
			t.Errorf("behind %s comes %s, want %s", all[i].ID, got, want)
		}
	}
	quiet, err := w.r.Watch(w.ctx, nil)
	w.no(err)
	defer quiet.Close()
	position := quiet.(*watcher).Position()
	w.put("more", `3`)
	if e := w.next(quiet); e.Key != "more" {
		t.Errorf("a stream from now begins with %+v", e)
	}
	if rest := w.watched(w.r, &tiering.WatchOptions{After: position}); len(rest) != 1 || rest[0].Key != "more" {
		t.Errorf("behind where a quiet stream began comes %+v", rest)
	}
}

func eventIDs(es []tiering.Event) (out []string) {
	for _, e := range es {
		out = append(out, e.ID)
	}
	return out
}

// An id of another epoch, or of what the feed no longer keeps, is gone; one
// that is none is refused.
func TestWatchFromWhereItCannot(t *testing.T) {
	w := open(t, setup{})
	w.put("k", `1`)
	w.put("k", `2`)
	first := w.watched(w.r, &tiering.WatchOptions{From: "start"})[0].ID
	epoch, rest, _ := strings.Cut(first, ".")
	w.clock.advance(48 * time.Hour)
	w.no(w.warm.SetPosition(w.ctx, "archive", 1<<40))
	w.no(w.warm.TrimFeed(w.ctx, w.clock.Now().Add(-24*time.Hour)))
	w.put("k", `3`)
	for _, c := range []struct {
		name string
		o    tiering.WatchOptions
		code tiering.Code
	}{
		{"another epoch", tiering.WatchOptions{After: "01ARZ3NDEKTSV4RRFFQ69G5FAV." + rest}, tiering.CodeGone},
		{"trimmed away", tiering.WatchOptions{After: first}, tiering.CodeGone},
		{"not an id", tiering.WatchOptions{After: "yesterday"}, tiering.CodeInvalid},
		{"a negative position", tiering.WatchOptions{After: epoch + ".-1.0"}, tiering.CodeInvalid},
		{"the future", tiering.WatchOptions{After: epoch + ".999.0"}, tiering.CodeInvalid},
		{"from nowhere", tiering.WatchOptions{From: "noon"}, tiering.CodeInvalid},
		{"an id without a namespace", tiering.WatchOptions{ID: "k"}, tiering.CodeInvalid},
		{"a session in a namespace", tiering.WatchOptions{Session: "s", Namespace: space}, tiering.CodeInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := w.r.Watch(w.ctx, &c.o)
			if err == nil {
				s.Close()
			}
			if tiering.CodeOf(err) != c.code {
				t.Errorf("the answer is %v, want %s", err, c.code)
			}
		})
	}
}

// Events carry the bodies that are asked for.
func TestWatchBodies(t *testing.T) {
	w := open(t, setup{})
	w.put("k", `{"n":1}`)
	w.put("k", `{"n":2}`)
	w.delete("k")
	var got []string
	for _, e := range w.watched(w.r, &tiering.WatchOptions{From: "start", Data: true, Previous: true}) {
		got = append(got, fmt.Sprintf("%s<%s", e.Data, e.Previous))
	}
	if s := strings.Join(got, " "); s != `{"n":1}< {"n":2}<{"n":1} <{"n":2}` {
		t.Errorf("the bodies are %s", s)
	}
	for _, e := range w.watched(w.r, &tiering.WatchOptions{From: "start"}) {
		if e.Data != nil || e.Previous != nil {
			t.Errorf("a body that nobody asked for: %+v", e)
		}
	}
}

// A stream ends when it is closed, when its context ends and when the router
// closes.
func TestWatchEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	for name, end := range map[string]func(w *world, s tiering.Watcher){
		"closed":            func(_ *world, s tiering.Watcher) { s.Close() },
		"its context ended": func(*world, tiering.Watcher) { cancel() },
		"the router closed": func(w *world, _ tiering.Watcher) { w.r.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t, setup{})
			watchCtx := w.ctx
			if name == "its context ended" {
				watchCtx = ctx
			}
			s, err := w.r.Watch(watchCtx, nil)
			w.no(err)
			next := call(w, func() (tiering.Event, error) { return s.Next(w.ctx) })
			end(w, s)
			if _, err := next(); err == nil {
				t.Error("an ended stream has an event")
			}
			if err := s.Close(); err != nil {
				t.Errorf("closing it again: %v", err)
			}
		})
	}
}
