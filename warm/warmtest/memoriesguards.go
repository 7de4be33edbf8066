package warmtest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// pending names what PendingMemories finds, by the page of 2.
func (f memoryFixture) pending(analyzer int, space string) string {
	f.Helper()
	var ids []string
	for after := (tiering.Key{}); ; {
		page, err := f.m.PendingMemories(f.ctx, analyzer, space, after, 2)
		f.no(err)
		for _, p := range page {
			ids, after = append(ids, p.Head.Key.ID), p.Head.Key
		}
		if len(page) < 2 {
			return strings.Join(ids, " ")
		}
	}
}

func testPendingMemories(t *testing.T, h Harness) {
	f := memories(t, h)
	f.must(memoryKey("a"), remember("both", vec("x", 0), vec("y", 0)))
	f.must(memoryKey("b"), remember("one", vec("x", 0)))
	f.must(memoryKey("c"), remember("none"))
	f.must(memoryKey("d"), put(`{"text":"bare"}`))
	f.must(memoryKey("e"), remember("gone"))
	f.must(memoryKey("e"), op(tiering.OpDelete))
	row := remember("passed")
	row.Expiry = ttl(time.Minute)
	f.must(memoryKey("f"), row)
	f.clock.advance(time.Hour)
	newer := remember("newer", vec("x", 0))
	newer.Memory.Analyzer = 2
	f.must(memoryKey("g"), newer)
	for _, c := range []struct {
		analyzer int
		space    string
		want     string
	}{
		{1, "", "d g"}, {2, "", "a b c d"}, {1, "x", "c d g"}, {1, "y", "b c d g"}, {1, "never seen", "a b c d g"}, {2, "x", "a b c d"},
	} {
		equal(f.fixture, fmt.Sprintf("what lacks analyzer %d or %q", c.analyzer, c.space), f.pending(c.analyzer, c.space), c.want)
	}
	page, err := f.m.PendingMemories(f.ctx, 1, "x", memoryKey("b"), 1)
	f.no(err)
	if len(page) != 1 || string(page[0].Body) != `{"text":"none"}` || page[0].Head != f.load(memoryKey("c")).Head || page[0].Attempts != 0 || page[0].Status != tiering.IndexPending {
		t.Fatalf("the first page holds %+v", page)
	}
	digest := page[0].Head.Digest
	f.no(f.m.NoteFailure(f.ctx, memoryKey("c"), digest, false))
	f.no(f.m.NoteFailure(f.ctx, memoryKey("c"), digest, true))
	f.no(f.m.NoteFailure(f.ctx, memoryKey("c"), tiering.Digest{1}, true)) // of a version that is gone
	page, err = f.m.PendingMemories(f.ctx, 1, "x", memoryKey("b"), 1)
	f.no(err)
	if page[0].Attempts != 2 || page[0].Status != tiering.IndexFailed {
		t.Fatalf("after two failures it is %+v", page[0])
	}
	f.must(memoryKey("c"), remember("none at all"))
	page, err = f.m.PendingMemories(f.ctx, 1, "x", memoryKey("b"), 1)
	f.no(err)
	if page[0].Attempts != 0 || page[0].Status != tiering.IndexPending {
		t.Fatalf("a new version is %+v", page[0])
	}
}

// testMemoryAttempts: what one embedder refused is tried with the next, and not
// again with the same.
func testMemoryAttempts(t *testing.T, h Harness) {
	f := memories(t, h)
	k, row := memoryKey("k"), remember("cat")
	f.must(k, row)
	was := warm.Embedding{}
	for _, c := range []struct {
		name string
		to   warm.Embedding
		want int
	}{
		{"the first embedder", warm.Embedding{Active: "a"}, 0},
		{"a target", warm.Embedding{Active: "a", Target: "b"}, 0},
		{"the target took over", warm.Embedding{Active: "b"}, 2},
		{"another target", warm.Embedding{Active: "b", Target: "c"}, 0},
		{"another one instead", warm.Embedding{Active: "b", Target: "d"}, 0},
		{"none any more", warm.Embedding{Active: "b"}, 0},
	} {
		f.no(errOf(f.m.SetEmbedding(f.ctx, was, c.to)))
		was = c.to
		page, err := f.m.PendingMemories(f.ctx, 1, "x", tiering.Key{}, 1)
		f.no(err)
		equal(f.fixture, "tries after "+c.name, page[0].Attempts, c.want)
		for page[0].Attempts < 2 {
			f.no(f.m.NoteFailure(f.ctx, k, row.Digest, true))
			page[0].Attempts++
		}
	}
}

