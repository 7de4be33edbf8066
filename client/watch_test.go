package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierd/tierd/tiering"
)

// events is an answer that streams the events of feed e at the positions named
// and then ends.
func events(positions ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		io.WriteString(w, ": watching\n\n")
		for _, p := range positions {
			io.WriteString(w, line(p))
		}
		http.NewResponseController(w).Flush()
	}
}

func line(p string) string {
	return fmt.Sprintf("id: e.%s\nevent: state.put\ndata: {\"type\":\"state.put\",\"namespace\":\"n\",\"id\":\"k%s\",\"version\":3}\n\n", p, p)
}

// hold is a stream that stays open until the caller goes.
func hold(w http.ResponseWriter, r *http.Request) {
	events()(w, r)
	<-r.Context().Done()
}

func watch(t *testing.T, c *Client, o *tiering.WatchOptions) tiering.Watcher {
	t.Helper()
	w, err := c.Watch(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func expect(t *testing.T, w tiering.Watcher, positions ...string) {
	t.Helper()
	for _, p := range positions {
		ev, err := w.Next(t.Context())
		if err != nil || ev.ID != "e."+p {
			t.Fatalf("got %+v, %v, want e.%s", ev, err, p)
		}
	}
}

func TestWatchAsksForWhatItsOptionsSay(t *testing.T) {
	c, s := dial(t, nil, hold)
	watch(t, c, &tiering.WatchOptions{Namespace: "n", Prefix: "a/", User: "ada", From: "start", Data: true, Previous: true})
	r := s.requests()[0]
	if r.uri != "/v1/watch?from=start&include=data%2Cprevious&namespace=n&prefix=a%2F&user=ada" || r.header.Get("Last-Event-ID") != "" ||
		!strings.HasPrefix(r.header.Get("Accept"), "text/event-stream") {
		t.Fatalf("asked %s with %v", r.uri, r.header)
	}
	watch(t, c, &tiering.WatchOptions{From: "start", After: "e.7.1"})
	if r := s.requests()[1]; r.uri != "/v1/watch" || r.header.Get("Last-Event-ID") != "e.7.1" {
		t.Fatalf("asked %s behind %q", r.uri, r.header.Get("Last-Event-ID"))
	}
}

func TestAnEventIsWhole(t *testing.T) {
	c, _ := dial(t, nil, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "id: e.5.0\nevent: state.put\ndata: "+
			`{"type":"state.put","namespace":"n","id":"a/k","version":7,"prev_version":6,"time":"2026-01-02T03:04:05.000006Z","user":"ada","data":{"a":1.10},"previous":[1e2]}`+"\n\n")
	})
	ev, err := watch(t, c, nil).Next(t.Context())
	if err != nil || ev.ID != "e.5.0" || ev.Type != "state.put" || ev.Namespace != "n" || ev.Key != "a/k" || ev.Version != 7 || ev.PrevVersion != 6 ||
		!ev.Time.Equal(time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)) || ev.User != "ada" || string(ev.Data) != `{"a":1.10}` || string(ev.Previous) != `[1e2]` {
		t.Fatalf("got %+v, %v", ev, err)
	}
}

