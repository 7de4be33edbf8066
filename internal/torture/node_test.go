package torture

import (
	"net/url"
	"testing"
	"time"

	"github.com/tierd/tierd/client"
	"github.com/tierd/tierd/internal/fault"
)

// proxied puts a proxy before the server that a URL names, and returns the URL
// that leads through it. It ends with the test.
func proxied(t *testing.T, to string, p fault.Protocol) (*fault.Proxy, string) {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal("not a URL")
	}
	proxy, err := fault.Listen(u.Host, p)
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

// patience is how long a client waits for an answer where nothing takes its time.
const patience = 20 * time.Second

// dial returns a client that does not try again: campaigns do that by themselves.
func dial(t *testing.T, url string, timeout time.Duration) *client.Client {
	t.Helper()
	c, err := client.New(url, &client.Options{Timeout: timeout, Retry: client.Retry{Attempts: 1}, RememberWrites: -1})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
