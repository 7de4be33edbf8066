package warmtest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// mind is the namespace of memories.
const mind = "mind"

// memoryFixture is a fixture with a namespace of memories.
type memoryFixture struct {
	*fixture
	m warm.Memories
}

func memories(t *testing.T, h Harness) memoryFixture {
	t.Helper()
	return remembering(setup(t, h))
}

func remembering(f *fixture) memoryFixture {
	f.Helper()
	_, err := f.store.EnsureNamespace(f.ctx, warm.Namespace{Tenant: tenant, Name: mind, Kind: tiering.KindMemory, Class: tiering.ClassPersistent})
	f.no(err)
	m, ok := warm.As[warm.Memories](f.store)
	if !ok {
		f.Fatal("the store keeps no memories")
	}
	return memoryFixture{f, m}
}

func memoryKey(id string) tiering.Key {
	return tiering.Key{Tenant: tenant, Namespace: mind, ID: id}
}

// vec is a unit vector of three dimensions along an axis.
func vec(space string, axis int) tiering.MemoryVector {
	v := make([]float32, 3)
	v[axis] = 1
	return tiering.MemoryVector{Space: space, Vector: v}
}

// entryOf is an entry as it comes with a body that says text.
func entryOf(body, text string, vectors ...tiering.MemoryVector) *tiering.MemoryEntry {
	m := &tiering.MemoryEntry{
		Digest: tiering.DigestOf([]byte(body)), Analyzer: 1, TextHash: tiering.DigestOf([]byte(text)),
		Type: tiering.MemoryFact, Status: tiering.IndexPending, Vectors: vectors,
	}
	words := strings.Fields(text)
	m.Length = len(words)
	slices.Sort(words)
	for _, w := range words {
		if n := len(m.Terms); n > 0 && m.Terms[n-1].Text == w {
			m.Terms[n-1].Freq++
			continue
		}
		m.Terms = append(m.Terms, tiering.MemoryTerm{Text: w, Freq: 1})
	}
	if len(vectors) > 0 {
		m.Status = tiering.IndexIndexed
	}
	return m
}

// remember is a put of a memory; body and text are the same unless told apart.
func remember(text string, vectors ...tiering.MemoryVector) warm.Row {
	body := fmt.Sprintf(`{"text":%q}`, text)
	row := put(body)
	row.Memory = entryOf(body, text, vectors...)
	return row
}

// indexed returns what the index has of a key; ok false for nothing.
func (f memoryFixture) indexed(k tiering.Key) (m warm.IndexedMemory, ok bool) {
	f.Helper()
	found, err := f.m.MemoriesOf(f.ctx, []tiering.Key{k})
	f.no(err)
	if len(found) == 0 {
		return m, false
	}
	return found[0], true
}

// holds fails the test unless the index has exactly the memories with these
// texts, "id: terms" in key order, wherever it is asked.
func (f memoryFixture) holds(want ...string) {
	f.Helper()
	all, err := f.m.MemoriesAfter(f.ctx, tiering.Key{}, 1000)
	f.no(err)
	var got []string
	for _, m := range all {
		var words []string
		for _, t := range m.Entry.Terms {
			words = append(words, t.Text)
		}
		got = append(got, m.Key.ID+": "+strings.Join(words, " "))
		if m.Head.Digest != m.Entry.Digest || !m.Head.Live(f.clock.Now()) {
			f.Fatalf("the entry of %s stands beside %+v", m.Key, m.Head)
		}
	}
	if !slices.Equal(got, want) {
		f.Fatalf("the index holds %q, want %q", got, want)
	}
}

