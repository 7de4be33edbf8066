package vectortest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/vector"
	"github.com/tierd/tierd/vector/lexical"
)

const (
	tenant = "acme"
	mind   = "mind"
	space  = "test:small:3"
)

func key(id string) tiering.Key { return tiering.Key{Tenant: tenant, Namespace: mind, ID: id} }

// everything is the scope of a namespace.
func everything() vector.Scope { return vector.Scope{Tenant: tenant, Namespaces: []string{mind}} }

// unit is a vector of length 1 in the direction of v.
func unit(v ...float32) []float32 { return vector.Normalise(v) }

// entry is the entry of a text of words that are their own terms.
func entry(text string, v ...float32) tiering.MemoryEntry {
	e := tiering.MemoryEntry{Analyzer: 1, Type: tiering.MemoryFact, TextHash: tiering.DigestOf([]byte(text)), Status: tiering.IndexPending}
	words := strings.Fields(text)
	e.Length = len(words)
	slices.Sort(words)
	for _, w := range words {
		if n := len(e.Terms); n > 0 && e.Terms[n-1].Text == w {
			e.Terms[n-1].Freq++
		} else {
			e.Terms = append(e.Terms, tiering.MemoryTerm{Text: w, Freq: 1})
		}
	}
	if v != nil {
		e.Vectors, e.Status = []tiering.MemoryVector{{Space: space, Vector: unit(v...)}}, tiering.IndexIndexed
	}
	return e
}

// memory is a memory with a text and a vector.
func memory(id, text string, v ...float32) Memory {
	return Memory{Key: key(id), Entry: entry(text, v...)}
}

// ask is a query for words; "a~b:0.5" is a with the neighbour b.
func ask(text string) lexical.Query {
	var q lexical.Query
	for _, w := range strings.Fields(text) {
		word, near, _ := strings.Cut(w, "~")
		t := lexical.QueryTerm{Term: word, Weight: 1}
		for _, n := range strings.FieldsFunc(near, func(r rune) bool { return r == '~' }) {
			var nb lexical.Neighbour
			name, similarity, _ := strings.Cut(n, ":")
			nb.Term = name
			if _, err := fmt.Sscan(similarity, &nb.Similarity); err != nil {
				nb.Similarity = 0.5
			}
			t.Neighbours = append(t.Neighbours, nb)
		}
		q.Terms = append(q.Terms, t)
	}
	return q
}

func testNearest(t *testing.T, h Harness) {
	b := open(t, h)
	b.remember(memory("x", "one", 1, 0, 0), memory("y", "two", 0, 1, 0), memory("xy", "three", 1, 1, 0), memory("-x", "four", -1, 0, 0), memory("none", "five"))
	other := memory("other", "six")
	other.Entry.Vectors = []tiering.MemoryVector{{Space: "test:wide:4", Vector: unit(1, 0, 0, 0)}}
	b.remember(other)
	for _, c := range []struct {
		name  string
		space string
		v     []float32
		limit int
	}{
		{"all of them", space, unit(1, 0, 0), 10},
		{"the best two", space, unit(1, 0.1, 0), 2},
		{"a query that is not of length 1", space, []float32{7, 3, 1}, 10},
		{"another space", "test:wide:4", unit(1, 1, 1, 1), 10},
		{"a space that nobody has", "test:none:3", unit(1, 0, 0), 10},
		{"other dimensions", space, unit(1, 0), 10},
	} {
		t.Run(c.name, func(t *testing.T) { b.on(t).check(c.name, everything(), c.space, c.v, ask("one six"), c.limit) })
	}
	for _, v := range [][]float32{nil, {0, 0, 0}, {float32(math.NaN()), 0, 0}, {float32(math.Inf(1)), 0, 0}} {
		hits, err := b.w.Index().Nearest(t.Context(), everything(), space, v, 10, false)
		if err != nil || len(hits) > 0 {
			t.Errorf("nearest to %v: %v, %v, want nothing", v, hits, err)
		}
	}
	if hits, err := b.w.Index().Nearest(t.Context(), everything(), space, unit(1, 0, 0), 0, false); err != nil || len(hits) > 0 {
		t.Errorf("a limit of 0: %v, %v", hits, err)
	}
}

