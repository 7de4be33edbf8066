package redis_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/hot/redis"
	"github.com/tierd/tierd/internal/servicestest"
	"github.com/tierd/tierd/tiering"
)

// proxy forwards to a Redis server. Told to, it loses the next reply and cuts
// the connection: the command was carried out, and nobody knows.
type proxy struct {
	url  string
	lose atomic.Bool
	lost atomic.Int64
}

func newProxy(t *testing.T, url string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, database, _ := strings.Cut(strings.TrimPrefix(url, "redis://"), "/")
	p := &proxy{url: "redis://" + l.Addr().String() + "/" + database}
	p.listen(t, l, server)
	return p
}

// listen forwards what comes to l until the test ends.
func (p *proxy) listen(t *testing.T, l net.Listener, server string) {
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { p.serve(client, server) })
		}
	})
	t.Cleanup(func() { l.Close(); running.Wait() })
}

func (p *proxy) serve(client net.Conn, addr string) {
	defer client.Close()
	server, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	var up sync.WaitGroup
	up.Go(func() { _, _ = io.Copy(server, client); server.Close() })
	defer up.Wait()
	defer client.Close()
	defer server.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if err != nil {
			return
		}
		if p.lose.CompareAndSwap(true, false) {
			p.lost.Add(1)
			return
		}
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// useAll makes every call once, so that Redis knows all scripts.
func useAll(ctx context.Context, s *redis.Store) error {
	key := tiering.Key{Tenant: "t", Namespace: "ns", ID: "another"}
	_, get := s.Get(ctx, key, true)
	_, fill := s.Fill(ctx, key, 1, hot.Entry{}, 0)
	_, set := s.Set(ctx, hot.Set{Key: key})
	_, _, swap := s.Swap(ctx, key, tiering.Condition{}, []byte("1"), time.Second)
	return errors.Join(get, fill, set, swap, s.Mark(ctx, key, 1), s.Unmark(ctx, key, 1), s.Drop(ctx, key, 0, 0))
}

// TestLostReplies: each call is carried out, its reply is lost, and the call is
// made again. The second changes nothing more.
func TestLostReplies(t *testing.T) {
	key := tiering.Key{Tenant: "t", Namespace: "ns", ID: "x"}
	one, two := []byte("1"), []byte("2")
	type world struct {
		*testing.T
		*redis.Store
		lease *hot.Token
	}
	present := func(w world, version int64, body []byte) {
		w.Helper()
		if l, err := w.Get(w.Context(), key, false); err != nil || l.State != hot.Present ||
			l.Entry.Meta.Version != version || string(l.Entry.Body) != string(body) {
			w.Errorf("a reader got state %d, v%d %s, %v, want v%d", l.State, l.Entry.Meta.Version, l.Entry.Body, err, version)
		}
	}
	is := func(w world, state hot.State) {
		w.Helper()
		if l, err := w.Get(w.Context(), key, false); err != nil || l.State != state {
			w.Errorf("a reader got state %d, %v, want %d", l.State, err, state)
		}
	}
	must := func(w world, err error) {
		w.Helper()
		if err != nil {
			w.Fatal(err)
		}
	}
	store := func(w world, s hot.Set) error { _, err := w.Set(w.Context(), s); return err }

	tests := map[string]struct {
		before func(w world)
		call   func(w world) error
		after  func(w world)
	}{
		"Mark": {
			before: func(w world) { must(w, store(w, set(key, 1, one))) },
			call:   func(w world) error { return w.Mark(w.Context(), key, 7) },
			after: func(w world) {
				is(w, hot.Pending)
				s := set(key, 2, two)
				s.Token = 7
				must(w, store(w, s))
				present(w, 2, two)
			},
		},
		"Unmark": {
			before: func(w world) { must(w, w.Mark(w.Context(), key, 7)) },
			call:   func(w world) error { return w.Unmark(w.Context(), key, 7) },
			after:  func(w world) { is(w, hot.Empty) },
		},
		"Set": {
			before: func(w world) { must(w, w.Mark(w.Context(), key, 7)) },
			call: func(w world) error {
				s := set(key, 2, two)
				s.Token = 7
				return store(w, s)
			},
			after: func(w world) {
				present(w, 2, two)
				must(w, store(w, set(key, 1, one)))
				present(w, 2, two)
			},
		},
		"a delete": {
			before: func(w world) { must(w, store(w, set(key, 1, one))) },
			call: func(w world) error {
				s := set(key, 2, nil)
				s.Deleted = true
				return store(w, s)
			},
			after: func(w world) { is(w, hot.Deleted) },
		},
		"Fill": {
			before: func(w world) {
				l, err := w.Get(w.Context(), key, true)
				must(w, err)
				*w.lease = l.Lease
			},
			call: func(w world) error {
				_, err := w.Fill(w.Context(), key, *w.lease, set(key, 1, one).Entry, time.Minute)
				return err
			},
			after: func(w world) { present(w, 1, one) },
		},
		"Drop": {
			before: func(w world) { must(w, store(w, set(key, 1, one))) },
			call:   func(w world) error { return w.Drop(w.Context(), key, 1, 0) },
			after:  func(w world) { is(w, hot.Empty) },
		},
		"a lease": {
			call: func(w world) error { _, err := w.Get(w.Context(), key, true); return err },
			after: func(w world) { // nobody knows it: it lapses
				time.Sleep(timing.Lease * 11 / 10)
				if l, err := w.Get(w.Context(), key, true); err != nil || l.Lease == 0 {
					w.Errorf("lease %d, %v", l.Lease, err)
				}
			},
		},
		"Swap, told what stands": {
			call: func(w world) error {
				e, ok, err := w.Swap(w.Context(), key, tiering.IfAbsent(), one, 0)
				if err == nil && (ok || string(e.Body) != "1") {
					w.Errorf("the second creation: %v, told %q", ok, e.Body)
				}
				return err
			},
			after: func(w world) {},
		},
	}
	url := servicestest.Variable(t, "TIERD_HOT")
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProxy(t, url)
			w := world{t, open(t, p.url, redis.Options{Timing: timing, Timeout: 10 * time.Second}), new(hot.Token)}
			must(w, useAll(w.Context(), w.Store))
			if test.before != nil {
				test.before(w)
			}
			must(w, w.Ping(t.Context())) // a connection stands
			p.lose.Store(true)
			if err := test.call(w); err == nil || errors.Is(err, redis.ErrTimeout) || p.lost.Load() != 1 {
				t.Fatalf("%d replies were lost, and the call says %v", p.lost.Load(), err)
			}
			must(w, test.call(w))
			test.after(w)
		})
	}
}