func testMemories(t *testing.T, h Harness) {
	k := memoryKey("k")
	t.Run("an entry comes back as it was", func(t *testing.T) {
		f := memories(t, h)
		at := f.clock.Now()
		row := remember("the cat sat on the mat", vec("a/3", 0), vec("b/3", 1))
		full := row.Memory
		full.Type, full.Agent, full.App, full.Session, full.Speaker = tiering.MemoryEvent, "agent\x01é", "app", "s-1", "Ann"
		full.At, full.Until, full.UsedAt, full.Ends = at.Add(-time.Hour), at.Add(time.Hour), at.Add(-time.Minute), time.Unix(0, 0).UTC()
		full.Importance, full.Uses, full.Analyzer = 0.625, 7, 3
		full.Links = []tiering.Link{{Relation: "caused", To: "b"}, {Relation: "after", To: "a"}}
		f.must(k, row)
		f.must(memoryKey("bare"), remember("nothing more"))
		got, ok := f.indexed(k)
		equal(f.fixture, "found", ok, true)
		if !reflect.DeepEqual(got.Entry, *full) {
			t.Fatalf("the entry is\n%+v\nwant\n%+v", got.Entry, *full)
		}
		if want := f.load(k).Head; got.Key != k || got.Head != want {
			t.Fatalf("it stands beside %+v, want %+v", got.Head, want)
		}
		got, _ = f.indexed(memoryKey("bare"))
		if want := remember("nothing more").Memory; !reflect.DeepEqual(got.Entry, *want) {
			t.Fatalf("the entry is\n%+v\nwant\n%+v", got.Entry, *want)
		}
	})
	t.Run("an entry stands beside a live head of its digest alone", func(t *testing.T) {
		f := memories(t, h)
		other := remember("of another body")
		other.Memory.Digest = tiering.DigestOf([]byte("something else"))
		for _, c := range []struct {
			name string
			do   func(f memoryFixture, k tiering.Key)
			want string
		}{
			{"written", func(f memoryFixture, k tiering.Key) {}, "cat"},
			{"written anew", func(f memoryFixture, k tiering.Key) { f.must(k, remember("dog")) }, "dog"},
			{"written without an entry", func(f memoryFixture, k tiering.Key) { f.must(k, put(`{"text":"x"}`)) }, ""},
			{"the same bytes without an entry", func(f memoryFixture, k tiering.Key) { f.must(k, put(`{"text":"cat"}`)) }, "cat"},
			{"an entry of other bytes", func(f memoryFixture, k tiering.Key) { f.must(k, other) }, ""},
			{"deleted", func(f memoryFixture, k tiering.Key) { f.must(k, op(tiering.OpDelete)) }, ""},
			{"deleted and written", func(f memoryFixture, k tiering.Key) { f.must(k, op(tiering.OpDelete)); f.must(k, remember("dog")) }, "dog"},
			{"touched and pinned", func(f memoryFixture, k tiering.Key) {
				row := op(tiering.OpTouch)
				row.Expiry = ttl(time.Hour)
				f.must(k, row)
				f.must(k, op(tiering.OpPin))
			}, "cat"},
			{"a condition failed", func(f memoryFixture, k tiering.Key) {
				f.status(f.one(k, remember("dog"), tiering.IfVersion(9)), warm.Conflict)
			}, "cat"},
			{"a fold", func(f memoryFixture, k tiering.Key) { f.commit(change(k, remember("dog"), remember("emu"))) }, "emu"},
			{"a fold that ends without an entry", func(f memoryFixture, k tiering.Key) { f.commit(change(k, remember("dog"), put(`1`))) }, ""},
			{"a repeat of a known request", func(f memoryFixture, k tiering.Key) {
				row := remember("dog")
				row.Idempotency = once("r"+k.ID, "x")
				f.must(k, row)
				f.must(k, remember("emu"))
				f.status(f.one(k, row), warm.Replayed)
			}, "emu"},
			{"expired", func(f memoryFixture, k tiering.Key) {
				row := remember("dog")
				row.Expiry = ttl(time.Minute)
				f.must(k, row)
				f.clock.advance(time.Hour)
			}, ""},
			{"expired, swept and written", func(f memoryFixture, k tiering.Key) {
				row := remember("dog")
				row.Expiry = ttl(time.Minute)
				f.must(k, row)
				f.clock.advance(time.Hour)
				f.must(k, op(tiering.OpExpire))
				if _, ok := f.indexed(k); ok {
					t.Error("what is swept has an entry")
				}
				f.must(k, remember("emu"))
			}, "emu"},
			{"in an atomic batch", func(f memoryFixture, k tiering.Key) {
				_, ok, err := f.store.Atomic(f.ctx, batch().ID, []tiering.Key{k}, nil, func([]warm.Current) ([]warm.Change, error) {
					return []warm.Change{change(k, remember("dog"))}, nil
				})
				f.no(err)
				equal(f.fixture, "committed", ok, true)
			}, "dog"},
			{"demoted", func(f memoryFixture, k tiering.Key) {
				f.archived("s"+k.ID, tiering.CopyVerified, tiering.CopyVerified, k, 1, 1)
				moved, err := f.store.Demote(f.ctx, k, 1, f.clock.Now())
				f.no(err)
				equal(f.fixture, "demoted", moved, true)
			}, "cat"},
		} {
			t.Run(c.name, func(t *testing.T) {
				k := memoryKey(c.name)
				f.must(k, remember("cat", vec("a/3", 0)))
				c.do(f, k)
				m, ok := f.indexed(k)
				if ok != (c.want != "") || ok && (m.Entry.Terms[0].Text != c.want || m.Head != f.load(k).Head || m.Head.Digest != m.Entry.Digest) {
					t.Errorf("the index has %+v (%v), want %q", m, ok, c.want)
				}
			})
		}
		// Those that say cat still, and no more.
		spaces, err := f.m.Spaces(f.ctx)
		f.no(err)
		equal(f.fixture, "vectors", fmt.Sprint(spaces), "[{a/3 5}]")
	})
	t.Run("another user writes the same text where it expired", func(t *testing.T) {
		f := memories(t, h)
		row := remember("cat", vec("a/3", 0))
		row.User, row.Expiry = "ann", ttl(time.Minute)
		f.must(k, row)
		f.clock.advance(time.Hour)
		row = remember("cat")
		row.User = "bob"
		f.must(k, row)
		m, _ := f.indexed(k)
		equal(f.fixture, "whose it is", m.Head.User, "bob")
		equal(f.fixture, "status", m.Entry.Status, tiering.IndexIndexed)
		equal(f.fixture, "vectors", fmt.Sprint(m.Entry.Vectors), fmt.Sprint([]tiering.MemoryVector{vec("a/3", 0)}))
	})
	t.Run("documents of other kinds have no entry", func(t *testing.T) {
		f := memories(t, h)
		f.must(key("a"), put(`{"text":"cat"}`))
		f.holds()
		pending, err := f.m.PendingMemories(f.ctx, 1, "", tiering.Key{}, 10)
		f.no(err)
		equal(f.fixture, "pending", len(pending), 0)
	})
	t.Run("many in one batch, in key order by the page", func(t *testing.T) {
		f := memories(t, h)
		var changes []warm.Change
		var want []string
		for i := range 25 {
			id := fmt.Sprintf("m-%02d", i)
			changes, want = append(changes, change(memoryKey(id), remember("word"+id, vec("a/3", i%3)))), append(want, id)
		}
		f.commit(changes...)
		f.no(errOf(f.store.EnsureNamespace(f.ctx, warm.Namespace{Tenant: "globex", Name: mind, Kind: tiering.KindMemory, Class: tiering.ClassPersistent})))
		f.must(tiering.Key{Tenant: "globex", Namespace: mind, ID: "z"}, remember("other"))
		var got []string
		for after := (tiering.Key{}); ; {
			page, err := f.m.MemoriesAfter(f.ctx, after, 4)
			f.no(err)
			for _, m := range page {
				got, after = append(got, m.Key.ID), m.Key
			}
			if len(page) < 4 {
				break
			}
		}
		if want = append(want, "z"); !slices.Equal(got, want) {
			t.Fatalf("pages hold %v, want %v", got, want)
		}
		some, err := f.m.MemoriesOf(f.ctx, []tiering.Key{memoryKey("m-03"), memoryKey("none"), memoryKey("m-21"), {Tenant: "globex", Namespace: "none", ID: "z"}})
		f.no(err)
		equal(f.fixture, "found", len(some), 2)
	})
	t.Run("the same text keeps its vectors", func(t *testing.T) {
		f := memories(t, h)
		f.must(k, remember("cat", vec("a/3", 0), vec("b/3", 1)))
		row := put(`{"text":"cat","uses":1}`)
		row.Memory = entryOf(`{"text":"cat","uses":1}`, "cat", vec("b/3", 2))
		row.Memory.Status = tiering.IndexPending
		f.must(k, row)
		got, _ := f.indexed(k)
		equal(f.fixture, "status", got.Entry.Status, tiering.IndexIndexed)
		want := []tiering.MemoryVector{vec("a/3", 0), vec("b/3", 2)}
		slices.SortFunc(got.Entry.Vectors, func(a, b tiering.MemoryVector) int { return strings.Compare(a.Space, b.Space) })
		if !reflect.DeepEqual(got.Entry.Vectors, want) {
			t.Fatalf("the vectors are %v, want %v", got.Entry.Vectors, want)
		}
		f.must(k, remember("dog"))
		got, _ = f.indexed(k)
		equal(f.fixture, "vectors of another text", len(got.Entry.Vectors), 0)
		equal(f.fixture, "status", got.Entry.Status, tiering.IndexPending)
	})
	t.Run("what lacks something is found", func(t *testing.T) { testPendingMemories(t, h) })
	t.Run("failed attempts", func(t *testing.T) { testMemoryAttempts(t, h) })
	t.Run("guarded writes", func(t *testing.T) { testMemoryGuards(t, h) })
	t.Run("spaces", func(t *testing.T) { testMemorySpaces(t, h) })
	t.Run("texts and links", func(t *testing.T) { testMemoryLookups(t, h) })
	t.Run("erase", func(t *testing.T) { testMemoryErase(t, h) })
	t.Run("a namespace that is dropped", func(t *testing.T) {
		f := memories(t, h)
		row := remember("cat", vec("a/3", 0))
		row.Expiry = ttl(time.Minute)
		f.must(k, row)
		f.clock.advance(time.Hour)
		dropped, err := f.store.DropNamespace(f.ctx, tenant, mind)
		f.no(err)
		equal(f.fixture, "dropped", dropped, true)
		spaces, err := f.m.Spaces(f.ctx)
		f.no(err)
		equal(f.fixture, "spaces with vectors", len(spaces), 0)
	})
	t.Run("a rebuilt store has none, and says so", func(t *testing.T) {
		f := bare(t, h)
		m, ok := warm.As[warm.Memories](f.store)
		equal(f, "keeps memories", ok, true)
		f.beginRestore()
		f.no(f.store.RestoreNamespace(f.ctx, warm.Namespace{Tenant: tenant, Name: mind, Kind: tiering.KindMemory, Class: tiering.ClassPersistent}))
		f.no(f.store.RestoreKeys(f.ctx, []warm.Restored{f.restored(k, 3, `{"text":"cat"}`)}))
		f.no(f.store.EndRestore(f.ctx))
		r := memoryFixture{f, m}
		r.holds()
		pending, err := m.PendingMemories(f.ctx, 1, "", tiering.Key{}, 10)
		f.no(err)
		if len(pending) != 1 || pending[0].Head.Key != k || string(pending[0].Body) != `{"text":"cat"}` {
			t.Fatalf("pending are %+v", pending)
		}
		set, err := m.SetMemory(f.ctx, k, *entryOf(`{"text":"cat"}`, "cat"))
		f.no(err)
		equal(f, "set", set, true)
		r.holds("k: cat")
	})
	t.Run("entries outlive a restart", func(t *testing.T) {
		f := memories(t, h)
		f.must(k, remember("cat", vec("a/3", 0)))
		f.no(errOf(f.m.SetEmbedding(f.ctx, warm.Embedding{}, warm.Embedding{Active: "x:"})))
		before, _ := f.indexed(k)
		f.reopen()
		f.m, _ = warm.As[warm.Memories](f.store)
		if after, _ := f.indexed(k); !reflect.DeepEqual(after, before) {
			t.Fatalf("after a restart the entry is %+v, want %+v", after, before)
		}
		e, err := f.m.Embedding(f.ctx)
		f.no(err)
		equal(f.fixture, "embedding", e, warm.Embedding{Active: "x:"})
	})
	t.Run("a journal tells what changed", func(t *testing.T) { testMemoryJournal(t, h) })
	t.Run("writers and indexers race", func(t *testing.T) { testMemoryRacing(t, h) })
}

// errOf drops what comes before an error.
func errOf[T any](_ T, err error) error { return err }
