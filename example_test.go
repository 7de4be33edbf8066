package tierd_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"
	"os"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/client"
	"github.com/tierd/tierd/server"
	"github.com/tierd/tierd/tiering"
)

// An embedded node: no daemon, no server, one folder.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "tierd")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := embedded(ctx, dir); err != nil {
		log.Fatal(err)
	}
	// Output:
	// {"seat":"aisle","trips":1} version 1
}

func embedded(ctx context.Context, dir string) error {
	node, err := tierd.Open(ctx, tierd.Config{Data: dir})
	if err != nil {
		return err
	}
	defer node.Close(ctx)
	return book(ctx, node)
}

// The same program against a daemon: one line differs.
func Example_remote() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "tierd")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	daemon, err := tierd.Open(ctx, tierd.Config{Data: dir})
	if err != nil {
		log.Fatal(err)
	}
	defer daemon.Close(ctx)
	api, err := server.New(server.Options{As: func(p tiering.Principal) tiering.Service { return daemon.As(p) }})
	if err != nil {
		log.Fatal(err)
	}
	listener := httptest.NewServer(api.Handler())
	defer listener.Close()

	if err := remote(ctx, listener.URL); err != nil {
		log.Fatal(err)
	}
	// Output:
	// {"seat":"aisle","trips":1} version 1
}

func remote(ctx context.Context, url string) error {
	node, err := client.New(url, nil)
	if err != nil {
		return err
	}
	return book(ctx, node)
}

func book(ctx context.Context, node tiering.Service) (err error) {
	type prefs struct {
		Seat  string `json:"seat"`
		Trips int    `json:"trips"`
	}
	_, err = tiering.Edit(ctx, node, "prefs", "ada", func(p *prefs) error {
		p.Seat = "aisle"
		p.Trips++
		return nil
	})
	if err != nil {
		return err
	}
	d, err := node.Get(ctx, "prefs", "ada", nil)
	if err != nil {
		return err
	}
	fmt.Printf("%s version %d\n", d.Body, d.Version)
	return nil
}