func testScopes(t *testing.T, h Harness) {
	b := open(t, h)
	now := b.w.Now()
	i := 0
	add := func(id string, change func(*Memory)) {
		i++
		m := memory(id, "word w"+fmt.Sprint(i%7), float32(i%5)-2, float32(i%3)+0.5, 1)
		change(&m)
		b.remember(m)
	}
	for n := range 12 {
		add(fmt.Sprintf("u/%02d", n), func(m *Memory) {
			m.User = []string{"", "ann", "bob"}[n%3]
			m.Entry.Agent, m.Entry.App = []string{"", "a1", "a2"}[n/2%3], []string{"", "p1"}[n%2]
			m.Entry.Session, m.Entry.Type = []string{"s1", "s2", ""}[n/3%3], []tiering.MemoryType{tiering.MemoryFact, tiering.MemoryEvent}[n%2]
			m.Entry.At = now.Add(time.Duration(n-20) * time.Hour)
			if n%4 == 0 {
				m.Entry.Until = m.Entry.At.Add(5 * time.Hour)
			}
			m.Entry.Importance, m.Entry.Uses, m.Entry.UsedAt, m.Entry.Speaker = float64(n)/16, int64(n), now.Add(-time.Hour), "Ann"
		})
	}
	add("v/superseded", func(m *Memory) { m.Entry.Ends = time.Unix(0, 0).UTC() })
	add("v/ended", func(m *Memory) { m.Entry.Ends = now })
	add("v/ending", func(m *Memory) { m.Entry.Ends = now.Add(time.Hour) })
	add("w%_\\é/1", func(*Memory) {})
	add("x\uFFFD/1", func(*Memory) {})
	add("x\U0001F600/1", func(*Memory) {})
	add("mine", func(m *Memory) { m.Key.Namespace = "second" })
	add("theirs", func(m *Memory) { m.Key.Tenant = "globex" })
	for _, c := range []struct {
		name string
		set  func(*vector.Scope)
	}{
		{"a namespace", func(*vector.Scope) {}},
		{"two namespaces", func(s *vector.Scope) { s.Namespaces = []string{mind, "second", mind} }},
		{"a namespace that is not there", func(s *vector.Scope) { s.Namespaces = []string{"third"} }},
		{"another tenant", func(s *vector.Scope) { s.Tenant = "globex" }},
		{"a tenant that is not there", func(s *vector.Scope) { s.Tenant = "nobody" }},
		{"a user", func(s *vector.Scope) { s.User = "ann" }},
		{"a user that is not there", func(s *vector.Scope) { s.User = "eve" }},
		{"an agent", func(s *vector.Scope) { s.Agent = "a1" }},
		{"an app", func(s *vector.Scope) { s.App = "p1" }},
		{"a session", func(s *vector.Scope) { s.Session = "s1" }},
		{"a type", func(s *vector.Scope) { s.Types = []tiering.MemoryType{tiering.MemoryEvent} }},
		{"types, one of which is not there", func(s *vector.Scope) { s.Types = []tiering.MemoryType{tiering.MemoryFact, tiering.MemoryKnowledge} }},
		{"a type that is not there", func(s *vector.Scope) { s.Types = []tiering.MemoryType{tiering.MemoryKnowledge} }},
		{"prefixes", func(s *vector.Scope) { s.Prefixes = []string{"u/0", "v/"} }},
		{"a prefix with wildcards", func(s *vector.Scope) { s.Prefixes = []string{"w%_\\é/"} }},
		{"a prefix that ends in U+FFFD", func(s *vector.Scope) { s.Prefixes = []string{"x\uFFFD"} }},
		{"a prefix that is not there", func(s *vector.Scope) { s.Prefixes = []string{"w%%"} }},
		{"since", func(s *vector.Scope) { s.Since = now.Add(-14 * time.Hour) }},
		{"until", func(s *vector.Scope) { s.Until = now.Add(-15 * time.Hour) }},
		{"a time", func(s *vector.Scope) { s.Since, s.Until = now.Add(-16*time.Hour), now.Add(-15*time.Hour) }},
		{"what holds no more", func(s *vector.Scope) { s.Superseded = true }},
		{"keys", func(s *vector.Scope) {
			s.Keys = []tiering.Key{key("u/03"), key("u/03"), key("none"), key("v/ended"), key("v/ending"), {Tenant: tenant, Namespace: "second", ID: "mine"}}
		}},
		{"no keys", func(s *vector.Scope) { s.Keys = []tiering.Key{} }},
		{"all at once", func(s *vector.Scope) {
			s.User, s.Agent, s.App, s.Session, s.Prefixes = "bob", "a2", "p1", "s2", []string{"u/"}
			s.Types, s.Since, s.Until = []tiering.MemoryType{tiering.MemoryEvent}, now.Add(-30*time.Hour), now
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := everything()
			c.set(&s)
			for _, limit := range []int{3, 100} {
				b.on(t).check(c.name, s, space, unit(1, 2, 3), ask("word w1 w2"), limit)
			}
		})
	}
}

