package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http/httptest"
	"os"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/client"
	"github.com/tierd/tierd/server"
	"github.com/tierd/tierd/tiering"
)

// startNode serves a fresh node, as `tierd serve` does, and returns its address.
func startNode() (url string, stop func()) {
	dir, err := os.MkdirTemp("", "tierd-example")
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	node, err := tierd.Open(ctx, tierd.Config{Data: dir})
	if err != nil {
		log.Fatal(err)
	}
	api, err := server.New(server.Options{As: func(p tiering.Principal) tiering.Service { return node.As(p) }})
	if err != nil {
		log.Fatal(err)
	}
	h := httptest.NewServer(api.Handler())
	return h.URL, func() {
		h.Close()
		node.Close(ctx)
		os.RemoveAll(dir)
	}
}

func Example() {
	url, stop := startNode()
	defer stop()
	ctx := context.Background()

	c, err := client.New(url, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close(ctx)

	if _, err := c.Put(ctx, "prefs", "users/ada", []byte(`{"seat":"window","score":1.10}`), nil); err != nil {
		fmt.Println(err)
		return
	}
	doc, err := c.Get(ctx, "prefs", "users/ada", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("version %d: %s\n", doc.Version, doc.Body)
	// Output: version 1: {"seat":"window","score":1.10}
}

// Typed verbs work on a client and on an embedded node alike.
func Example_typed() {
	url, stop := startNode()
	defer stop()
	ctx := context.Background()
	c, err := client.New(url, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close(ctx)

	type run struct {
		Status string `json:"status"`
		Step   int    `json:"step"`
	}
	if _, err := tiering.Create(ctx, c, "runs", "run/7", run{Status: "planning"}); err != nil {
		fmt.Println(err)
		return
	}
	// Edit reads, changes and writes back, again if another writer was faster.
	if _, err := tiering.Edit(ctx, c, "runs", "run/7", func(r *run) error {
		r.Status, r.Step = "acting", r.Step+1
		return nil
	}); err != nil {
		fmt.Println(err)
		return
	}
	r, version, err := tiering.GetAs[run](ctx, c, "runs", "run/7", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%+v at version %d\n", r, version)

	// A writer that read an older version is told what stands.
	_, err = tiering.Update(ctx, c, "runs", "run/7", run{Status: "failed"}, 1)
	var e *tiering.Error
	if errors.As(err, &e) && e.Code == tiering.CodeVersionConflict {
		fmt.Println("conflict: version", e.CurrentVersion, "stands")
	}
	// Output:
	// {Status:acting Step:1} at version 2
	// conflict: version 2 stands
}

func ExampleClient_Apply() {
	url, stop := startNode()
	defer stop()
	ctx := context.Background()
	c, err := client.New(url, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close(ctx)

	edited, err := c.Apply(ctx, "counters", "today", []tiering.EditOp{
		{Op: "increment", Pointer: "/calls"},
		{Op: "append", Pointer: "/tools", Value: []byte(`"search"`)},
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", edited.Values)
	// Output: [1 ["search"]]
}

func ExampleClient_Watch() {
	url, stop := startNode()
	defer stop()
	ctx := context.Background()
	c, err := client.New(url, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close(ctx)

	w, err := c.Watch(ctx, &tiering.WatchOptions{Namespace: "runs", Prefix: "run/", Data: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer w.Close()
	if _, err := tiering.Create(ctx, c, "runs", "run/7", map[string]string{"status": "done"}); err != nil {
		fmt.Println(err)
		return
	}
	ev, err := w.Next(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(ev.Type, ev.Key, string(ev.Data))
	// Output: state.put run/7 {"status":"done"}
}

func ExampleClient_Rollback() {
	url, stop := startNode()
	defer stop()
	ctx := context.Background()
	c, err := client.New(url, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close(ctx)

	for _, plan := range []string{`{"plan":"A"}`, `{"plan":"B"}`} {
		if _, err := c.Put(ctx, "plans", "trip", []byte(plan), nil); err != nil {
			fmt.Println(err)
			return
		}
	}
	back, err := c.Rollback(ctx, "plans", "trip", 1, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	doc, err := c.Get(ctx, "plans", "trip", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("version %d: %s\n", back.Version, doc.Body)
	// Output: version 3: {"plan":"A"}
}
