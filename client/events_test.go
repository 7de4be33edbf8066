package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/client"
	"github.com/tierd/tierd/server"
	"github.com/tierd/tierd/tiering"
)

// cutServer serves node to an impatient client; cut ends all its connections.
func cutServer(t *testing.T, node *tierd.Node) (c *client.Client, cut func()) {
	t.Helper()
	s, err := server.New(server.Options{As: func(p tiering.Principal) tiering.Service { return node.As(p) }})
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s.Handler())
	t.Cleanup(h.Close)
	return dial(t, h.URL, &client.Options{Retry: client.Retry{MinDelay: time.Millisecond, MaxDelay: 20 * time.Millisecond}}), h.CloseClientConnections
}

// Iterators over a namespace, a prefix, a session and a user see what they ask
// for whole, once and in order, while their connections are cut again and again.
func TestEventsSurviveCutConnections(t *testing.T) {
	node := open(t)
	c, cut := cutServer(t, node)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := node.Sessions().Create(ctx, &tiering.NewSession{ID: "s"}); err != nil {
		t.Fatal(err)
	}
	const rounds = 25
	key := func(e tiering.Event) string { return fmt.Sprintf("%s/%s %d", e.Namespace, e.Key, e.Version) }
	watches := map[string]struct {
		o    tiering.WatchOptions
		want func(i int64) string // of round i, from 1
	}{
		"a namespace": {tiering.WatchOptions{Namespace: "runs"}, func(i int64) string { return fmt.Sprintf("runs/a/%d 1", i) }},
		"a prefix":    {tiering.WatchOptions{Namespace: "runs", Prefix: "a/"}, func(i int64) string { return fmt.Sprintf("runs/a/%d 1", i) }},
		"a session":   {tiering.WatchOptions{Session: "s", Data: true}, func(i int64) string { return fmt.Sprintf("tierd.events/s %d", i+1) }},
		"a user":      {tiering.WatchOptions{User: "ada"}, func(i int64) string { return fmt.Sprintf("notes/n %d", i) }},
	}
	var ready, seen sync.WaitGroup
	for name, w := range watches {
		position, err := node.Watch(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		w.o.After = position.(interface{ Position() string }).Position()
		position.Close()
		ready.Add(1)
		seen.Go(func() {
			ready.Done()
			next := int64(1)
			for e, err := range c.Events(ctx, &w.o) {
				if err != nil || key(e) != w.want(next) {
					t.Errorf("%s: round %d brings %s, %v, want %s", name, next, key(e), err, w.want(next))
					return
				}
				if next++; next > rounds {
					return
				}
			}
		})
	}
	ready.Wait()
	cutting := make(chan struct{})
	var cutter sync.WaitGroup
	cutter.Go(func() {
		for {
			select {
			case <-cutting:
				return
			case <-time.After(15 * time.Millisecond):
				cut()
			}
		}
	})
	write(t, ctx, node, rounds)
	seen.Wait()
	close(cutting)
	cutter.Wait()
}

// write makes a change a round for each of the watches.
func write(t *testing.T, ctx context.Context, node *tierd.Node, rounds int) {
	t.Helper()
	for i := 1; i <= rounds; i++ {
		_, err := node.Put(ctx, "runs", fmt.Sprintf("a/%d", i), []byte(`{}`), nil)
		if err == nil {
			_, err = node.Put(ctx, "notes", "n", fmt.Appendf(nil, "%d", i), &tiering.PutOptions{User: "ada"})
		}
		if err == nil {
			_, err = node.Sessions().Append(ctx, "s", []json.RawMessage{fmt.Appendf(nil, `{"n":%d}`, i)}, nil, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestGetAs(t *testing.T) {
	c := dial(t, serve(t, open(t), false), nil)
	if _, err := tiering.Create(t.Context(), c, "runs", "1", map[string]int{"step": 3}); err != nil {
		t.Fatal(err)
	}
	v, version, err := client.GetAs[struct{ Step int }](t.Context(), c, "runs", "1", nil)
	if err != nil || v.Step != 3 || version != 1 {
		t.Errorf("read %+v at %d, %v", v, version, err)
	}
}
