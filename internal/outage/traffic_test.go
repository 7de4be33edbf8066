package outage_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierd/tierd/client"
	"github.com/tierd/tierd/tiering"
)

const (
	space   = "traffic"
	writers = 4
)

// traffic writes and reads all through an outage, and accounts for every
// version afterwards.
type traffic struct {
	t    *testing.T
	n    *node
	name string // of the cell: its keys are its own

	stop    atomic.Bool
	given   atomic.Bool // up: the cell has failed
	running sync.WaitGroup
	acked   [writers]written
	read    atomic.Int64

	watcher tiering.Watcher
	seen    chan map[string][]int64
	want    atomic.Int64 // events that the watcher has to see; 0 while that is not known
}

// written is what one writer was acknowledged, in order.
type written struct {
	mu sync.Mutex
	// least is what every read that begins now has to show. A write that hot did
	// not take may be hidden by what another daemon has there, and says so.
	least   int64
	digests []tiering.Digest
	retried int
}

func (tr *traffic) key(i int) string { return fmt.Sprintf("%s/%d", tr.name, i) }

// startTraffic begins it, with a watcher beside it.
func startTraffic(t *testing.T, n *node, name string) *traffic {
	t.Helper()
	tr := &traffic{t: t, n: n, name: name, seen: make(chan map[string][]int64, 1)}
	c, err := client.New(n.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if tr.watcher, err = c.Watch(context.Background(), &tiering.WatchOptions{Namespace: space, Prefix: name + "/"}); err != nil {
		t.Fatal(err)
	}
	go tr.watch()
	for i := range writers {
		tr.running.Go(func() { tr.write(i) })
	}
	tr.running.Go(tr.readBack)
	t.Cleanup(func() { // of a cell that was given up
		tr.stop.Store(true)
		tr.given.Store(true)
		tr.running.Wait()
		tr.want.Store(-1)
		_ = tr.watcher.Close()
	})
	return tr
}

// write puts one document after the other under one key. A put that was not
// acknowledged is sent again, under its Idempotency-Key, until it is.
func (tr *traffic) write(i int) {
	w := &tr.acked[i]
	for n := 0; !tr.stop.Load(); n++ {
		body := fmt.Sprintf(`{"writer":%d,"n":%d}`, i, n)
		for try := 0; try == 0 || !tr.given.Load(); try++ {
			a := tr.n.call("PUT", "/v1/state/"+space+"/"+tr.key(i), body, "Idempotency-Key", fmt.Sprintf("%s-%d-%d", tr.name, i, n))
			if a.status == 200 || a.status == 201 {
				rc := tiering.Receipt{}
				if err := json.Unmarshal(a.body, &rc); err != nil {
					tr.t.Errorf("a receipt: %v", err)
				}
				w.mu.Lock()
				if w.digests = append(w.digests, rc.Digest); rc.Hot || tr.n.beside == nil {
					w.least = rc.Version
				}
				w.mu.Unlock()
				break
			}
			w.retried++
			if a.status != 503 || a.header.Get("Retry-After") == "" {
				tr.t.Errorf("a write was answered %d, Retry-After %q: %s", a.status, a.header.Get("Retry-After"), a.body)
			}
			time.Sleep(25 * time.Millisecond)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// readBack reads the writers' keys: never below what had to be seen when the
// read was sent, unless it is said.
func (tr *traffic) readBack() {
	for n := 0; !tr.stop.Load(); n++ {
		i := n % writers
		w := &tr.acked[i]
		w.mu.Lock()
		least := w.least
		w.mu.Unlock()
		a := tr.n.call("GET", "/v1/state/"+space+"/"+tr.key(i), "")
		switch {
		case a.status == 200:
			tr.read.Add(1)
			version, err := strconv.ParseInt(strings.Trim(a.header.Get("ETag"), `"`), 10, 64)
			if err != nil || version < least && a.header.Get("Tierd-Stale") == "" {
				tr.t.Errorf("a get answers version %s from %s, %d was acknowledged before", a.header.Get("ETag"), a.tier(), least)
			}
		case a.status == 404 && least == 0:
		case a.status != 503:
			tr.t.Errorf("a get was answered %d: %s", a.status, a.body)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// watch collects the versions of every key, until as many have come as want
// says and nothing more comes.
func (tr *traffic) watch() {
	got := map[string][]int64{}
	for count := int64(0); ; {
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		e, err := tr.watcher.Next(ctx)
		cancel()
		switch {
		case err == nil:
			got[e.Key] = append(got[e.Key], e.Version)
			count++
		case ctx.Err() == nil || tr.want.Load() < 0:
			if ctx.Err() == nil {
				tr.t.Errorf("the watch ended: %v", err)
			}
			tr.seen <- got
			return
		case tr.want.Load() > 0 && count >= tr.want.Load():
			tr.seen <- got
			return
		}
	}
}

// finish ends the traffic and accounts for it: every acknowledged version is
// there, in order, with its content; no request happened twice; the watcher
// saw each version once. It returns how many versions that were, and how many
// tries failed meanwhile.
func (tr *traffic) finish() (versions, retried int) {
	tr.t.Helper()
	tr.stop.Store(true)
	tr.running.Wait()
	all := map[string][]int64{}
	for i := range writers {
		w := &tr.acked[i]
		history := tr.history(tr.key(i))
		if len(history) != len(w.digests) {
			tr.t.Errorf("%s has %d versions, %d writes were acknowledged", tr.key(i), len(history), len(w.digests))
		}
		for n, v := range history {
			if n < len(w.digests) && v.Digest != w.digests[n] {
				tr.t.Errorf("version %d of %s is not what was written", v.Version, tr.key(i))
				break
			}
			all[tr.key(i)] = append(all[tr.key(i)], v.Version)
		}
		versions += len(w.digests)
		retried += w.retried
	}
	tr.want.Store(int64(versions))
	select {
	case got := <-tr.seen:
		for key, want := range all {
			if !slices.Equal(got[key], want) {
				tr.t.Errorf("the watcher saw %d versions of %s, %d were made, or not in their order", len(got[key]), key, len(want))
			}
		}
	case <-time.After(10 * time.Second):
		tr.t.Error("the watcher did not see every version within 10 s")
		tr.want.Store(-1)
		<-tr.seen
	}
	if err := tr.watcher.Close(); err != nil {
		tr.t.Error(err)
	}
	return versions, retried
}

// history is every version of a key, oldest first.
func (tr *traffic) history(key string) []tiering.VersionInfo {
	tr.t.Helper()
	var out []tiering.VersionInfo
	for cursor := ""; ; {
		var page struct {
			Versions []tiering.VersionInfo `json:"versions"`
			Next     string                `json:"next_cursor"`
		}
		tr.n.must("GET", "/v1/versions/"+space+"/"+key+"?limit=1000&cursor="+cursor, "").into(tr.t, &page)
		out = append(out, page.Versions...)
		if cursor = page.Next; cursor == "" {
			slices.Reverse(out)
			return out
		}
	}
}
