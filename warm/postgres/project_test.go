package postgres

import (
	"cmp"
	"context"
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

// TestADemotedDocumentIsFoundByItsLastVersion, whatever was projected of it: a
// projection of its version stays, else the bytes take its place.
func TestADemotedDocumentIsFoundByItsLastVersion(t *testing.T) {
	s, _ := still(t)
	project(t, s)
	for _, id := range []string{"bare", "old", "same"} {
		mustPut(t, s, id, `{"s":"open"}`)
		if id != "bare" {
			project(t, s)
		}
		if id == "old" {
			mustPut(t, s, id, `{"s":"done"}`)
		}
		s.projector.take(time.Now().Add(time.Hour))
		demoted(t, s, id, map[bool]int64{true: 2, false: 1}[id == "old"])
	}
	is(t, "projected", projected(t, s), `bare@1 bytes, first@1 1, old@2 bytes, same@1 {"s": "open"}`)
	is(t, "open", found(t, s, `{"s":"open"}`), "bare same")
	is(t, "done", found(t, s, `{"s":"done"}`), "old")
	indexNotes(t, s)
	is(t, "projected for an index", projected(t, s), `bare@1 {"s": "open"}, first@1 1, old@2 {"s": "done"}, same@1 {"s": "open"}`)
	is(t, "open, by an index", found(t, s, `{"s":"open"}`), "bare same")
	is(t, "done, by an index", found(t, s, `{"s":"done"}`), "old")

	// What is written over them has to hide what they were.
	if err := s.IndexQueries(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	s.spaces.clear()
	for _, id := range []string{"bare", "old", "same"} {
		mustPut(t, s, id, `{"s":"new"}`)
	}
	is(t, "open once written over", found(t, s, `{"s":"open"}`), "")
	is(t, "new", found(t, s, `{"s":"new"}`), "bare old same")
}

// TestPromotedBytesAreProjectedAgain: they had taken the projection's place.
func TestPromotedBytesAreProjectedAgain(t *testing.T) {
	s, _ := still(t)
	project(t, s)
	mustPut(t, s, "a", `{"s":"open"}`)
	s.projector.take(time.Now().Add(time.Hour))
	demoted(t, s, "a", 1)
	if ok, err := s.Promote(t.Context(), noteKey("a"), 1, []byte(`{"s":"open"}`)); err != nil || !ok {
		t.Fatal(ok, err)
	}
	is(t, "promoted", projected(t, s), `a@0 empty, first@1 1`)
	is(t, "found", found(t, s, `{"s":"open"}`), "a")
	project(t, s)
	is(t, "once it was read", projected(t, s), `a@1 {"s": "open"}, first@1 1`)
}

// TestOnlyWhatStandsIsKeptProjected: what a projection held of a version before
// goes with the versions, and with a user who had the key once.
func TestOnlyWhatStandsIsKeptProjected(t *testing.T) {
	t.Run("versions that leave warm", func(t *testing.T) {
		s, _ := still(t)
		mustPut(t, s, "a", `"secret"`)
		project(t, s)
		mustPut(t, s, "a", `2`)
		s.projector.take(time.Now().Add(time.Hour))
		demoted(t, s, "a", 2)
		mustPut(t, s, "a", `3`)
		s.projector.take(time.Now().Add(time.Hour))
		if n, err := s.Retire(t.Context(), noteKey("a"), []int64{1, 2}); err != nil || n != 1 {
			t.Fatal(n, err)
		}
		is(t, "projected", projected(t, s), `a@0 empty, first@1 1`)
	})
	t.Run("a user who is erased", func(t *testing.T) {
		s, clock := still(t)
		ann := putRow(`"secret"`)
		ann.User, ann.Expiry.TTL = "ann", &tiering.TTL{Life: time.Minute}
		if _, err := commitOne(s, warm.Change{Key: noteKey("a"), Rows: []warm.Row{ann}}); err != nil {
			t.Fatal(err)
		}
		project(t, s)
		clock.advance(time.Hour) // nobody swept it
		bob := putRow(`2`)
		bob.User = "bob"
		if r, err := commitOne(s, warm.Change{Key: noteKey("a"), Rows: []warm.Row{bob}}); err != nil || r[0].Status != warm.Done {
			t.Fatal(r, err)
		}
		s.projector.take(time.Now().Add(time.Hour))
		is(t, "before", projected(t, s), `a@1 "secret", first@1 1`)
		if err := erase(s, warm.Selector{User: "ann"}); err != nil {
			t.Fatal(err)
		}
		is(t, "projected", projected(t, s), `a@0 empty, first@1 1`)
		is(t, "found", found(t, s, `{"":2}`), "a")
	})
}

// TestCommitsLearnOfAnIndex: another daemon begins an index, and what is committed
// from then on is found by it, whoever commits it.
func TestCommitsLearnOfAnIndex(t *testing.T) {
	s, clock := still(t)
	mustPut(t, s, "a", `{"s":"open"}`)
	other := open(t, s.url, &Options{Clock: clock.Now, projectRest: time.Hour})
	if err := other.IndexQueries(t.Context(), notes); err != nil {
		t.Fatal(err)
	}
	put := func(id string) warm.Change {
		return warm.Change{Key: noteKey(id), Rows: []warm.Row{putRow(`{"s":"open"}`)}}
	}
	folded := put("c")
	folded.Rows = append(folded.Rows, folded.Rows[0])
	plain := warm.Change{Key: noteKey("q"), Rows: []warm.Row{putRow(`{"s":"plain"}`)}}
	plain.Rows[0].Query = false // which no namespace with an index has, and no commit hangs on
	for name, changes := range map[string][]warm.Change{"one": {put("b")}, "folded": {folded}, "many": {put("d"), put("e")}, "one that is not to be queried": {plain}} {
		t.Run(name, func(t *testing.T) {
			s.spaces.clear()
			if _, err := s.numbered(t.Context(), notes); err != nil {
				t.Fatal(err)
			}
			s.spaces.mu.Lock()
			for k, id := range s.spaces.ids {
				id.indexed = false // what it knew before
				s.spaces.ids[k] = id
			}
			s.spaces.mu.Unlock()
			results, err := s.Commit(t.Context(), inKeyOrder(changes))
			if err != nil || results[0][0].Status != warm.Done {
				t.Fatal(results, err)
			}
			if !s.projector.empty() && name != "one" { // a and first came before
				for at := range s.projector.waiting {
					if at.id != "a" && at.id != "first" {
						t.Errorf("%s is left to the projector", at.id)
					}
				}
			}
		})
	}
	if _, _, err := s.Atomic(t.Context(), uuid.New(), []tiering.Key{noteKey("f")}, nil, func([]warm.Current) ([]warm.Change, error) {
		return []warm.Change{put("f")}, nil
	}); err != nil {
		t.Fatal(err)
	}
	is(t, "found", found(t, s, `{"s":"open"}`), "a b c d e f")
}

// TestAnIndexWaitsForCommitsThatDoNotKnowOfIt: one that is under way when an index
// begins makes no projection, so the index begins behind it.
func TestAnIndexWaitsForCommitsThatDoNotKnowOfIt(t *testing.T) {
	s, clock := still(t)
	mustPut(t, s, "held", `1`)
	other := open(t, s.url, &Options{Clock: clock.Now, projectRest: time.Hour})
	tx, holder := hold(t, s)
	if _, err := tx.Exec(t.Context(), `SELECT 1 FROM head WHERE id = 'held' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	wrote := later(func() (none struct{}, err error) {
		_, err = commitOne(s, warm.Change{Key: noteKey("held"), Rows: []warm.Row{putRow(`{"s":"open"}`)}})
		return none, err
	})
	commit := waitsFor(t, s, holder)
	built := later(func() (none struct{}, err error) { return none, other.IndexQueries(context.Background(), notes) })
	waitsFor(t, s, commit)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := wrote.wait(t); err != nil {
		t.Fatal(err)
	}
	if _, err := built.wait(t); err != nil {
		t.Fatal(err)
	}
	is(t, "found", found(t, other, `{"s":"open"}`), "held")
}

// naiveProject looks at the heads first, and writes then, without a lock.
func naiveProject(between func()) func(*txn, *projections) error {
	return func(t *txn, p *projections) error {
		var kids []int64
		err := t.each(`SELECT h.kid FROM unnest($1::int[], $2::bytea[], $3::bigint[]) d(nid, id, version) JOIN head h ON h.nid = d.nid AND h.id = d.id AND h.version = d.version`,
			[]any{p.nids, p.ids, p.versions}, func(row pgx.Rows) error {
				var kid int64
				err := row.Scan(&kid)
				kids = append(kids, kid)
				return err
			})
		if err != nil {
			return err
		}
		between()
		_, err = t.exec(`WITH t AS (SELECT * FROM unnest($1::bigint[], $2::int[], $3::bigint[], $4::text[]) t(kid, nid, version, doc)) `+insertProjections, kids, p.nids, p.versions, p.docs)
		return err
	}
}

// A projector has taken a document -> it is erased, or deleted, or its namespace is
// -> the projector writes. Nothing of it may be left.
func TestAProjectionOfWhatIsGone(t *testing.T) {
	gone := map[string]func(s *Store) error{
		"erased": func(s *Store) error { return erase(s, warm.Selector{Namespace: "notes", ID: "k"}) },
		"deleted": func(s *Store) error {
			_, err := commitOne(s, warm.Change{Key: noteKey("k"), Rows: []warm.Row{{Op: tiering.OpDelete}}})
			return err
		},
		"deleted with its namespace": func(s *Store) error {
			for _, id := range []string{"first", "k"} {
				if _, err := commitOne(s, warm.Change{Key: noteKey(id), Rows: []warm.Row{{Op: tiering.OpDelete}}}); err != nil {
					return err
				}
			}
			dropped, err := s.DropNamespace(context.Background(), "acme", "notes")
			if err == nil && !dropped {
				err = fmt.Errorf("the namespace was not dropped")
			}
			return err
		},
	}
	for name, run := range gone {
		t.Run(name, func(t *testing.T) {
			raced(t, func(t *testing.T, naive bool) bool {
				s, _ := still(t)
				mustPut(t, s, "k", `"secret"`)
				var failed error
				between := func() { failed = cmp.Or(failed, run(s)) }
				s.seams.project = func(tx *txn, p *projections) error {
					if naive {
						return naiveProject(between)(tx, p)
					}
					between()
					return tx.project(p)
				}
				project(t, s)
				if failed != nil {
					t.Fatal(failed)
				}
				return !strings.Contains(projected(t, s), "secret")
			})
		})
	}
}

// The other order: a projection is written and not committed -> its document is
// erased, or deleted. Both wait for it and take it along.
func TestAnEraseTakesAProjectionThatIsUnderWay(t *testing.T) {
	for name, run := range map[string]func(s *Store) error{
		"erased": func(s *Store) error { return erase(s, warm.Selector{Namespace: "notes", ID: "k"}) },
		"deleted": func(s *Store) error {
			_, err := commitOne(s, warm.Change{Key: noteKey("k"), Rows: []warm.Row{{Op: tiering.OpDelete}}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := still(t)
			project(t, s)
			mustPut(t, s, "k", `"secret"`)
			names, err := s.numbered(t.Context(), notes)
			if err != nil {
				t.Fatal(err)
			}
			tx, holder := hold(t, s)
			if _, err := tx.Exec(t.Context(), writeProjections, s.fixedNow(), numbers(names), [][]byte{[]byte("k")}, []int64{1}, []string{`"secret"`}); err != nil {
				t.Fatal(err)
			}
			taken := later(func() (none struct{}, err error) { return none, run(s) })
			waitsFor(t, s, holder)
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := taken.wait(t); err != nil {
				t.Fatal(err)
			}
			is(t, "projected", projected(t, s), `first@1 1`)
		})
	}
}

// TestAProjectorWaitsForNobody: a head that somebody holds is left for later.
func TestAProjectorWaitsForNobody(t *testing.T) {
	s, _ := still(t)
	project(t, s)
	mustPut(t, s, "held", `1`)
	mustPut(t, s, "free", `2`)
	tx, _ := hold(t, s)
	if _, err := tx.Exec(t.Context(), `SELECT 1 FROM head WHERE id = 'held' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	project(t, s)
	is(t, "beside the holder", projected(t, s), `first@1 1, free@1 2`)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	project(t, s)
	is(t, "after it", projected(t, s), `first@1 1, free@1 2, held@1 1`)
}
