package daemontest

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/server"
	"github.com/tierd/tierd/tiering"
)

// Serve opens a node on c in this process, serves it, and returns the URL. Both end
// with the test. What the node logged is shown where the test fails.
func Serve(t testing.TB, c tierd.Config) (url string) {
	t.Helper()
	log := &keptLog{}
	c.Logger = slog.New(slog.NewTextHandler(log, nil))
	n, err := tierd.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server.New(server.Options{
		As: func(who tiering.Principal) tiering.Service { return n.As(who) }, Ready: n.Ready, Metrics: n.Metrics(), Logger: c.Logger,
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
	go func() { served <- srv.Serve(ctx, ln, nil) }() // the cleanup waits for it
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
		if t.Failed() {
			t.Logf("the node's log:\n%s", log)
		}
	})
	return "http://" + ln.Addr().String()
}

// keptLog keeps the last of what was written to it.
type keptLog struct {
	mu   sync.Mutex
	text []byte
}

func (l *keptLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	const most = 32 << 10
	if l.text = append(l.text, p...); len(l.text) > most {
		l.text = bytes.Clone(l.text[len(l.text)-most:])
	}
	return len(p), nil
}

func (l *keptLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}