// testMemoryGuards is R13 and its kind: an indexer that read one version comes
// back when another stands, or none.
func testMemoryGuards(t *testing.T, h Harness) {
	f := memories(t, h)
	read := remember("cat")
	for _, c := range []struct {
		name      string
		meanwhile func(k tiering.Key)
		set, add  bool
		want      string
	}{
		{"nothing happened", func(tiering.Key) {}, true, true, "cat"},
		{"it was deleted", func(k tiering.Key) { f.must(k, op(tiering.OpDelete)) }, false, false, ""},
		{"it expired", func(k tiering.Key) { f.clock.advance(48 * time.Hour) }, false, false, ""},
		{"it was written", func(k tiering.Key) { f.must(k, remember("dog")) }, false, false, "dog"},
		{"it was deleted and written", func(k tiering.Key) { f.must(k, op(tiering.OpDelete)); f.must(k, remember("dog")) }, false, false, "dog"},
		{"it was written with the same bytes", func(k tiering.Key) { f.must(k, remember("cat")) }, true, true, "cat"},
		{"it lost its entry", func(k tiering.Key) { f.must(k, put(`7`)) }, false, false, ""},
		{"it was erased", func(k tiering.Key) { f.erase("r"+k.ID, warm.Selector{Tenant: tenant, Namespace: mind, ID: k.ID}) }, false, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := memoryKey(c.name)
			row := read
			row.Expiry = ttl(24 * time.Hour)
			f.must(k, row)
			c.meanwhile(k)
			added, err := f.m.AddVector(f.ctx, k, read.Digest, vec(c.name, 0), tiering.IndexIndexed)
			f.no(err)
			equal(f.fixture, "the vector was added", added, c.add)
			set, err := f.m.SetMemory(f.ctx, k, *read.Memory)
			f.no(err)
			equal(f.fixture, "the entry was set", set, c.set)
			m, ok := f.indexed(k)
			if ok != (c.want != "") || ok && m.Entry.Terms[0].Text != c.want {
				t.Errorf("the index has %+v (%v), want %q", m, ok, c.want)
			}
			spaces, err := f.m.Spaces(f.ctx)
			f.no(err)
			equal(f.fixture, "there is a vector", slices.ContainsFunc(spaces, func(s warm.SpaceCount) bool { return s.Space == c.name }), c.add)
			if c.add {
				equal(f.fixture, "status", m.Entry.Status, tiering.IndexIndexed)
			}
		})
	}
	t.Run("of keys that never were", func(t *testing.T) {
		f := memories(t, h)
		for _, k := range []tiering.Key{memoryKey("none"), {Tenant: "nobody", Namespace: "nowhere", ID: "k"}} {
			set, err := f.m.SetMemory(f.ctx, k, *read.Memory)
			f.no(err)
			added, err := f.m.AddVector(f.ctx, k, read.Digest, vec("x", 0), tiering.IndexIndexed)
			f.no(err)
			equal(f.fixture, "taken", set || added, false)
			f.no(f.m.NoteFailure(f.ctx, k, read.Digest, true))
		}
		f.holds()
	})
}

func testMemorySpaces(t *testing.T, h Harness) {
	f := memories(t, h)
	for i := range 5 {
		f.must(memoryKey(fmt.Sprint(i)), remember(fmt.Sprint("text ", i), vec("x", 0), vec("y", 1)))
	}
	f.must(memoryKey("5"), remember("text 5", vec("y", 2)))
	count := func() string {
		spaces, err := f.m.Spaces(f.ctx)
		f.no(err)
		slices.SortFunc(spaces, func(a, b warm.SpaceCount) int { return strings.Compare(a.Space, b.Space) })
		return fmt.Sprint(spaces)
	}
	equal(f.fixture, "spaces", count(), "[{x 5} {y 6}]")
	n, err := f.m.DropSpace(f.ctx, "x", 3)
	f.no(err)
	equal(f.fixture, "dropped", n, 3)
	equal(f.fixture, "spaces", count(), "[{x 2} {y 6}]")
	n, err = f.m.DropSpace(f.ctx, "x", 3)
	f.no(err)
	equal(f.fixture, "dropped", n, 2)
	n, err = f.m.DropSpace(f.ctx, "never seen", 3)
	f.no(err)
	equal(f.fixture, "dropped", n, 0)
	equal(f.fixture, "spaces", count(), "[{y 6}]")
	m, _ := f.indexed(memoryKey("0"))
	if len(m.Entry.Vectors) != 1 || m.Entry.Vectors[0].Space != "y" {
		t.Fatalf("the vectors left are %v", m.Entry.Vectors)
	}

	e, err := f.m.Embedding(f.ctx)
	f.no(err)
	equal(f.fixture, "embedding at first", e, warm.Embedding{})
	for _, c := range []struct {
		from, to warm.Embedding
		set      bool
	}{
		{warm.Embedding{Active: "b"}, warm.Embedding{Active: "c"}, false},
		{warm.Embedding{}, warm.Embedding{Active: "a"}, true},
		{warm.Embedding{}, warm.Embedding{Active: "b"}, false},
		{warm.Embedding{Active: "a"}, warm.Embedding{Active: "a", Target: "b"}, true},
		{warm.Embedding{Active: "a", Target: "b"}, warm.Embedding{Active: "b"}, true},
	} {
		set, err := f.m.SetEmbedding(f.ctx, c.from, c.to)
		f.no(err)
		equal(f.fixture, fmt.Sprint("set ", c.from, c.to), set, c.set)
	}
	e, err = f.m.Embedding(f.ctx)
	f.no(err)
	equal(f.fixture, "embedding", e, warm.Embedding{Active: "b"})
}

