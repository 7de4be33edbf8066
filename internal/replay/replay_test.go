// Package replay puts whole conversations through a daemon that is killed on
// the way, and accounts for every version afterwards.
package replay_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierd/tierd/client"
	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/dir"
	"github.com/tierd/tierd/internal/daemontest"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm/sqlite"
)

const (
	namespace = "sessions"
	parallel  = 16 // sessions written at once
	kills     = 3
)

// TestReplay runs conversations written for this test.
func TestReplay(t *testing.T) {
	run(t, writtenSessions(t, 24, 20))
}

// TestReplayOfRealSessions runs the sessions of a file, named by
// REPLAY_DATA: JSON lines of {"session", "messages"}.
func TestReplayOfRealSessions(t *testing.T) {
	path := os.Getenv("REPLAY_DATA")
	if path == "" {
		t.Skip("REPLAY_DATA names no file of sessions: only the written ones were replayed")
	}
	run(t, readSessions(t, path))
}

// acked is what the daemon acknowledged: by session, the version of each
// document in order.
type acked struct {
	mu       sync.Mutex
	versions map[string][]int64
	// began and done are when each put was sent and answered.
	began, done map[string][]time.Time
}

func newAcked() *acked {
	return &acked{versions: map[string][]int64{}, began: map[string][]time.Time{}, done: map[string][]time.Time{}}
}

func (a *acked) add(id string, version int64, began, done time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.versions[id] = append(a.versions[id], version)
	a.began[id], a.done[id] = append(a.began[id], began), append(a.done[id], done)
}

func run(t *testing.T, sessions []session) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	d := daemontest.New(t, daemontest.Build(t), nil)
	restarts := []time.Duration{d.MustStart()}
	c, err := client.New(d.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	total, raw := rawBytes(sessions)
	seen := watch(ctx, t, c, total)

	var done atomic.Int64
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		for k := 1; k <= kills; k++ {
			for done.Load() < int64(total*k/(kills+1)) {
				time.Sleep(time.Millisecond)
			}
			d.Kill()
			took, err := d.Start()
			if err != nil {
				t.Errorf("after kill %d: %v", k, err)
				cancel()
				return
			}
			restarts = append(restarts, took)
		}
	}()
	began := time.Now()
	a := write(ctx, t, c, sessions, &done)
	<-killed
	took := time.Since(began)

	checkWatched(t, a, <-seen)
	checkHistory(ctx, t, c, sessions, a)
	rollBack(ctx, t, c, sessions, a)
	d.Stop()
	checkCold(ctx, t, d.Data(), sessions, a)
	report(t, d.Data(), total, raw, took, restarts)
	downAndUp(ctx, t, d.Data(), sessions, a)
}

// middle is when half of the versions had been acknowledged.
func (a *acked) middle() time.Time {
	var all []time.Time
	for _, times := range a.done {
		all = append(all, times...)
	}
	slices.SortFunc(all, time.Time.Compare)
	return all[len(all)/2]
}

// write puts every session's documents in order, many sessions at once. A put
// whose answer was lost is sent again with its idempotency key until it is
// answered.
func write(ctx context.Context, t *testing.T, c *client.Client, sessions []session, done *atomic.Int64) *acked {
	a := newAcked()
	work := make(chan session)
	var wg sync.WaitGroup
	for range parallel {
		wg.Go(func() {
			for s := range work {
				for n, doc := range s.docs {
					o := &tiering.PutOptions{User: userOf(s), WriteOptions: tiering.WriteOptions{IdempotencyKey: fmt.Sprintf("%s-%d", s.id, n)}}
					began := time.Now()
					rc, err := c.Put(ctx, namespace, s.id, doc, o)
					for tiering.Retryable(err) && ctx.Err() == nil {
						time.Sleep(20 * time.Millisecond)
						rc, err = c.Put(ctx, namespace, s.id, doc, o)
					}
					if err != nil {
						t.Errorf("put %s step %d: %v", s.id, n, err)
						return
					}
					a.add(s.id, rc.Version, began, time.Now())
					done.Add(1)
				}
			}
		})
	}
	for _, s := range sessions {
		work <- s
	}
	close(work)
	wg.Wait()
	return a
}

// watch follows the namespace across all restarts until total puts were seen.
func watch(ctx context.Context, t *testing.T, c *client.Client, total int) <-chan map[string][]int64 {
	out := make(chan map[string][]int64, 1)
	w, err := c.Watch(ctx, &tiering.WatchOptions{Namespace: namespace, From: "start"})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer w.Close()
		seen := map[string][]int64{}
		for n := 0; n < total; n++ {
			e, err := w.Next(ctx)
			if err != nil {
				t.Errorf("watch after %d events: %v", n, err)
				break
			}
			seen[e.Key] = append(seen[e.Key], e.Version)
		}
		out <- seen
	}()
	return out
}

