package server

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tierd/tierd/tiering"
)

// FuzzWatch sends any watch through the whole handler, over a feed of one event with
// any text in it. A stream is that event, whole, and the reason why it ends, however a
// reader of events breaks lines; what is no stream is a problem.
func FuzzWatch(f *testing.F) {
	f.Add("from=start&include=data", "", "e.1.0", "state.put", "runs/a", "ada", []byte(`{"a": 1.10}`))
	f.Add("namespace=runs&id=a", "e.1.0", "e.2.0", "state.deleted", "a", "", []byte(`null`))
	f.Add("consumer=mailer&user=ada", "", "e.1\r.0", "state.put\nid: e.9.9", "a\r\nb", "\u2028", []byte("[\r\n1\n]"))
	f.Add("from=never&include=all", "", "", "", "", "", []byte(`""`))
	once := &onceWatched{fake: newFake()}
	h := newTest(f, once.fake, func(o *Options) {
		o.As = func(tiering.Principal) tiering.Service { return once }
	}).Handler()
	f.Fuzz(func(t *testing.T, query, last, id, kind, key, user string, data []byte) {
		if !json.Valid(data) || slices.ContainsFunc([]string{id, kind, key, user, string(data)}, func(s string) bool { return !utf8.ValidString(s) }) {
			return // no document, and no name of one
		}
		once.event = tiering.Event{ID: id, Type: kind, Key: key, User: user, Data: data}
		r := httptest.NewRequest("GET", "/v1/watch", nil)
		r.URL.RawQuery = query
		r.Header.Set("Last-Event-ID", last)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != 200 {
			var p tiering.Problem
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Status != w.Code || w.Code >= 500 {
				t.Fatalf("%q: %d %s", query, w.Code, w.Body)
			}
			return
		}
		got := eventsOf(w.Body.String())
		if len(got) != 2 || got[1].kind != "problem" {
			t.Fatalf("%d events, want the one and a problem: %q", len(got), w.Body)
		}
		var e tiering.Event
		if err := json.Unmarshal([]byte(got[0].data), &e); err != nil {
			t.Fatalf("%v: %q", err, w.Body)
		}
		var sent, came any
		if json.Unmarshal(data, &sent) == nil && json.Unmarshal(e.Data, &came) == nil && e.Key == key && e.User == user && e.Type == kind &&
			!strings.ContainsAny(got[0].id+got[0].kind, "\r\n\x00") {
			return
		}
		t.Fatalf("%+v came as %+v", once.event, e)
	})
}

// onceWatched is a service whose feed has one event, and then ends.
type onceWatched struct {
	*fake
	event tiering.Event
}

func (o *onceWatched) Watch(context.Context, *tiering.WatchOptions) (tiering.Watcher, error) {
	return &onceWatcher{events: []tiering.Event{o.event}}, nil
}

type onceWatcher struct{ events []tiering.Event }

func (w *onceWatcher) Next(context.Context) (tiering.Event, error) {
	if len(w.events) == 0 {
		return tiering.Event{}, tiering.Errorf(tiering.CodeGone, "the feed is over")
	}
	e := w.events[0]
	w.events = nil
	return e, nil
}

func (w *onceWatcher) Position() string { return "e.0.0" }
func (w *onceWatcher) Close() error     { return nil }

// sent is an event as a browser understands the stream.
type sent struct{ id, kind, data string }

// eventsOf reads a stream as https://html.spec.whatwg.org/multipage/server-sent-events.html
// says: a line ends with LF, CR or both, and an event with an empty line.
func eventsOf(stream string) (out []sent) {
	var at sent
	var data []string
	for line := range strings.SplitSeq(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(stream), "\n") {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if data != nil {
				at.data = strings.Join(data, "\n")
				out = append(out, at)
			}
			at, data = sent{}, nil
		case name == "id":
			at.id = value
		case name == "event":
			at.kind = value
		case name == "data":
			data = append(data, value)
		case name != "":
			out = append(out, sent{id: "a field that is none: " + line})
		}
	}
	return slices.Clip(out)
}