func testMemoryLookups(t *testing.T, h Harness) {
	f := memories(t, h)
	says := func(id, user, text string, links ...tiering.Link) {
		row := remember(text)
		row.User, row.Memory.Links = user, links
		f.must(memoryKey(id), row)
	}
	says("a", "ann", "likes tea", tiering.Link{Relation: "caused", To: "b"}, tiering.Link{Relation: "about", To: "none"})
	says("b", "ann", "drinks tea", tiering.Link{Relation: "caused", To: "c"}, tiering.Link{Relation: "caused", To: "b"})
	says("c", "bob", "likes tea", tiering.Link{Relation: "before", To: "a"})
	says("d", "bob", "gone", tiering.Link{Relation: "caused", To: "a"})
	f.must(memoryKey("d"), op(tiering.OpDelete))
	for id, ends := range map[string]time.Time{"e": time.Unix(0, 0).UTC(), "f": time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC)} {
		row := remember("holds")
		row.Memory.Ends = ends
		f.must(memoryKey(id), row)
	}
	for _, c := range []struct{ user, text, want string }{
		{"", "holds", "f"},
		{"ann", "likes tea", "a"}, {"bob", "likes tea", "c"}, {"bob", "drinks tea", ""}, {"", "likes tea", ""}, {"bob", "gone", ""},
	} {
		head, ok, err := f.m.MemoryByText(f.ctx, tenant, mind, c.user, tiering.DigestOf([]byte(c.text)))
		f.no(err)
		equal(f.fixture, "found", ok, c.want != "")
		equal(f.fixture, fmt.Sprintf("what %q of %q is", c.text, c.user), head.Key.ID, c.want)
		if ok && head != f.load(head.Key).Head {
			t.Errorf("the head is %+v", head)
		}
	}
	for _, c := range []struct {
		ids  string
		into bool
		want string
	}{
		{"a", false, "a caused b; a about none"},
		{"a", true, "a caused b; a about none; c before a"},
		{"b", true, "a caused b; b caused b; b caused c"},
		{"a c", true, "a caused b; a about none; b caused c; c before a"},
		{"d none", false, ""}, {"none", true, "a about none"},
	} {
		links, err := f.m.Linked(f.ctx, tenant, mind, strings.Fields(c.ids), c.into)
		f.no(err)
		var got []string
		for _, l := range links {
			got = append(got, l.From+" "+l.Relation+" "+l.To)
		}
		want := strings.Split(c.want, "; ")
		if c.want == "" {
			want = nil
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("links of %s (into: %v) are %q, want %q", c.ids, c.into, got, want)
		}
	}
	says("a", "ann", "likes tea no more")
	links, err := f.m.Linked(f.ctx, tenant, mind, []string{"a"}, false)
	f.no(err)
	equal(f.fixture, "links of a new version without any", len(links), 0)
}

