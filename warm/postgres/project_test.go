package postgres

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// still is fresh with a projector that waits to be asked.
func still(t testing.TB) (*Store, *testClock) {
	t.Helper()
	clock := &testClock{now: time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)}
	s := open(t, testURL(t), &Options{Clock: clock.Now, projectRest: time.Hour})
	begin(t, s)
	return s, clock
}

// project makes the projections that wait.
func project(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Project(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// projected lists what is projected: id@version document, or a word in its place.
func projected(t *testing.T, s *Store) string {
	t.Helper()
	var out []string
	err := each(t.Context(), s.readers, `SELECT coalesce(h.id, 'none'), p.version, CASE WHEN p.doc IS NOT NULL THEN p.doc::text WHEN p.body IS NOT NULL THEN 'bytes' ELSE 'empty' END
		FROM projection p LEFT JOIN head h ON h.kid = p.kid`, nil, func(row pgx.Rows) error {
		var id []byte
		var version *int64
		var doc string
		err := row.Scan(&id, &version, &doc)
		if version == nil {
			version = new(int64)
		}
		out = append(out, fmt.Sprintf("%s@%d %s", id, *version, doc))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// found lists the ids that a query of notes finds, asked in every way.
func found(t *testing.T, s *Store, filter string) string {
	t.Helper()
	f, err := warm.ParseFilter([]byte(filter))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, indexed := range []bool{false, true} {
		items, _, err := s.Query(t.Context(), warm.Query{Tenant: "acme", Namespace: "notes", Filter: f, Limit: 100, Indexed: indexed})
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, cur := range items {
			ids = append(ids, cur.Head.Key.ID)
		}
		all = append(all, strings.Join(ids, " "))
	}
	if all[0] != all[1] {
		t.Errorf("%s finds %q, by the index %q", filter, all[0], all[1])
	}
	return all[0]
}

func is(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// demoted drops the bytes of a version, behind two copies that are said to be.
func demoted(t *testing.T, s *Store, id string, version int64) {
	t.Helper()
	info := tiering.SegmentInfo{Name: fmt.Sprint("s-", id, version), Tenant: "acme", Token: 1}
	if err := s.StartSegment(t.Context(), info); err != nil {
		t.Fatal(err)
	}
	info.Copies = [2]tiering.CopyState{tiering.CopyVerified, tiering.CopyVerified}
	if err := s.FinishSegment(t.Context(), info, []tiering.Location{{Key: noteKey(id), MinVersion: 1, MaxVersion: version}}, "", 0); err != nil {
		t.Fatal(err)
	}
	if ok, err := s.Demote(t.Context(), noteKey(id), version, s.opts.Clock().Add(time.Second)); err != nil || !ok {
		t.Fatalf("demoting %s: %t, %v", id, ok, err)
	}
}

// TestAQueryIsExactBehindAWrite: projections come later, and what there is of an
// earlier version, or of none, keeps no document from a query: in the daemon that
// wrote it, in another, and after a death of the first.
func TestAQueryIsExactBehindAWrite(t *testing.T) {
	s, clock := still(t)
	other := open(t, s.url, &Options{Clock: clock.Now, projectRest: time.Hour})
	ask := func(when, open, done string) {
		t.Helper()
		for daemon, at := range []*Store{s, other} {
			is(t, fmt.Sprintf("%s, open, at daemon %d", when, daemon), found(t, at, `{"s":"open"}`), open)
			is(t, fmt.Sprintf("%s, done, at daemon %d", when, daemon), found(t, at, `{"s":"done"}`), done)
		}
	}
	mustPut(t, s, "a", `{"s":"open"}`)
	mustPut(t, s, "b", `{"s":"open"}`)
	is(t, "behind the commit", projected(t, s), "")
	ask("behind the commit", "a b", "")
	project(t, s)
	is(t, "projected", projected(t, s), `a@1 {"s": "open"}, b@1 {"s": "open"}, first@1 1`)
	ask("projected", "a b", "")
	mustPut(t, s, "a", `{"s":"done"}`)
	is(t, "behind another commit", projected(t, s), `a@1 {"s": "open"}, b@1 {"s": "open"}, first@1 1`)
	ask("behind another commit", "b", "a")

	s.projector.take(time.Now().Add(time.Hour)) // as if it had died
	is(t, "after a death", projected(t, s), `a@1 {"s": "open"}, b@1 {"s": "open"}, first@1 1`)
	ask("after a death", "b", "a")
	project(t, other)
	is(t, "once it was read", projected(t, s), `a@2 {"s": "done"}, b@1 {"s": "open"}, first@1 1`)
	ask("once it was read", "b", "a")
	if !s.projector.empty() {
		project(t, s) // what the queries handed over
	}
	ask("in the end", "b", "a")
	if !s.projector.empty() || !other.projector.empty() {
		t.Error("queries go on to hand over what is projected")
	}
}

// TestAProjectionIsOfWhatRests: what is written again and again is projected once,
// in the state that it came to rest in, and nothing is projected that no longer
// stands or is not to be queried.
func TestAProjectionIsOfWhatRests(t *testing.T) {
	s, _ := still(t)
	project(t, s)
	for i := range 20 {
		mustPut(t, s, "a", fmt.Sprint(i))
	}
	if n := len(s.projector.take(time.Now().Add(-projectRest))); n > 0 {
		t.Errorf("%d documents were written just now, and rest", n)
	}
	mustPut(t, s, "b", `1`)
	if _, err := commitOne(s, warm.Change{Key: noteKey("b"), Rows: []warm.Row{{Op: tiering.OpDelete}}}); err != nil {
		t.Fatal(err)
	}
	plain := putRow(`2`)
	plain.Query = false
	if _, err := commitOne(s, warm.Change{Key: noteKey("c"), Rows: []warm.Row{putRow(`1`)}}); err != nil {
		t.Fatal(err)
	}
	if _, err := commitOne(s, warm.Change{Key: noteKey("c"), Rows: []warm.Row{plain}}); err != nil {
		t.Fatal(err)
	}
	results, committed, err := s.Atomic(t.Context(), uuid.New(), []tiering.Key{noteKey("d")}, nil, func([]warm.Current) ([]warm.Change, error) {
		return []warm.Change{{Key: noteKey("d"), Rows: []warm.Row{putRow(`"atomic"`)}}}, nil
	})
	if err != nil || !committed {
		t.Fatal(results, committed, err)
	}
	project(t, s)
	is(t, "projected", projected(t, s), `a@20 19, d@1 "atomic", first@1 1`)
	if !s.projector.empty() { // what it did not meet comes once more
		project(t, s)
	}
	if !s.projector.empty() {
		t.Error("what is gone waits for ever")
	}
	if _, err := commitOne(s, warm.Change{Key: noteKey("a"), Rows: []warm.Row{plain}}); err != nil {
		t.Fatal(err)
	}
	is(t, "of what is not to be queried", projected(t, s), `d@1 "atomic", first@1 1`)
}

// TestTheProjectorRunsByItself, and at the end of its store.
func TestTheProjectorRunsByItself(t *testing.T) {
	s, clock := fresh(t)
	for end := time.Now().Add(30 * time.Second); projected(t, s) != `first@1 1`; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("projected are %q", projected(t, s))
		}
	}
	ends, err := Open(t.Context(), s.url, &Options{Clock: clock.Now, projectRest: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, ends, "a", `2`)
	if err := ends.Close(); err != nil {
		t.Fatal(err)
	}
	is(t, "after the end", projected(t, s), `a@1 2, first@1 1`)
}

// TestTheProjectorIsBounded in documents and in bytes, and takes the later version
// in place of an earlier one all the same.
func TestTheProjectorIsBounded(t *testing.T) {
	p := newProjector()
	for i := range projectDocs + 10 {
		p.add(docAt{1, fmt.Sprint(i)}, 2, packed{[]byte(`1`), codingRaw})
	}
	p.add(docAt{1, "0"}, 3, packed{[]byte(`12`), codingRaw})
	p.add(docAt{1, "0"}, 1, packed{[]byte(`123`), codingRaw})
	if len(p.waiting) != projectDocs || p.bytes != projectDocs+1 || p.waiting[docAt{1, "0"}].version != 3 {
		t.Errorf("%d documents of %d bytes wait, the first in version %d", len(p.waiting), p.bytes, p.waiting[docAt{1, "0"}].version)
	}
	p.take(time.Now().Add(time.Hour))
	body := packed{make([]byte, projectBytes/2), codingZstd}
	for i := range 5 {
		p.add(docAt{1, fmt.Sprint(i)}, 1, body)
	}
	if len(p.waiting) != 2 || p.bytes != projectBytes {
		t.Errorf("%d documents of %d bytes wait", len(p.waiting), p.bytes)
	}
	mine := []byte(`1`)
	p.take(time.Now().Add(time.Hour))
	p.add(docAt{1, "mine"}, 1, packed{mine, codingRaw})
	mine[0] = '2'
	if got := string(p.waiting[docAt{1, "mine"}].body.bytes); got != `1` {
		t.Errorf("what waits is changed by whoever wrote it, to %s", got)
	}
}