func TestAWatchGoesOnBehindItsLastEvent(t *testing.T) {
	for _, c := range []struct {
		name    string
		steps   []http.HandlerFunc
		want    []string
		resumes []string // Last-Event-ID of each connection
	}{
		{"after a cut", []http.HandlerFunc{events("1.0", "1.1"), events("2.0"), hold}, []string{"1.0", "1.1", "2.0"}, []string{"", "e.1.1", "e.2.0"}},
		{"a repeated event is dropped", []http.HandlerFunc{events("1.0", "1.1"), events("1.0", "1.1", "1.2", "2.0"), hold},
			[]string{"1.0", "1.1", "1.2", "2.0"}, []string{"", "e.1.1", "e.2.0"}},
		{"half an event is not one", []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			events("1.0")(w, r)
			io.WriteString(w, "id: e.2.0\ndata: {\"type\":")
		}, events("2.0"), hold}, []string{"1.0", "2.0"}, []string{"", "e.1.0", "e.2.0"}},
		{"before its first event, behind where it began", []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "id: e.7\n\n")
		}, events("8.0"), hold}, []string{"8.0"}, []string{"", "e.7", "e.8.0"}},
		{"an id alone moves it on, and never back", []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			events("2.0")(w, r)
			io.WriteString(w, "id: e.1\n: \n\n")
		}, func(w http.ResponseWriter, r *http.Request) {
			events()(w, r)
			io.WriteString(w, "id: e.7\n: \n\n")
		}, events("8.0"), hold}, []string{"2.0", "8.0"}, []string{"", "e.2.0", "e.7", "e.8.0"}},
		{"through an outage", []http.HandlerFunc{events("1.0"), unavailable(), lost, func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "bad gateway", http.StatusBadGateway)
		}, events("2.0"), hold}, []string{"1.0", "2.0"}, []string{"", "e.1.0", "e.1.0", "e.1.0", "e.1.0", "e.2.0"}},
		{"through a fault that the node tells of", []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			events("1.0")(w, r)
			io.WriteString(w, "event: problem\ndata: {\"code\":\"unavailable\",\"status\":503}\n\n")
		}, events("2.0"), hold}, []string{"1.0", "2.0"}, []string{"", "e.1.0", "e.2.0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cl, s := dial(t, nil, c.steps...)
			w := watch(t, cl, nil)
			expect(t, w, c.want...)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if ev, err := w.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("one event too many: %+v, %v", ev, err)
			}
			var resumes []string
			for _, r := range s.requests() {
				resumes = append(resumes, r.header.Get("Last-Event-ID"))
			}
			if fmt.Sprintf("%q", resumes) != fmt.Sprintf("%q", c.resumes) {
				t.Fatalf("resumed behind %q, want %q", resumes, c.resumes)
			}
		})
	}
}

func TestWhatCannotPassEndsAWatch(t *testing.T) {
	gone := tiering.Errorf(tiering.CodeGone, "too old")
	for name, c := range map[string]struct {
		steps []http.HandlerFunc
		want  tiering.Code
	}{
		"gone at a new connection": {[]http.HandlerFunc{events("1.0"), problem(gone)}, tiering.CodeGone},
		"the key was revoked":      {[]http.HandlerFunc{events("1.0"), problem(tiering.Errorf(tiering.CodeUnauthenticated, ""))}, tiering.CodeUnauthenticated},
		"gone in the stream": {[]http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			events("1.0")(w, r)
			io.WriteString(w, "event: problem\ndata: {\"code\":\"gone\",\"status\":410}\n\n")
		}}, tiering.CodeGone},
		"an event that is none": {[]http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			events("1.0")(w, r)
			io.WriteString(w, "id: e.2.0\ndata: [\n\n")
		}}, tiering.CodeCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			cl, s := dial(t, nil, c.steps...)
			w := watch(t, cl, nil)
			expect(t, w, "1.0")
			for range 2 { // it stays ended
				if _, err := w.Next(t.Context()); tiering.CodeOf(err) != c.want {
					t.Fatalf("got %v, want %s", err, c.want)
				}
			}
			if len(s.requests()) != len(c.steps) {
				t.Fatalf("%d connections", len(s.requests()))
			}
		})
	}
	t.Run("and is returned by Watch at the first connection", func(t *testing.T) {
		cl, s := dial(t, nil, problem(gone))
		if w, err := cl.Watch(t.Context(), &tiering.WatchOptions{After: "e.1.0"}); !errors.Is(err, tiering.ErrGone) || w != nil || len(s.requests()) != 1 {
			t.Fatalf("got %v", err)
		}
	})
	t.Run("as is an outage that outlasts the tries", func(t *testing.T) {
		cl, s := dial(t, nil, unavailable())
		if _, err := cl.Watch(t.Context(), nil); !errors.Is(err, tiering.ErrUnavailable) || len(s.requests()) != DefaultAttempts {
			t.Fatalf("got %v after %d tries", err, len(s.requests()))
		}
	})
	t.Run("as is a page of something else", func(t *testing.T) {
		cl, _ := dial(t, nil, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<html>") })
		if _, err := cl.Watch(t.Context(), nil); !errors.Is(err, tiering.ErrInvalid) {
			t.Fatalf("got %v", err)
		}
	})
}