func testMemoryErase(t *testing.T, h Harness) {
	for _, c := range []struct {
		name string
		sel  warm.Selector
		want []string
	}{
		{"by id", warm.Selector{Tenant: tenant, Namespace: mind, ID: "ann/1"}, []string{"ann/2: two", "bob/1: three", "moved: five"}},
		{"by prefix", warm.Selector{Tenant: tenant, Namespace: mind, Prefix: "ann/"}, []string{"bob/1: three", "moved: five"}},
		{"by user", ofUser("ann"), []string{"bob/1: three", "moved: five"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := memories(t, h)
			for _, m := range []struct{ id, user, text string }{{"ann/1", "ann", "one"}, {"ann/2", "ann", "two"}, {"bob/1", "bob", "three"}, {"moved", "ann", "four"}} {
				row := remember(m.text, vec("x", 0))
				row.User, row.Memory.Links = m.user, []tiering.Link{{Relation: "to", To: m.id}}
				f.must(memoryKey(m.id), row)
			}
			f.must(memoryKey("moved"), op(tiering.OpDelete))
			row := remember("five", vec("x", 1))
			row.User = "bob"
			f.must(memoryKey("moved"), row)
			f.erase("r", c.sel)
			f.holds(c.want...)
			spaces, err := f.m.Spaces(f.ctx)
			f.no(err)
			equal(f.fixture, "vectors", fmt.Sprint(spaces), fmt.Sprintf("[{x %d}]", len(c.want)))
			links, err := f.m.Linked(f.ctx, tenant, mind, []string{"ann/1", "ann/2", "bob/1"}, true)
			f.no(err)
			equal(f.fixture, "links", len(links), len(c.want)-1)
		})
	}
}

func testMemoryJournal(t *testing.T, h Harness) {
	f := memories(t, h)
	j, ok := warm.As[warm.MemoryJournal](f.store)
	if !ok {
		t.Skip("the driver keeps no journal of memories")
	}
	k := memoryKey("k")
	_, at, _, err := j.ChangedMemories(f.ctx, 0)
	f.no(err)
	for _, c := range []struct {
		name string
		do   func()
		want bool
	}{
		{"a write", func() { f.must(k, remember("cat")) }, true},
		{"a write of another kind", func() { f.must(key("a"), put(`1`)) }, false},
		{"nothing", func() {}, false},
		{"a touch", func() { row := op(tiering.OpTouch); row.Expiry = ttl(time.Hour); f.must(k, row) }, true},
		{"a vector", func() {
			f.no(errOf(f.m.AddVector(f.ctx, k, remember("cat").Digest, vec("x", 0), tiering.IndexIndexed)))
		}, true},
		{"an entry", func() { f.no(errOf(f.m.SetMemory(f.ctx, k, *remember("cat").Memory))) }, true},
		{"a vector that was refused", func() {
			f.no(errOf(f.m.AddVector(f.ctx, k, tiering.Digest{1}, vec("x", 0), tiering.IndexIndexed)))
		}, false},
		{"a space that was dropped", func() { f.no(errOf(f.m.DropSpace(f.ctx, "x", 10))) }, true},
		{"a condition that failed", func() { f.one(k, remember("dog"), tiering.IfVersion(99)) }, false},
		{"a delete", func() { f.must(k, op(tiering.OpDelete)) }, true},
		{"another write", func() { f.must(k, remember("cat")) }, true},
		{"an erase", func() { f.erase("r", warm.Selector{Tenant: tenant, Namespace: mind, ID: "k"}) }, true},
	} {
		c.do()
		keys, now, ok, err := j.ChangedMemories(f.ctx, at)
		f.no(err)
		equal(f.fixture, "known after "+c.name, ok, true)
		equal(f.fixture, "told after "+c.name, slices.Contains(keys, k), c.want)
		at = now
	}
	_, _, ok, err = j.ChangedMemories(f.ctx, at+1)
	f.no(err)
	equal(f.fixture, "a position that was never given out is known", ok, false)
}

// testMemoryRacing has indexers come back with what they read at any time.
func testMemoryRacing(t *testing.T, h Harness) {
	f := memories(t, h)
	k := memoryKey("k")
	const rounds = 25
	var wg sync.WaitGroup
	texts := make(chan string, rounds)
	wg.Go(func() {
		defer close(texts)
		for i := range rounds {
			row := remember(fmt.Sprint("text", i))
			if i%5 == 4 {
				row = op(tiering.OpDelete)
			}
			if _, err := f.store.Commit(f.ctx, batch(change(k, row))); err != nil {
				t.Error(err)
			}
			if row.Op == tiering.OpPut {
				texts <- fmt.Sprint("text", i)
			}
		}
	})
	for range 3 {
		wg.Go(func() {
			for text := range texts {
				row := remember(text)
				if _, err := f.m.AddVector(f.ctx, k, row.Digest, tiering.MemoryVector{Space: "x", Vector: []float32{float32(len(text))}}, tiering.IndexIndexed); err != nil {
					t.Error(err)
				}
				if _, err := f.m.SetMemory(f.ctx, k, *row.Memory); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	f.holds() // the last one was a delete
	spaces, err := f.m.Spaces(f.ctx)
	f.no(err)
	equal(f.fixture, "spaces with vectors", len(spaces), 0)
}
