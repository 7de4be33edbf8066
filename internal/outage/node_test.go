package outage_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/internal/daemontest"
	"github.com/tierd/tierd/tiering"
)

// node is a daemon: a node with the HTTP API in front of it.
type node struct {
	t    *testing.T
	url  string
	http *http.Client

	beside *node        // another daemon on the same tiers; nil where there is none
	calls  atomic.Int64 // every other goes to the one beside
}

// startNode opens a node on c and serves it until the test ends.
func startNode(t *testing.T, c tierd.Config) *node {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	n := &node{t: t, url: daemontest.Serve(t, c), http: &http.Client{Transport: transport}}
	t.Cleanup(transport.CloseIdleConnections)
	return n
}

// answer is what a call came back with. A status of 0 is a call that broke.
type answer struct {
	status int
	header http.Header
	body   []byte
	took   time.Duration
}

// call makes one request, of either daemon where there are two. headers are
// names and values in turn.
func (n *node) call(method, path, body string, headers ...string) answer {
	url := n.url
	if n.beside != nil && n.calls.Add(1)%2 == 0 {
		url = n.beside.url
	}
	return n.callAt(url, method, path, body, headers...)
}

// callAt makes one request of the daemon at url.
func (n *node) callAt(url, method, path, body string, headers ...string) answer {
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url+path, strings.NewReader(body))
	if err != nil {
		n.t.Error(err)
		return answer{}
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	began := time.Now()
	res, err := n.http.Do(req)
	if err != nil {
		n.t.Errorf("%s %s after %v: %v", method, path, time.Since(began), err)
		return answer{took: time.Since(began)}
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		n.t.Errorf("%s %s: %v", method, path, err)
	}
	return answer{res.StatusCode, res.Header, b, time.Since(began)}
}

// must is call that has to succeed.
func (n *node) must(method, path, body string, headers ...string) answer {
	n.t.Helper()
	a := n.call(method, path, body, headers...)
	if a.status < 200 || a.status > 299 {
		n.t.Fatalf("%s %s: %d %s", method, path, a.status, a.body)
	}
	return a
}

// into reads the answer's JSON.
func (a answer) into(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal(a.body, v); err != nil {
		t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
}

// receipt is what a write was answered.
func (a answer) receipt(t *testing.T) tiering.Receipt {
	t.Helper()
	var rc tiering.Receipt
	a.into(t, &rc)
	return rc
}

// tier names where a document came from, with a star when it may be old.
func (a answer) tier() string {
	tier := a.header.Get("Tierd-Tier")
	if a.header.Get("Tierd-Stale") == "true" {
		tier += "*"
	}
	return tier
}
