package replay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/cold/s3"
	"github.com/tierd/tierd/internal/daemontest"
	"github.com/tierd/tierd/internal/servicestest"
	"github.com/tierd/tierd/tiering"
)

// TestReplayRealTiers replays sessions through two daemons that share Redis,
// PostgreSQL and two buckets, while all of them are killed and frozen in turn;
// then the database is lost and made again from a bucket, also as of an earlier
// time, and a user is erased.
func TestReplayRealTiers(t *testing.T) {
	replayTiers(t, writtenSessions(t, 32, 24), 100*time.Millisecond)
}

// TestReplayRealTiersOfRealSessions does it with the sessions of the file that
// REPLAY_DATA names.
func TestReplayRealTiersOfRealSessions(t *testing.T) {
	replayTiers(t, realSessions(t), 20*time.Millisecond)
}

// realSessions are those of the file that REPLAY_DATA names.
func realSessions(t *testing.T) []session {
	t.Helper()
	path := os.Getenv("REPLAY_DATA")
	if path == "" {
		t.Skip("REPLAY_DATA names no file of sessions: only written ones were replayed")
	}
	return readSessions(t, path)
}

const schemaName = "replay"

func replayTiers(t *testing.T, sessions []session, think time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	s := startServers(t)
	c := tierd.Config{Hot: s.hot, Warm: s.schema(schemaName), Cold: s.cold, Backup: s.backup}
	f := newFleet(t, daemontest.Build(t), c)
	f.start()

	l := f.replay(ctx, s, sessions, think)
	if t.Failed() {
		return
	}
	f.checkVersions(ctx, t, l, l.sessions, "through the other daemon")
	f.checkCurrent(ctx, t, l)
	f.stop()
	twoCopies(ctx, t, f, l)
	figures(t, s, l)

	copies := c // a store of its own, on its own hot tier
	copies.Hot = "memory:"
	copies.Warm, copies.Cold, copies.Backup = s.schema("past"), s.copyOf(ctx, s.cold), s.copyOf(ctx, s.backup)
	asOfMiddle(ctx, t, copies, l)

	s.schema(schemaName) // what was there is lost
	began := time.Now()
	f.daemons[0].Run("rebuild", "--from", "backup")
	t.Logf("rebuilt from the backup in %v", time.Since(began).Round(time.Millisecond))
	f.start()
	f.checkVersions(ctx, t, l, l.sessions, "after a rebuild from the backup")
	f.checkCurrent(ctx, t, l)
	began = time.Now()
	f.daemons[0].Run("drill", "--from", "primary")
	t.Logf("drill from the primary: sound, in %v", time.Since(began).Round(time.Millisecond))

	f.eraseUser(ctx, t, s, l)
	f.stop()
}

// replay writes the sessions while the faults strike, and accounts for what two
// watchers saw.
func (f *fleet) replay(ctx context.Context, s *servers, sessions []session, think time.Duration) *load {
	f.t.Helper()
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	watchers := [2]*follower{f.follow(watching, 0), f.follow(watching, 1)}
	struck := make(chan struct{})
	written := make(chan *load, 1)
	go func() { written <- f.write(ctx, sessions, think, struck) }()
	f.strike(ctx, s)
	close(struck)
	l := <-written
	if f.t.Failed() {
		return l
	}
	total, _ := rawBytes(l.sessions)
	for i, w := range watchers {
		w.await(f.t, total)
		w.mu.Lock()
		checkWatched(f.t, l.acked, w.seen)
		if w.count != total || w.moves == 0 {
			f.t.Errorf("watcher %d saw %d changes of %d and moved %d times", i, w.count, total, w.moves)
		}
		w.mu.Unlock()
	}
	stopWatching()
	for _, w := range watchers {
		<-w.done
	}
	f.t.Logf("%d versions of %d sessions were acknowledged in %v; %d cached gets during faults were behind",
		total, len(l.sessions), l.took.Round(time.Millisecond), f.stale.Load())
	return l
}