func testWords(t *testing.T, h Harness) {
	b := open(t, h)
	for i, text := range []string{
		"the cat sat on the mat", "the cat", "cat cat cat", "a dog and a cat", "the dog", "bird", "fish swim in the sea", "", "puppy love", "kitten",
		"an odd word 'quoted' \\ %", "漢字 字漢",
	} {
		b.remember(memory(fmt.Sprintf("%02d", i), text))
	}
	for _, q := range []string{
		"cat", "the", "cat dog", "nothing", "", "cat~kitten:0.8~none:0.7", "dog~puppy:0.9~cat:0.5 bird", "none~fish:0.6", "'quoted' \\ %", "漢字",
		"cat~c1~c2~c3~c4~c5~c6~c7~c8~c9~c10~c11~c12~c13~c14~c15~c16~c17~c18~c19~c20~dog:0.9",
	} {
		t.Run(q, func(t *testing.T) {
			for _, limit := range []int{2, 100} {
				b.on(t).check(q, everything(), space, unit(1, 0, 0), ask(q), limit)
			}
		})
	}
	t.Run("weights", func(t *testing.T) {
		q := ask("cat dog")
		q.Terms[0].Weight = 0.3
		b.on(t).check("weights", everything(), space, unit(1, 0, 0), q, 10)
	})
	t.Run("counts", func(t *testing.T) {
		two := everything()
		two.Namespaces = append(two.Namespaces, "second", mind)
		m := memory("x", "the cat")
		m.Key.Namespace = "second"
		b.remember(m)
		for _, c := range []struct {
			s    vector.Scope
			want string
		}{
			{everything(), "{12 35} [4 4 0]"}, {two, "{13 37} [5 5 0]"}, {vector.Scope{Tenant: "nobody", Namespaces: []string{mind}}, "{0 0} [0 0 0]"},
		} {
			c.s.User = "whoever: counts are before any filter"
			stats, df, err := b.w.Index().Frequencies(t.Context(), c.s, []string{"cat", "the", "none"})
			if got := fmt.Sprint(stats, df); err != nil || got != c.want {
				t.Errorf("counts are %s, %v, want %s", got, err, c.want)
			}
		}
		b.on(t).check("both", two, space, unit(1, 0, 0), ask("cat the"), 10)
	})
}

func testAround(t *testing.T, h Harness) {
	b := open(t, h)
	now := b.w.Now()
	say := func(id, session, user string, at time.Duration) {
		m := memory(id, "said "+id)
		m.User, m.Entry.Session, m.Entry.At = user, session, now.Add(at)
		b.remember(m)
	}
	say("c", "s", "", 3*time.Minute)
	say("a", "s", "", time.Minute)
	say("b2", "s", "ann", 2*time.Minute)
	say("b1", "s", "", 2*time.Minute)
	say("lone", "l", "", 0)
	say("free", "", "", 0)
	say("t", "t", "", 2*time.Minute)
	say("gone", "s", "", 4*time.Minute)
	b.delete(key("gone"))
	hits, err := b.w.Index().Words(t.Context(), everything(), ask("said"), 100)
	if err != nil || len(hits) != 7 {
		t.Fatalf("%d hits, %v", len(hits), err)
	}
	hits = append(hits, vector.Hit{Key: key("gone"), Session: "s"})
	for _, c := range []struct {
		name string
		set  func(*vector.Scope)
		want string
	}{
		{"in a namespace", func(*vector.Scope) {}, "a: - b1, b1: a b2, b2: b1 c, c: b2 -, lone: - -, t: - -"},
		{"of a user", func(s *vector.Scope) { s.User = "ann" }, "a: - b2, b1: - b2, b2: - -, c: b2 -, lone: - -, t: - -"},
		{"of keys", func(s *vector.Scope) { s.Keys = []tiering.Key{key("a"), key("c")} }, "a: - c, b1: a c, b2: a c, c: a -, lone: - -, t: - -"},
		{"of another namespace", func(s *vector.Scope) { s.Namespaces = []string{"second"} }, ""},
	} {
		s := everything()
		c.set(&s)
		around, err := b.w.Index().Around(t.Context(), s, hits)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, a := range around {
			name := func(h *vector.Hit) string {
				if h == nil {
					return "-"
				}
				if want := hit(b.items[h.Key], 0); *h != want {
					t.Errorf("%s: a neighbour is\n%+v\nwant\n%+v", c.name, *h, want)
				}
				return h.Key.ID
			}
			got = append(got, a.Of.ID+": "+name(a.Before)+" "+name(a.After))
		}
		slices.Sort(got)
		if text := strings.Join(got, ", "); c.name != "of another namespace" && text != c.want {
			t.Errorf("%s: %s, want %s", c.name, text, c.want)
		}
	}
}