func TestTheCallerEndsAWatch(t *testing.T) {
	next := func(w tiering.Watcher, ctx context.Context) <-chan error {
		out := make(chan error, 1)
		go func() { _, err := w.Next(ctx); out <- err }()
		return out
	}
	t.Run("by Close, which wakes Next and may be repeated", func(t *testing.T) {
		c, _ := dial(t, nil, hold)
		w := watch(t, c, nil)
		waiting := next(w, t.Context())
		if err := errors.Join(w.Close(), w.Close()); err != nil {
			t.Fatal(err)
		}
		if err := <-waiting; !errors.Is(err, tiering.ErrUnavailable) || !strings.Contains(err.Error(), "closed") {
			t.Fatalf("got %v", err)
		}
	})
	t.Run("by Watch's context", func(t *testing.T) {
		c, _ := dial(t, nil, hold)
		ctx, cancel := context.WithCancel(t.Context())
		w, err := c.Watch(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		waiting := next(w, t.Context())
		cancel()
		if err := <-waiting; !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
	})
	t.Run("Next's context ends that Next alone", func(t *testing.T) {
		release := make(chan struct{})
		c, _ := dial(t, nil, func(w http.ResponseWriter, r *http.Request) {
			events()(w, r)
			<-release
			io.WriteString(w, line("1.0"))
		}, hold)
		w := watch(t, c, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := w.Next(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
		close(release)
		expect(t, w, "1.0")
	})
	t.Run("by Close while a new connection is tried", func(t *testing.T) {
		c, _ := dial(t, &Options{Retry: Retry{MinDelay: time.Hour, MaxDelay: time.Hour}}, events("1.0"))
		w := watch(t, c, nil)
		expect(t, w, "1.0")
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// pipes is a network whose every connection is a pipe that the test writes to.
type pipes struct{ opened chan *io.PipeWriter }

func (p pipes) RoundTrip(r *http.Request) (*http.Response, error) {
	read, write := io.Pipe()
	context.AfterFunc(r.Context(), func() { write.CloseWithError(r.Context().Err()) })
	p.opened <- write
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: read, Request: r}, nil
}

func TestASilentStreamIsADeadOne(t *testing.T) {
	open := func(t *testing.T) (tiering.Watcher, pipes) {
		p := pipes{opened: make(chan *io.PipeWriter, 10)}
		return watch(t, dialTo(t, "http://node", &Options{HTTPClient: &http.Client{Transport: p}}), nil), p
	}
	t.Run("45 s without a byte", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, p := open(t)
			<-p.opened
			start := time.Now()
			second := <-p.opened
			if took := time.Since(start); took < idleLimit || took > idleLimit+time.Second {
				t.Fatalf("a new connection after %s", took)
			}
			go io.WriteString(second, line("1.0"))
			expect(t, w, "1.0")
			w.Close()
		})
	})
	t.Run("comments, and slow bytes of one event, are signs of life", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, p := open(t)
			first := <-p.opened
			go func() {
				for range 10 {
					time.Sleep(40 * time.Second)
					io.WriteString(first, ":\n\n")
				}
				for _, b := range []byte(line("1.0")) {
					time.Sleep(40 * time.Second)
					first.Write([]byte{b})
				}
			}()
			expect(t, w, "1.0")
			if len(p.opened) != 0 {
				t.Fatal("it was given up")
			}
			w.Close()
		})
	})
	t.Run("a slow consumer does not make a stream silent", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, p := open(t)
			first := <-p.opened
			go io.WriteString(first, line("1.0")+line("2.0"))
			time.Sleep(time.Hour)
			expect(t, w, "1.0", "2.0")
			if len(p.opened) != 0 {
				t.Fatal("it was given up")
			}
			w.Close()
		})
	})
}

func TestAStreamOutlivesTheTimeoutsOfCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pipes{opened: make(chan *io.PipeWriter, 10)}
		w := watch(t, dialTo(t, "http://node", &Options{Timeout: time.Second, HTTPClient: &http.Client{Transport: p, Timeout: time.Second}}), nil)
		first := <-p.opened
		go func() {
			time.Sleep(30 * time.Second)
			io.WriteString(first, line("1.0"))
		}()
		expect(t, w, "1.0")
		if len(p.opened) != 0 {
			t.Fatal("it was cut")
		}
		w.Close()
	})
}

func TestANodeThatEndsEveryStreamIsNotStormed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		connections := 0
		c := dialTo(t, "http://node", &Options{Retry: Retry{MinDelay: time.Second, MaxDelay: 16 * time.Second}, HTTPClient: &http.Client{
			Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				connections++
				return play(r, events())
			})}})
		w := watch(t, c, nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if connections < 4 || connections > 12 {
			t.Fatalf("%d connections in a minute", connections)
		}
		w.Close()
	})
}