// twoCopies: everything lies in both buckets, read back down to each record.
func twoCopies(ctx context.Context, t *testing.T, f *fleet, l *load) {
	t.Helper()
	n, err := tierd.Open(ctx, f.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Archive(ctx); err != nil {
		t.Fatal(err)
	}
	for _, s := range l.sessions {
		x, err := n.Explain(ctx, namespace, s.id)
		if err != nil {
			t.Fatal(err)
		}
		verified := 0
		for _, c := range x.Copies {
			if c.Tier == tiering.Cold && c.State == string(tiering.CopyVerified) {
				verified++
			}
		}
		if verified != 2 {
			t.Fatalf("%s has %d verified copies in cold: %+v", s.id, verified, x.Copies)
		}
	}
	closeNode(t, n)
	began := time.Now()
	f.daemons[0].Run("verify", "--depth", "restore")
	t.Logf("verified down to each record in %v", time.Since(began).Round(time.Millisecond))
}

// figures logs what everything takes.
func figures(t *testing.T, s *servers, l *load) {
	t.Helper()
	total, raw := rawBytes(l.sessions)
	warm, primary, backup := s.schemaBytes(schemaName), bucketBytes(t, s.cold), bucketBytes(t, s.backup)
	t.Logf("%d versions, raw %.1f MB, PostgreSQL %.1f MB (%.2f of raw), primary %.2f MB (1/%.1f of raw), backup %.2f MB",
		total, float64(raw)/1e6, float64(warm)/1e6, float64(warm)/float64(raw), float64(primary)/1e6, float64(raw)/float64(primary), float64(backup)/1e6)
}

// copyOf copies a bucket to one of its own.
func (s *servers) copyOf(ctx context.Context, from string) string {
	s.t.Helper()
	to := servicestest.Bucket(s.t, from, false)
	src, err := s3.Open(ctx, placeOf(s.t, from).String(), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	defer src.Close()
	dst, err := s3.Open(ctx, to, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	defer dst.Close()
	for o, err := range src.List(ctx, "") {
		if err != nil {
			s.t.Fatal(err)
		}
		b, err := src.Read(ctx, o.Name, 0, -1)
		if err == nil {
			err = dst.Create(ctx, o.Name, bytes.NewReader(b), int64(len(b)))
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
	return to
}

// asOfMiddle rebuilds copies of the tiers as of the middle of the replay:
// everything acknowledged by then is there, nothing that was sent a while later is.
func asOfMiddle(ctx context.Context, t *testing.T, c tierd.Config, l *load) {
	t.Helper()
	middle := l.acked.middle()
	r, err := tierd.Rebuild(ctx, c, tierd.RebuildOptions{From: "primary", AsOf: middle})
	if err != nil {
		t.Fatal(err)
	}
	n, err := tierd.Open(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	defer closeNode(t, n)
	// A rebuild cuts at a position of the feed, and transactions that run beside
	// each other are not in the order of their clocks there.
	standsAsOf(ctx, t, n, l.sessions, l.acked, middle, time.Second)
	t.Logf("rebuilt as of the middle: %d of the versions", r.Versions)
}

// eraseUser erases one user, and looks for a trace in every tier.
func (f *fleet) eraseUser(ctx context.Context, t *testing.T, s *servers, l *load) {
	t.Helper()
	user := userOf(l.sessions[0])
	var gone, kept []session
	values, names := []string{user}, []string{}
	for _, s := range l.sessions {
		if userOf(s) == user {
			gone = append(gone, s)
			values, names = append(values, fmt.Sprintf(`"session":%q`, s.id)), append(names, s.id)
		} else {
			kept = append(kept, s)
		}
	}
	c := newCanaries(t, values, names)
	// One more version of each, so that warm, feed and hot hold them too.
	for _, x := range gone {
		if _, err := f.clients[0].Put(ctx, namespace, x.id, x.docs[0], nil); err != nil {
			t.Fatal(err)
		}
	}
	places := map[string]bool{}
	for _, place := range s.search(c, schemaName, s.cold, s.backup) {
		for _, kind := range []string{"Redis key", "Redis file", "table version", "table head", "object " + placeOf(t, s.cold).Bucket, "object " + placeOf(t, s.backup).Bucket} {
			if len(place) > len(kind) && place[:len(kind)] == kind {
				places[kind] = true
			}
		}
	}
	if len(places) != 6 {
		t.Fatalf("before the erase the canary is in %v: the search proves nothing", places)
	}

	no := false
	began := time.Now()
	receipt, err := f.clients[1].Erase(ctx, tiering.EraseRequest{User: user, DryRun: &no})
	for err == nil && receipt.State != "done" && ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond)
		receipt, err = f.clients[1].Erasure(ctx, receipt.ID)
	}
	if err != nil || receipt.State != "done" || receipt.Keys != int64(len(gone)) {
		t.Fatalf("erase: %+v, %v; want %d keys", receipt, err, len(gone))
	}
	t.Logf("erased %d sessions of one user in %v", len(gone), time.Since(began).Round(time.Millisecond))
	for i, place := range s.search(c, schemaName, s.cold, s.backup) {
		if i < 10 {
			t.Errorf("after the erase %s", place)
		}
	}
	for _, x := range gone {
		for i, cl := range f.clients {
			if _, err := cl.Get(ctx, namespace, x.id, nil); !errors.Is(err, tiering.ErrNotFound) {
				t.Errorf("%s at daemon %d after the erase: %v", x.id, i, err)
			}
		}
	}
	f.checkVersions(ctx, t, l, kept, "others after the erase")
}

// each calls fn for every session, several at once.
func each(t *testing.T, sessions []session, fn func(session) error) {
	t.Helper()
	work := make(chan session)
	var mu sync.Mutex
	var first error
	failed := 0
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for s := range work {
				if err := fn(s); err != nil {
					mu.Lock()
					if failed++; first == nil {
						first = err
					}
					mu.Unlock()
				}
			}
		})
	}
	for _, s := range sessions {
		work <- s
	}
	close(work)
	wg.Wait()
	if first != nil {
		t.Errorf("%d of %d sessions, the first: %v", failed, len(sessions), first)
	}
}
