package warmtest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tierd/tierd/tiering"
)

var errFenced = &tiering.Error{Code: tiering.CodeFenced}

// start commits the intent to write a segment of the usual tenant.
func (f *fixture) start(name string) tiering.SegmentInfo {
	f.Helper()
	s := tiering.SegmentInfo{Name: name, Tenant: tenant, Token: 3}
	f.no(f.store.StartSegment(f.ctx, s))
	s.Copies = [2]tiering.CopyState{tiering.CopyVerified, tiering.CopyVerified}
	return s
}

// state returns the state of a segment, "" without a row.
func (f *fixture) state(name string) tiering.SegmentState {
	f.Helper()
	s, _, err := f.store.Segment(f.ctx, name)
	f.no(err)
	return s.State
}

// where names the segments that a key lies in, newest first.
func (f *fixture) where(k tiering.Key) string {
	f.Helper()
	locations, err := f.store.Locations(f.ctx, k)
	f.no(err)
	var out []string
	for _, l := range locations {
		out = append(out, l.Segment)
	}
	return strings.Join(out, " ")
}

// location says that a segment holds the versions of k up to high.
func location(k tiering.Key, segment string, high int64) tiering.Location {
	return tiering.Location{Key: k, Segment: segment, MinVersion: 1, MaxVersion: high, Blocks: []tiering.BlockRef{{FirstVersion: 1, Offset: 64, Length: 128}}}
}