// checkWatched: the watcher saw every acknowledged version once, in order, and
// no other.
func checkWatched(t *testing.T, a *acked, seen map[string][]int64) {
	t.Helper()
	for id, want := range a.versions {
		if fmt.Sprint(seen[id]) != fmt.Sprint(want) {
			t.Errorf("watcher of %s saw versions %v, want %v", id, seen[id], want)
		}
	}
}

// checkHistory: every acknowledged version is there with exactly its bytes,
// and nothing was written twice.
func checkHistory(ctx context.Context, t *testing.T, c *client.Client, sessions []session, a *acked) {
	t.Helper()
	for _, s := range sessions {
		versions := a.versions[s.id]
		for n, v := range versions {
			got, err := c.Get(ctx, namespace, s.id, &tiering.GetOptions{Version: v})
			if err != nil || !sameBytes(got.Body, s.docs[n]) {
				t.Fatalf("%s version %d: %v", s.id, v, err)
			}
		}
		h, err := c.History(ctx, namespace, s.id, &tiering.HistoryOptions{Limit: 1000})
		if err != nil || len(h.Versions) != len(s.docs) {
			t.Fatalf("%s has %d versions, want %d: %v", s.id, len(h.Versions), len(s.docs), err)
		}
	}
}

// rollBack takes ten sessions back to their middle.
func rollBack(ctx context.Context, t *testing.T, c *client.Client, sessions []session, a *acked) {
	t.Helper()
	for _, s := range sessions[:min(10, len(sessions))] {
		middle := len(s.docs) / 2
		rc, err := c.Rollback(ctx, namespace, s.id, a.versions[s.id][middle], nil)
		if err != nil {
			t.Fatalf("rollback of %s: %v", s.id, err)
		}
		got, err := c.Get(ctx, namespace, s.id, nil)
		if err != nil || got.Version != rc.Version || !sameBytes(got.Body, s.docs[middle]) {
			t.Fatalf("%s after its rollback: version %d, %v", s.id, rc.Version, err)
		}
	}
}

// checkCold: the stopped node's two directories each hold every version, and
// each version is one ranged read away.
func checkCold(ctx context.Context, t *testing.T, data string, sessions []session, a *acked) {
	t.Helper()
	w, err := sqlite.Open(ctx, filepath.Join(data, "warm.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var buckets [2]*countingBucket
	for i, name := range []string{"cold", "backup"} {
		b, err := dir.Open(filepath.Join(data, name), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		buckets[i] = &countingBucket{Bucket: b}
	}
	archive := cold.NewArchive(buckets[0], buckets[1], nil)
	reads := int64(0)
	for _, s := range sessions {
		key := tiering.Key{Tenant: tiering.DefaultTenant, Namespace: namespace, ID: s.id}
		locs, err := w.Locations(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		for n, v := range a.versions[s.id] {
			loc, ok := find(locs, v)
			if !ok {
				t.Fatalf("no segment holds %s version %d", s.id, v)
			}
			for _, c := range []tiering.Copy{tiering.Primary, tiering.Backup} {
				rec, err := archive.ReadFrom(ctx, c, loc, v)
				if err != nil || !sameBytes(rec.Body, s.docs[n]) {
					t.Fatalf("%s version %d from %s: %v", s.id, v, c, err)
				}
			}
			reads++
		}
	}
	for _, b := range buckets {
		if b.reads.Load() != reads {
			t.Errorf("%d ranged reads for %d versions", b.reads.Load(), reads)
		}
	}
}

func find(locs []tiering.Location, version int64) (tiering.Location, bool) {
	for _, l := range locs {
		if _, ok := l.Block(version); ok {
			return l, true
		}
	}
	return tiering.Location{}, false
}

// countingBucket counts ranged reads.
type countingBucket struct {
	cold.Bucket
	reads atomic.Int64
}

func (b *countingBucket) Read(ctx context.Context, name string, offset, length int64) ([]byte, error) {
	b.reads.Add(1)
	return b.Bucket.Read(ctx, name, offset, length)
}

// report logs the figures, and holds the archive to its promise.
func report(t *testing.T, data string, versions int, raw int64, took time.Duration, restarts []time.Duration) {
	t.Helper()
	size := func(name string) int64 {
		var n int64
		err := filepath.WalkDir(filepath.Join(data, name), func(_ string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			info, err := e.Info()
			if err == nil {
				n += info.Size()
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	coldBytes, backup, warm := size("cold"), size("backup"), size("warm.db")
	t.Logf("versions %d, raw %.1f MB, %.0f versions/s with %d kills", versions, float64(raw)/1e6, float64(versions)/took.Seconds(), kills)
	t.Logf("warm %.1f MB (%.2f of raw), cold %.2f MB (1/%.1f of raw), backup %.2f MB", float64(warm)/1e6, float64(warm)/float64(raw),
		float64(coldBytes)/1e6, float64(raw)/float64(coldBytes), float64(backup)/1e6)
	t.Logf("start %v, restarts after kill %v", restarts[0].Round(time.Millisecond), restarts[1:])
	if coldBytes > raw/10 {
		t.Errorf("cold takes %d bytes for %d raw: more than a tenth", coldBytes, raw)
	}
}
