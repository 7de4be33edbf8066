package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/internal/servicestest"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// testURL leads to a schema of its own, which goes at the end.
func testURL(t testing.TB) string {
	t.Helper()
	u, _ := servicestest.Schema(t)
	return u
}

// testClock stands until it is moved.
type testClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *testClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *testClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// open opens a store, which is closed at the end.
func open(t testing.TB, url string, o *Options) *Store {
	t.Helper()
	s, err := Open(context.Background(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// fresh opens a store with the namespace notes, written to before.
func fresh(t testing.TB) (*Store, *testClock) {
	t.Helper()
	clock := &testClock{now: time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)}
	s := open(t, testURL(t), &Options{Clock: clock.Now})
	begin(t, s)
	return s, clock
}

func begin(t testing.TB, s *Store) {
	t.Helper()
	if _, err := s.EnsureNamespace(context.Background(), warm.Namespace{Tenant: "acme", Name: "notes", Kind: tiering.KindState, Class: tiering.ClassPersistent}); err != nil {
		t.Fatal(err)
	}
	mustPut(t, s, "first", `1`)
}

func noteKey(id string) tiering.Key { return tiering.Key{Tenant: "acme", Namespace: "notes", ID: id} }

func putRow(body string) warm.Row {
	return warm.Row{Op: tiering.OpPut, Body: []byte(body), Digest: tiering.DigestOf([]byte(body)), Query: true}
}

func mustPut(t testing.TB, s *Store, id, body string) warm.Result {
	t.Helper()
	r, err := commitOne(s, warm.Change{Key: noteKey(id), Rows: []warm.Row{putRow(body)}})
	if err != nil {
		t.Fatal(err)
	}
	if r[0].Status != warm.Done {
		t.Fatalf("a put of %s: %+v", id, r[0])
	}
	return r[0]
}

// feedKeys lists what the feed says, in order.
func feedKeys(t testing.TB, s *Store) (out []string) {
	t.Helper()
	if err := s.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	entries, err := s.ReadFeed(t.Context(), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range entries {
		if e.Pos != int64(i+1) {
			t.Errorf("entry %d has position %d", i, e.Pos)
		}
		for _, c := range e.Changes {
			out = append(out, fmt.Sprintf("%s@%d", c.Key.ID, c.Version))
		}
	}
	return out
}

// TestFeedGoesOnBesideAnOpenTransaction: a commit that has drawn its place in
// the outbox and hangs holds up nobody else, and is found once it ends.
func TestFeedGoesOnBesideAnOpenTransaction(t *testing.T) {
	s, _ := fresh(t)
	held, release := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		err := s.transact(context.Background(), func(tx *txn) error {
			if _, err := tx.exec(`BEGIN`); err != nil {
				return err
			}
			if _, err := tx.exec(insertBatch, 1, uuid.New(), encodeResults(nil, true), encodeChanges([]warm.FeedChange{{Key: noteKey("late"), Op: tiering.OpPut, Version: 1}})); err != nil {
				return err
			}
			close(held)
			<-release
			return tx.commit(`COMMIT`)
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-held
	mustPut(t, s, "a", `1`)
	mustPut(t, s, "a", `2`)
	if got, want := fmt.Sprint(feedKeys(t, s)), "[first@1 a@1 a@2]"; got != want {
		t.Errorf("beside the open transaction the feed says %s, want %s", got, want)
	}
	close(release)
	wg.Wait()
	if got, want := fmt.Sprint(feedKeys(t, s)), "[first@1 a@1 a@2 late@1]"; got != want {
		t.Errorf("after it the feed says %s, want %s", got, want)
	}
}

// TestConflictingCommitsAreInTheFeedInTheirOrder: many committers over few
// keys, of two daemons, while two sequencers run.
func TestConflictingCommitsAreInTheFeedInTheirOrder(t *testing.T) {
	u := testURL(t)
	stores := []*Store{open(t, u, nil), open(t, u, nil)}
	begin(t, stores[0])
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 15 {
				var changes []warm.Change
				for _, id := range []string{"a", "b", "c"}[i%3:] {
					changes = append(changes, warm.Change{Key: noteKey(id), Rows: []warm.Row{putRow(`1`)}})
				}
				if _, err := stores[w%2].Commit(context.Background(), &warm.Batch{ID: uuid.New(), Changes: changes}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := stores[0].Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	entries, err := stores[1].ReadFeed(t.Context(), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	last := map[string]int64{}
	for i, e := range entries {
		if e.Pos != int64(i+1) {
			t.Fatalf("entry %d has position %d", i, e.Pos)
		}
		for _, c := range e.Changes {
			if c.Prev != last[c.Key.ID] {
				t.Fatalf("at %d %s@%d follows version %d, the feed said %d last", e.Pos, c.Key.ID, c.Version, c.Prev, last[c.Key.ID])
			}
			last[c.Key.ID] = c.Version
		}
	}
	if want := int64(120); last["c"] != want {
		t.Errorf("the last version of c in the feed is %d, want %d", last["c"], want)
	}
}

// TestResolveWaitsForTheOriginal: the look-up is an insert of the batch's own
// id, so it knows also while the original hangs.
func TestResolveWaitsForTheOriginal(t *testing.T) {
	for _, commits := range []bool{true, false} {
		t.Run(fmt.Sprintf("which commits %t", commits), func(t *testing.T) {
			s, _ := fresh(t)
			id := uuid.New()
			held := make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() {
				err := s.transact(context.Background(), func(tx *txn) error {
					if _, err := tx.exec(`BEGIN`); err != nil {
						return err
					}
					if _, err := tx.exec(insertBatch, 1, id, encodeResults(nil, true), encodeChanges(nil)); err != nil {
						return err
					}
					close(held)
					if err := waitForLock(s); err != nil {
						return err
					}
					if !commits {
						return errRollback
					}
					return tx.commit(`COMMIT`)
				})
				if err != nil {
					t.Error(err)
				}
			})
			<-held
			_, committed, err := s.Resolve(t.Context(), &warm.Batch{ID: id})
			if err != nil || committed != commits {
				t.Errorf("committed %t, %v, want %t", committed, err, commits)
			}
			wg.Wait()
		})
	}
}

// waitForLock returns when a statement of this database waits for another
// transaction's insert.
func waitForLock(s *Store) error {
	for range 2000 {
		n, err := number(context.Background(), s.readers, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE 'INSERT INTO batch (at, id)%'`)
		if err != nil || n > 0 {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return errors.New("nobody waits")
}

// TestConnectionsThatDieAreReplaced: the server ends every session, as when it
// is restarted. A write whose session ends under it is unknown and settles.
func TestConnectionsThatDieAreReplaced(t *testing.T) {
	s, _ := fresh(t)
	kill := func() {
		c, err := pgx.Connect(t.Context(), s.url)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(t.Context())
		if _, err := c.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()
			AND pid = ANY($1::int[])`, s.pids(t)); err != nil {
			t.Fatal(err)
		}
	}
	kill()
	if cur, err := s.Load(t.Context(), noteKey("first")); err != nil || cur.Head.Version != 1 {
		t.Errorf("a read afterwards: %+v, %v", cur, err)
	}
	kill()
	b := &warm.Batch{ID: uuid.New(), Changes: []warm.Change{{Key: noteKey("k"), Rows: []warm.Row{putRow(`1`)}}}}
	_, err := s.Commit(t.Context(), b)
	if err != nil && !errors.Is(err, warm.ErrOutcomeUnknown) {
		t.Fatalf("a commit afterwards: %v", err)
	}
	if err != nil {
		_, committed, err := s.Resolve(t.Context(), b)
		if err != nil || committed {
			t.Fatalf("it resolves to %t, %v: no session was there to commit it", committed, err)
		}
		b.ID = uuid.New()
		if _, err := s.Commit(t.Context(), b); err != nil {
			t.Fatalf("a commit after that: %v", err)
		}
	}
	if cur, err := s.Load(t.Context(), noteKey("k")); err != nil || cur.Head.Version != 1 {
		t.Errorf("in the end: %+v, %v", cur.Head, err)
	}
}

// pids lists the sessions of a store.
func (s *Store) pids(t *testing.T) (out []int32) {
	t.Helper()
	for _, c := range slices.Concat(s.committers.AcquireAllIdle(t.Context()), s.writers.AcquireAllIdle(t.Context()), s.readers.AcquireAllIdle(t.Context())) {
		out = append(out, int32(c.Conn().PgConn().PID()))
		c.Release()
	}
	return out
}

// TestRefusedProjections: what PostgreSQL does not take as JSONB is stored, is
// found, also after its bytes left warm, and is counted.
func TestRefusedProjections(t *testing.T) {
	s, _ := fresh(t)
	huge := `{"n":1e200000,"s":"x"}` // beyond numeric
	results, err := s.Commit(t.Context(), &warm.Batch{ID: uuid.New(), Changes: []warm.Change{
		{Key: noteKey("fine"), Rows: []warm.Row{putRow(`{"s":"x"}`)}}, {Key: noteKey("huge"), Rows: []warm.Row{putRow(huge)}},
	}})
	if err != nil || results[0][0].Status != warm.Done || results[1][0].Status != warm.Done {
		t.Fatalf("%+v, %v", results, err)
	}
	project(t, s)
	if got := s.Refused(); got != 1 {
		t.Errorf("%d were counted", got)
	}
	find := func() (out []string) {
		filter, err := warm.ParseFilter([]byte(`{"s":"x"}`))
		if err != nil {
			t.Fatal(err)
		}
		items, _, err := s.Query(t.Context(), warm.Query{Tenant: "acme", Namespace: "notes", Filter: filter, Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, cur := range items {
			out = append(out, cur.Head.Key.ID)
		}
		return out
	}
	if got := fmt.Sprint(find()); got != "[fine huge]" {
		t.Errorf("found %s", got)
	}
	for _, id := range []string{"fine", "huge"} {
		info := tiering.SegmentInfo{Name: "s-" + id, Tenant: "acme", Token: 1}
		if err := s.StartSegment(t.Context(), info); err != nil {
			t.Fatal(err)
		}
		info.Copies = [2]tiering.CopyState{tiering.CopyVerified, tiering.CopyVerified}
		if err := s.FinishSegment(t.Context(), info, []tiering.Location{{Key: noteKey(id), MinVersion: 1, MaxVersion: 1}}, "", 0); err != nil {
			t.Fatal(err)
		}
		if ok, err := s.Demote(t.Context(), noteKey(id), 1, s.opts.Clock()); err != nil || !ok {
			t.Fatalf("demoting %s: %t, %v", id, ok, err)
		}
	}
	if got := fmt.Sprint(find()); got != "[fine huge]" {
		t.Errorf("found %s after their bytes left warm", got)
	}
}

// TestUpdatesStayOnTheirPage: no index covers what a put changes.
func TestUpdatesStayOnTheirPage(t *testing.T) {
	for name, indexed := range map[string]bool{"plain": false, "with an index of documents": true} {
		t.Run(name, func(t *testing.T) {
			s, clock := fresh(t)
			if indexed {
				indexNotes(t, s)
			}
			updatesStay(t, s, clock)
		})
	}
}

// updatesStay updates a head 200 times and wants nearly all of them to be HOT. While
// another user of the server holds an old snapshot no space comes free on a page, which
// does not last: then it tries again.
func updatesStay(t *testing.T, s *Store, clock *testClock) {
	t.Helper()
	const updates = 200
	mustPut(t, s, "k", `0`)
	var all, hot, before, hotBefore int64
	for began := time.Now(); time.Since(began) < 2*time.Minute; {
		for i := range updates {
			clock.advance(time.Second)
			row := putRow(fmt.Sprint(i))
			row.Expiry.TTL = &tiering.TTL{Life: time.Hour}
			if _, err := commitOne(s, warm.Change{Key: noteKey("k"), Rows: []warm.Row{row}}); err != nil {
				t.Fatal(err)
			}
		}
		// Counters of a session come with its next idle moment.
		for range 1000 {
			if _, err := s.committers.Exec(t.Context(), `SELECT pg_stat_force_next_flush()`); err != nil {
				t.Fatal(err)
			}
			if err := s.committers.QueryRow(t.Context(), `SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relid = 'head'::regclass`).Scan(&all, &hot); err != nil {
				t.Fatal(err)
			}
			if all-before >= updates {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if all-before >= updates && (hot-hotBefore)*100 >= (all-before)*99 {
			return
		}
		before, hotBefore = all, hot
	}
	t.Errorf("%d of %d updates were HOT, and no 200 of them nearly all", hot, all)
}

// TestAHotKeyStaysSmall: thousands of versions of one key leave its head where
// it was, and what a put of it reads does not grow with them.
func TestAHotKeyStaysSmall(t *testing.T) {
	s, _ := fresh(t)
	mustPut(t, s, "hot", `0`)
	const folds, rows = 20, 250
	for range folds {
		c := warm.Change{Key: noteKey("hot")}
		for range rows {
			c.Rows = append(c.Rows, putRow(`1`))
		}
		if _, err := commitOne(s, c); err != nil {
			t.Fatal(err)
		}
	}
	cur, err := s.Load(t.Context(), noteKey("hot"))
	if err != nil || cur.Head.Version != folds*rows+1 {
		t.Fatalf("%+v, %v", cur.Head, err)
	}
	var pages int64
	if err := s.readers.QueryRow(t.Context(), `SELECT (pg_relation_size('head') + pg_relation_size('head_nid_id_key')) / 8192`).Scan(&pages); err != nil || pages > 8 {
		t.Errorf("heads take %d pages, %v", pages, err)
	}
}

// TestStatsAreBounded: of a large table Stats counts a sample, and says so.
func TestStatsAreBounded(t *testing.T) {
	s, _ := fresh(t)
	for i := range 49 {
		mustPut(t, s, fmt.Sprint(i), `12345`)
	}
	exact, err := s.Stats(t.Context())
	if err != nil || exact.Estimated || exact.Heads != 50 || exact.Versions != 50 || exact.BodyBytes != 49*5+1 {
		t.Fatalf("%+v, %v", exact, err)
	}
	if _, err := s.writers.Exec(t.Context(), `ANALYZE head, version, feed, outbox, request`); err != nil { // not what others have in the database
		t.Fatal(err)
	}
	s.seams.statsBound = 10
	about, err := s.Stats(t.Context())
	if err != nil || !about.Estimated || about.Heads != 50 || about.Versions != 50 || about.BodyBytes < 200 || about.BodyBytes > 250 {
		t.Errorf("%+v, %v", about, err)
	}
}

// A segment of more keys than one statement adds locations of is there whole.
func TestASegmentOfManyKeysIsLocated(t *testing.T) {
	s := open(t, testURL(t), nil)
	segment := tiering.SegmentInfo{Name: "many", Tenant: "acme", Token: 1, Copies: [2]tiering.CopyState{tiering.CopyVerified, tiering.CopyVerified}}
	if err := s.StartSegment(t.Context(), segment); err != nil {
		t.Fatal(err)
	}
	at := make([]tiering.Location, 2*locatedAtOnce+1)
	keys := make([]tiering.Key, len(at))
	for i := range at {
		keys[i] = noteKey(fmt.Sprintf("many/%05d", i))
		at[i] = tiering.Location{Key: keys[i], Segment: "many", MinVersion: 1, MaxVersion: int64(1 + i), Blocks: []tiering.BlockRef{{FirstVersion: 1, Offset: 64, Length: 128}}}
	}
	if err := s.FinishSegment(t.Context(), segment, at, "", 0); err != nil {
		t.Fatal(err)
	}
	of, err := s.LocationsOf(t.Context(), keys)
	if err != nil || len(of) != len(keys) {
		t.Fatalf("%d keys of %d are located: %v", len(of), len(keys), err)
	}
	for i, k := range keys {
		if got := of[k][0].MaxVersion; got != int64(1+i) {
			t.Fatalf("%s is located up to version %d, want %d", k, got, 1+i)
		}
	}
}
