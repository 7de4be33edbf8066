package postgres

import (
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

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

// TestProjectionsFromBeforeTheyHadVersions: of a document that was demoted one is of
// its version, of any other nobody knows; and back, none is left that would be wrong.
func TestProjectionsFromBeforeTheyHadVersions(t *testing.T) {
	s, clock := still(t)
	mustPut(t, s, "cold", `{"s":"open"}`)
	mustPut(t, s, "fits", `{"s":"open"}`)
	mustPut(t, s, "late", `{"s":"open"}`)
	project(t, s)
	mustPut(t, s, "late", `{"s":"done"}`)
	s.projector.take(time.Now().Add(time.Hour))
	demoted(t, s, "cold", 1)
	if err := Migrate(t.Context(), s.url, 8); err != nil {
		t.Fatal(err)
	}
	var kept int
	if err := s.readers.QueryRow(t.Context(), `SELECT count(*) FROM projection`).Scan(&kept); err != nil || kept != 3 {
		t.Errorf("%d projections fit a schema that believes all of them, %v", kept, err)
	}
	if err := Migrate(t.Context(), s.url, -1); err != nil {
		t.Fatal(err)
	}
	again := open(t, s.url, &Options{Clock: clock.Now, projectRest: time.Hour})
	is(t, "open", found(t, again, `{"s":"open"}`), "cold fits")
	is(t, "done", found(t, again, `{"s":"done"}`), "late")
	mustPut(t, again, "fits", `{"s":"done"}`)
	is(t, "done after a write", found(t, again, `{"s":"done"}`), "fits late")
	project(t, again)
	is(t, "projected", projected(t, again), `cold@0 {"s": "open"}, first@1 1, fits@2 {"s": "done"}, late@2 {"s": "done"}`)
	is(t, "open once projected", found(t, again, `{"s":"open"}`), "cold")
	indexNotes(t, again)
	is(t, "open by an index", found(t, again, `{"s":"open"}`), "cold")
}