func testMerge(t *testing.T, h Harness) {
	k, other := key("k"), key("other")
	both := func(t *testing.T) *fixture {
		f := setup(t, h)
		f.archived("a", tiering.CopyVerified, tiering.CopyVerified, k, 1, 2)
		f.archived("b", tiering.CopyVerified, tiering.CopyMissing, k, 3, 4)
		f.archived("c", tiering.CopyVerified, tiering.CopyVerified, other, 1, 1)
		return f
	}
	t.Run("a segment takes the place of others", func(t *testing.T) {
		f := both(t)
		s := f.start("m")
		s.Size, s.Count, s.Ranges = 70, 4, []tiering.Range{{From: 1, To: 9}}
		f.no(f.store.ReplaceSegments(f.ctx, s, []tiering.Location{location(k, "m", 4)}, []string{"a", "b"}))
		got, _, err := f.store.Segment(f.ctx, "m")
		f.no(err)
		if got.State != tiering.SegmentFinished || got.Size != 70 || got.Count != 4 || got.Verified() != 2 || len(got.Ranges) != 1 {
			t.Fatalf("the merged segment is %+v", got)
		}
		equal(f, "a", f.state("a"), tiering.SegmentDeleting)
		equal(f, "b", f.state("b"), tiering.SegmentDeleting)
		equal(f, "c", f.state("c"), tiering.SegmentFinished)
		equal(f, "where the key lies", f.where(k), "m")
		equal(f, "where another lies", f.where(other), "c")
	})
	t.Run("a replacement that fails changes nothing", func(t *testing.T) {
		for _, c := range []struct {
			name string
			old  []string
			make func(f *fixture, s *tiering.SegmentInfo)
		}{
			{"under another token", []string{"a", "b"}, func(_ *fixture, s *tiering.SegmentInfo) { s.Token++ }},
			{"never started", []string{"a", "b"}, func(_ *fixture, s *tiering.SegmentInfo) { s.Name = "n" }},
			{"finished before", []string{"a", "b"}, func(f *fixture, s *tiering.SegmentInfo) {
				f.no(f.store.FinishSegment(f.ctx, *s, nil, "", 0))
			}},
			{"an old one is unknown", []string{"a", "z"}, nil},
			{"an old one is only started", []string{"a", "d"}, func(f *fixture, _ *tiering.SegmentInfo) { f.start("d") }},
			{"an old one was replaced before", []string{"a", "d"}, func(f *fixture, _ *tiering.SegmentInfo) {
				f.archived("d", tiering.CopyVerified, tiering.CopyVerified, other, 2, 2)
				f.no(f.store.ReplaceSegments(f.ctx, f.start("e"), nil, []string{"d"}))
			}},
			{"an erasure of the tenant was begun", []string{"a", "b"}, func(f *fixture, _ *tiering.SegmentInfo) {
				f.begin("r", f.ofID("unrelated"))
			}},
		} {
			t.Run(c.name, func(t *testing.T) {
				f := both(t)
				s := f.start("m")
				if c.make != nil {
					c.make(f, &s)
				}
				before := f.state("m")
				if err := f.store.ReplaceSegments(f.ctx, s, []tiering.Location{location(k, s.Name, 4)}, c.old); err == nil {
					t.Fatal("it did not fail")
				}
				equal(f, "m", f.state("m"), before)
				equal(f, "a", f.state("a"), tiering.SegmentFinished)
				equal(f, "b", f.state("b"), tiering.SegmentFinished)
				equal(f, "where the key lies", f.where(k), "b a")
			})
		}
	})
	t.Run("only a deleting segment is forgotten", func(t *testing.T) {
		f := both(t)
		f.start("s")
		f.no(f.store.ReplaceSegments(f.ctx, f.start("m"), nil, []string{"a"}))
		for _, name := range []string{"a", "b", "s", "a", "never"} {
			_ = f.store.ForgetSegment(f.ctx, name) // of one that is not deleting it may say so
		}
		equal(f, "the deleting one", f.state("a"), "")
		equal(f, "a finished one", f.state("b"), tiering.SegmentFinished)
		equal(f, "a started one", f.state("s"), tiering.SegmentStarted)
		equal(f, "where the key lies", f.where(k), "b")
		if err := f.store.StartSegment(f.ctx, tiering.SegmentInfo{Name: "b", Tenant: tenant, Token: 9}); err == nil {
			t.Fatal("the name of a finished segment was started again")
		}
	})
	t.Run("only an empty finished segment is dropped", func(t *testing.T) {
		f := both(t)
		f.start("s")
		f.no(f.store.FinishSegment(f.ctx, f.start("empty"), nil, "", 0))
		for _, c := range []struct {
			name string
			want bool
			then tiering.SegmentState
		}{{"empty", true, tiering.SegmentDeleting}, {"a", false, tiering.SegmentFinished}, {"s", false, tiering.SegmentStarted}, {"never", false, ""}} {
			dropped, err := f.store.DropSegment(f.ctx, c.name)
			f.no(err)
			equal(f, "dropped "+c.name, dropped, c.want)
			equal(f, c.name, f.state(c.name), c.then)
		}
	})
	t.Run("the keys of a segment", func(t *testing.T) {
		f := setup(t, h)
		want := []tiering.Key{{Tenant: tenant, Namespace: "a", ID: "z"}, key("a"), key("a/b"), key("b"), {Tenant: tenant, Namespace: "zoo", ID: "a"}}
		s := f.start("s")
		var locations []tiering.Location
		for _, k := range want {
			locations = append(locations, location(k, "s", 1))
		}
		f.no(f.store.FinishSegment(f.ctx, s, locations, "", 0))
		f.archived("t", tiering.CopyVerified, tiering.CopyVerified, key("aa"), 1, 1)
		for limit := 1; limit <= len(want)+1; limit++ {
			var got []tiering.Key
			for {
				var after tiering.Key
				if len(got) > 0 {
					after = got[len(got)-1]
				}
				page, err := f.store.KeysIn(f.ctx, "s", after, limit)
				f.no(err)
				if len(page) == 0 {
					break
				}
				if len(page) > limit {
					t.Fatalf("a page of %d, the limit is %d", len(page), limit)
				}
				got = append(got, page...)
			}
			equal(f, fmt.Sprintf("the keys, %d a page", limit), fmt.Sprint(got), fmt.Sprint(want))
		}
		page, err := f.store.KeysIn(f.ctx, "never", tiering.Key{}, 10)
		f.no(err)
		equal(f, "keys of a segment that never was", len(page), 0)
	})
	t.Run("an erasure fences what was started before it, of its tenant alone", func(t *testing.T) {
		f := setup(t, h)
		f.must(k, put(`1`))
		before, merge := f.start("before"), f.start("merge")
		foreign := tiering.SegmentInfo{Name: "foreign", Tenant: "globex", Token: 3}
		f.no(f.store.StartSegment(f.ctx, foreign))
		f.begin("r", f.ofID("k"))
		during := f.start("during")
		loc := func(name string) []tiering.Location { return []tiering.Location{location(k, name, 1)} }
		if err := f.store.FinishSegment(f.ctx, before, loc("before"), "archive", 5); !errors.Is(err, errFenced) {
			t.Fatalf("a segment started before the erasure finishes with %v, want it fenced", err)
		}
		if err := f.store.ReplaceSegments(f.ctx, merge, loc("merge"), nil); !errors.Is(err, errFenced) {
			t.Fatalf("a merge started before the erasure finishes with %v, want it fenced", err)
		}
		f.no(f.store.FinishSegment(f.ctx, foreign, nil, "", 0))
		f.eraseAll("r", 10)
		if err := f.store.FinishSegment(f.ctx, during, loc("during"), "archive", 5); !errors.Is(err, errFenced) {
			t.Fatalf("a segment started before the key was taken finishes with %v, want it fenced", err)
		}
		pos, err := f.store.Position(f.ctx, "archive")
		f.no(err)
		equal(f, "the reader's position", pos, 0)
		equal(f, "where the key lies", f.where(k), "")
		f.no(f.store.FinishSegment(f.ctx, f.start("after"), []tiering.Location{location(other, "after", 1)}, "archive", 5))
		equal(f, "where another lies", f.where(other), "after")
	})
}
