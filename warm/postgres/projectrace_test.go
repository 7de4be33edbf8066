package postgres

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

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
