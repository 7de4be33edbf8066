package client_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
)

// A worker that dies goes on where it acknowledged: what it took without an
// acknowledgement comes again, and nothing is left out, on connections that are
// cut, and from one worker to the next.
func TestConsumeGoesOnFromWorkerToWorker(t *testing.T) {
	node := open(t)
	c, cut := cutServer(t, node)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	o := &tiering.WatchOptions{Namespace: "runs", Consumer: "worker"}
	made, err := c.Watch(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	made.Close()

	const writes = 24
	var writing sync.WaitGroup
	writing.Go(func() {
		for i := range writes {
			if _, err := node.Put(ctx, "runs", fmt.Sprintf("%03d", i), []byte(`{}`), nil); err != nil {
				t.Error(err)
			}
			if i%5 == 0 {
				cut()
			}
		}
	})
	died := errors.New("the worker died")
	var taken []string
	for len(taken) < writes {
		// Every worker but the last dies over the fourth event that it takes.
		n := 0
		err := tiering.Consume(ctx, c, o, func(e tiering.Event) error {
			if n++; n == 4 && len(taken) < writes-4 {
				return died
			}
			if want := fmt.Sprintf("%03d", len(taken)); e.Key != want {
				return fmt.Errorf("%s comes, want %s", e.Key, want)
			}
			if taken = append(taken, e.Key); len(taken) == writes {
				return errDone
			}
			return nil
		})
		if !errors.Is(err, died) && !errors.Is(err, errDone) {
			t.Fatal(err)
		}
	}
	writing.Wait()
	// The last event was refused by its worker, and so is to come again.
	kept, err := c.Consumer(ctx, "worker")
	if err != nil || kept.Behind < 1 || kept.Gone {
		t.Errorf("the consumer stands at %+v, %v", kept, err)
	}
	all, err := c.Consumers(ctx)
	if err != nil || len(all) != 1 {
		t.Errorf("the list: %+v, %v", all, err)
	}
	if err := errors.Join(c.DeleteConsumer(ctx, "worker"), c.DeleteConsumer(ctx, "worker")); err != nil {
		t.Error(err)
	}
	if _, err := c.Acknowledge(ctx, "worker", kept.Position); !errors.Is(err, tiering.ErrNotFound) {
		t.Errorf("a deleted consumer: %v", err)
	}
}

var errDone = errors.New("all was taken")

// What was taken before the end of the context is acknowledged behind it.
func TestConsumeAcknowledgesBehindItsContext(t *testing.T) {
	node := open(t)
	c := dial(t, serve(t, node, false), nil)
	for i := range 3 {
		if _, err := node.Put(t.Context(), "runs", fmt.Sprint(i), []byte(`{}`), nil); err != nil {
			t.Fatal(err)
		}
	}
	for name, s := range map[string]tiering.Service{"remote": c, "embedded": node} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			o := &tiering.WatchOptions{Namespace: "runs", From: "start", Consumer: name}
			last := ""
			err := tiering.Consume(ctx, s, o, func(e tiering.Event) error {
				if last = e.ID; e.Key == "1" {
					cancel()
				}
				return nil
			})
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("it ends with %v", err)
			}
			kept, err := node.Consumer(t.Context(), name)
			if err != nil || kept.Position != last {
				t.Errorf("it stands at %+v, %v, want %s", kept, err, last)
			}
		})
	}
}