func testCoherence(t *testing.T, h Harness) {
	k := key("k")
	for _, c := range []struct {
		name string
		do   func(b *bench)
	}{
		{"written", func(*bench) {}},
		{"written anew", func(b *bench) { b.remember(memory("k", "dog", 0, 1, 0)) }},
		{"another text without a vector", func(b *bench) { b.remember(memory("k", "dog")) }},
		{"the same text without a vector", func(b *bench) { b.remember(memory("k", "cat")) }},
		{"embedded later", func(b *bench) {
			b.remember(memory("k", "dog"))
			b.addVector(k, tiering.MemoryVector{Space: space, Vector: unit(0, 1, 1)})
		}},
		{"embedded anew", func(b *bench) { b.addVector(k, tiering.MemoryVector{Space: space, Vector: unit(0, 1, 1)}) }},
		{"in a second space", func(b *bench) { b.addVector(k, tiering.MemoryVector{Space: "test:other:2", Vector: unit(1, 1)}) }},
		{"deleted", func(b *bench) { b.delete(k) }},
		{"deleted and written", func(b *bench) { b.delete(k); b.remember(memory("k", "emu", 1, 1, 1)) }},
		{"expired", func(b *bench) {
			m := memory("k", "dog", 1, 0, 0)
			m.TTL = time.Minute
			b.remember(m)
			b.check("before", everything(), space, unit(1, 0, 0), ask("dog"), 10)
			b.w.Advance(time.Hour)
			b.remember(memory("dog", "dog", 0, 1, 0))
			delete(b.items, k)
		}},
		{"erased", func(b *bench) {
			m := memory("ann", "cat", 1, 0, 0)
			m.User = "ann"
			b.remember(m)
			b.check("before", everything(), space, unit(1, 0, 0), ask("cat"), 10)
			b.erase(tenant, "ann")
		}},
		{"a space that was dropped", func(b *bench) {
			b.w.DropSpace(b, space)
			for k, it := range b.items {
				it.Entry.Vectors = nil
				b.items[k] = it
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, settled := range []bool{false, true} {
				b := open(t, h)
				b.remember(memory("k", "cat", 1, 0, 0), memory("l", "cat and cat", 0, 0, 1))
				if settled {
					Settle(t, b.w.Index())
				}
				b.check("before", everything(), space, unit(1, 0, 0), ask("cat"), 10)
				c.do(b)
				if settled {
					Settle(t, b.w.Index())
				}
				q := ask("cat dog emu")
				if c.name == "expired" {
					// Until the sweep meets it it may count in the statistics.
					q = ask("nothing")
				}
				b.check(c.name, everything(), space, unit(1, 0.5, 0.25), q, 10)
				b.check("the other space", everything(), "test:other:2", unit(1, 0), q, 10)
			}
		})
	}
	t.Run("searches beside writers", func(t *testing.T) {
		b := open(t, h)
		b.remember(memory("always", "cat", 1, 0, 0))
		x := b.w.Index()
		var wg sync.WaitGroup
		stop := make(chan struct{})
		for range 3 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					hits, err := x.Nearest(b.Context(), everything(), space, unit(1, 0, 0), 1, false)
					if err != nil || len(hits) != 1 || hits[0].Key.ID != "always" {
						t.Errorf("nearest: %v, %v", hits, err)
						return
					}
					if hits, err = x.Words(b.Context(), everything(), ask("cat"), 5); err != nil || len(hits) == 0 {
						t.Errorf("words: %v, %v", hits, err)
						return
					}
				}
			})
		}
		for i := range 40 {
			b.remember(memory(fmt.Sprint("m", i%5), fmt.Sprint("dog", i), 0, 1, float32(i)))
			if i%3 == 0 {
				b.delete(key(fmt.Sprint("m", i%5)))
			}
		}
		Settle(b, x)
		close(stop)
		wg.Wait()
		b.check("at the end", everything(), space, unit(0, 1, 1), ask("dog39 cat"), 10)
	})
}
