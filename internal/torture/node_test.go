package torture

import (
	"context"
	"log/slog"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/client"
	"github.com/tierd/tierd/internal/fault"
	"github.com/tierd/tierd/server"
	"github.com/tierd/tierd/tiering"
)

// serve opens a node on cfg, serves it, and returns its address. Both end with
// the test.
func serve(t *testing.T, cfg tierd.Config) (address string) {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	n, err := tierd.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server.New(server.Options{
		As: func(who tiering.Principal) tiering.Service { return n.As(who) }, Ready: n.Ready, Metrics: n.Metrics(), Logger: cfg.Logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ctx, ln, nil) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := n.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return ln.Addr().String()
}

// proxied puts a proxy before the server that a URL names, and returns the URL
// that leads through it. It ends with the test.
func proxied(t *testing.T, to string, p fault.Protocol) (*fault.Proxy, string) {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal("not a URL")
	}
	proxy, err := fault.Listen(u.Host, &fault.Options{Protocol: p})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	u.Host = proxy.Addr()
	return proxy, u.String()
}

// dial returns a client that gives up at once: campaigns try again by
// themselves.
func dial(t *testing.T, url string) *client.Client {
	t.Helper()
	c, err := client.New(url, &client.Options{Timeout: 20 * time.Second, Retry: client.Retry{Attempts: 1}, RememberWrites: -1})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
